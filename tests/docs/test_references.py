"""The pages of docs/reference say what the code says, and all of it."""

from __future__ import annotations

import pytest

from tools.reference import ROOT, made, wrapped

PAGES, UNDESCRIBED = made()


@pytest.mark.parametrize("path", PAGES)
def test_a_reference_is_up_to_date(path: str) -> None:
    assert (ROOT / path).read_text() == PAGES[path], "run: python -m tools.reference"


def test_every_field_option_gate_and_metric_has_a_description() -> None:
    assert UNDESCRIBED == []


def test_paragraphs_wrap_and_tables_do_not() -> None:
    row = "| " + "word " * 40 + "|"
    made_page = wrapped("# A\n\n" + "word " * 40 + f"\n\n\n{row}\n")
    assert row in made_page.splitlines()
    assert max(len(line) for line in made_page.splitlines() if line != row) <= 100
