"""The page of promises is made of the invariants."""

from __future__ import annotations

from tools.promises import PAGE, rewritten


def test_the_page_lists_every_invariant_with_its_promise() -> None:
    page = PAGE.read_text()
    assert rewritten(page) == page, "run: python -m tools.promises --write"
