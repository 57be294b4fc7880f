"""Tables on the terminal: columns as wide as their content, colours only on a terminal.

A table too wide for the terminal is wrapped within its columns, the widest first; in a pipe nothing is wrapped.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from textwrap import wrap
from typing import Final

import click

GAP: Final = 3
LONGEST_WORD: Final = 32
"""Words up to this length are never broken."""


def terminal_columns() -> int | None:
    """The width of the terminal; None without a terminal."""
    return shutil.get_terminal_size((100, 30)).columns if sys.stdout.isatty() else None


def table(
    rows: Sequence[Sequence[str]],
    *,
    right: frozenset[int] = frozenset(),
    colours: Mapping[str, str] | None = None,
    most: int | None = None,
) -> str:
    """Lines with a heading. `right`: columns aligned right, for numbers. `colours`: colours by the text of a cell.
    Lines are at most `most` characters long, unless a word is longer."""
    columns = range(len(rows[0]))
    widths = [max(len(row[column]) for row in rows) for column in columns]
    if most is not None:
        _narrow(widths, rows, right, most)
    lines = []
    for row in rows:
        cells = [_wrapped(text, width) for text, width in zip(row, widths, strict=True)]
        for parts in zip_longest(*cells, fillvalue=""):
            lines.append((" " * GAP).join(_drawn(row, parts, widths, right, colours or {})).rstrip())
    return "\n".join(lines)


def _wrapped(text: str, width: int) -> list[str]:
    return [text] if len(text) <= width else wrap(text, width, break_on_hyphens=False)


def _drawn(
    row: Sequence[str],
    parts: Sequence[str],
    widths: Sequence[int],
    right: frozenset[int],
    colours: Mapping[str, str],
) -> list[str]:
    """One line of a wrapped row; `parts` has the piece of each cell."""
    drawn = []
    for i, (text, part, width) in enumerate(zip(row, parts, widths, strict=True)):
        cell = part.rjust(width) if i in right else part.ljust(width)
        if i == len(row) - 1 and i not in right:
            cell = part
        drawn.append(click.style(cell, fg=colours[text]) if text in colours else cell)
    return drawn


def _narrow(widths: list[int], rows: Sequence[Sequence[str]], right: frozenset[int], most: int) -> None:
    """Shrinks the widest text columns, but never below their longest word."""
    least = [
        min(LONGEST_WORD, max((len(word) for row in rows for word in row[i].split()), default=0))
        for i in range(len(widths))
    ]
    while sum(widths) + GAP * (len(widths) - 1) > most:
        open_ = [i for i in range(len(widths)) if i not in right and widths[i] > least[i]]
        if not open_:
            return
        widths[max(open_, key=lambda i: widths[i])] -= 1


def heading(text: str) -> str:
    return click.style(text, bold=True)


def short(resource: str, number: int) -> str:
    """An amount in few characters: 250m, 1.5, 12 cores; memory in bytes, Ki, Mi or Gi,
    whichever is short."""
    if not number:
        return "0"
    if resource.endswith("cpu"):
        return f"{number}m" if number < 1000 else f"{number / 1000:.3g}" if number < 1_000_000 else f"{number // 1000}"
    if number < 2**20 / 10:
        return f"{number / 2**10:.3g}Ki" if number >= 2**10 else f"{number}B"
    size, unit = (number / 2**30, "Gi") if number >= 2**30 else (number / 2**20, "Mi")
    return f"{size:.3g}{unit}" if size < 1000 else f"{size:.0f}{unit}"
