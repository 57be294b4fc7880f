"""Tables on the terminal: columns as wide as what is in them, colours only where there is a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import click


def table(
    rows: Sequence[Sequence[str]], *, right: frozenset[int] = frozenset(), colours: Mapping[str, str] | None = None
) -> str:
    """Lines with a heading. `right` are columns of numbers; cells that are in `colours` are drawn so."""
    columns = range(len(rows[0]))
    widths = [max(len(row[column]) for row in rows) for column in columns]
    lines = []
    for row in rows:
        cells = [row[i].rjust(widths[i]) if i in right else row[i].ljust(widths[i]) for i in columns]
        if (len(cells) - 1) not in right:
            cells[-1] = row[-1]
        drawn = [
            click.style(cell, fg=colours[text]) if colours and text in colours else cell
            for cell, text in zip(cells, row, strict=True)
        ]
        lines.append("   ".join(drawn).rstrip())
    return "\n".join(lines)


def heading(text: str) -> str:
    return click.style(text, bold=True)
