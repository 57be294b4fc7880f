"""What is made from the tables of rights, capabilities and mounts is up to date."""

from __future__ import annotations

import pytest

from koord.operate.install.node_agent import CAPABILITIES
from tools.needs import PAGE, ROOT, made

FILES = made()


@pytest.mark.parametrize("path", FILES)
def test_a_file_says_what_the_code_says(path: str) -> None:
    assert (ROOT / path).read_text() == FILES[path], "run: python -m tools.needs"


def test_the_page_names_every_capability_with_its_reason() -> None:
    page = (ROOT / PAGE).read_text()
    for capability in CAPABILITIES:
        assert f"| `{capability.name}` | {capability.why} |" in page
