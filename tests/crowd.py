"""How busy the machine is: for the tests of a promise that is a time."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

MOST_CROWDED = 3.0
"""The tests of this project beside it are fewer."""


def crowd() -> float:
    """On a machine that others use, everything takes as much longer as there are more of them than cores.

    By the load of the last minute, and by what runs at this moment: the load follows a busy minute late.
    """
    running = int(Path("/proc/loadavg").read_text().split()[3].partition("/")[0])
    return max(1.0, max(os.getloadavg()[0], running) / (os.cpu_count() or 1))


ALONE = "KOORD_TEST_ALONE"
"""Set where nothing else can disturb a test: in a guest whose clock counts instructions."""


def needs_room() -> None:
    """Skips a test that measures how long a task waits for its CPU: beside many others it always does. In a guest
    (`make test-guest`) it always runs."""
    if not os.environ.get(ALONE) and crowd() > MOST_CROWDED:
        pytest.skip("other processes keep the CPUs busy")
