"""The agent's stories on a kernel with cgroup v2: Debian's, booted in a guest.

The guest needs no hardware's help, and is slow for that: `make test-guest` runs it, `make test` does not.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import required_groups
from tests.guest import boot, image

WITHIN_S = 300.0

pytestmark = [pytest.mark.guest, pytest.mark.timeout(WITHIN_S + image.DOWNLOAD_WITHIN_S)]


@pytest.mark.parametrize("guest", boot.GUESTS, ids=lambda guest: guest.name)
def test_the_agent_on_cgroup_v2(guest: boot.Guest, tmp_path: Path) -> None:
    try:
        guest_report = boot.run(guest, tmp_path, WITHIN_S)
    except image.NoGuest as missing:
        if "guest" in required_groups() and not isinstance(missing, image.NoOwnKernel):
            raise
        pytest.skip(f"group guest: {missing}")
    assert not guest_report.others, "\n".join([*guest_report.others, guest_report.console])
    assert len(guest_report.passed) == len(guest.tests)
