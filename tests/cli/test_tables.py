"""Tables that fit the terminal."""

from __future__ import annotations

import click
from hypothesis import given
from hypothesis import strategies as st

from koord.cli.tables import GAP, LONGEST_WORD, table

ROWS = [
    ("PLUGIN", "REASON", "NODES", "FOR EXAMPLE"),
    ("NodePorts", "node(s) didn't have free ports for the requested pod ports", "18", "hollow-0013, hollow-0014"),
    ("TaintToleration", "node(s) had untolerated taint(s)", "2", "hollow-0001"),
]


def test_in_a_pipe_a_row_is_a_line() -> None:
    lines = table(ROWS, right=frozenset({2})).splitlines()
    assert len(lines) == 3
    assert lines[1].startswith("NodePorts         node(s) didn't have free ports for the requested pod ports")


def test_what_is_too_wide_is_wrapped_within_its_column() -> None:
    lines = table(ROWS, right=frozenset({2}), most=60).splitlines()
    assert max(len(line) for line in lines) <= 60
    at = lines[0].index("REASON")
    wrapped = " ".join(line[at : at + 20].strip() for line in lines[1:4])
    assert wrapped.startswith("node(s) didn't have")
    assert "hollow-0013," in lines[1], "words stay whole"


def test_colours_take_no_room() -> None:
    drawn = table(ROWS, colours={"NodePorts": "red"})
    assert click.unstyle(drawn) == table(ROWS)
    assert drawn != table(ROWS)


WORDS = st.text("ab-", min_size=1, max_size=LONGEST_WORD)
CELLS = st.lists(WORDS, min_size=1, max_size=6).map(" ".join)


@given(st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=4), st.integers(20, 120))
def test_nothing_is_lost_and_lines_are_no_longer_than_words_make_them(rows: list[tuple[str, str]], most: int) -> None:
    text = table(rows, most=most)
    assert sorted(text.split()) == sorted(word for row in rows for cell in row for word in cell.split())
    assert max(len(line) for line in text.splitlines()) <= max(most, 2 * LONGEST_WORD + GAP)
