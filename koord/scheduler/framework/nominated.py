"""Pods that were promised a node, as those see them who must leave them their room.

Of what a promise takes, amounts count in every verdict by amounts (`Promised`); scores do not know of promises. The
rest (ports, terms, disks) is looked at only where the row that won has a promise, and a plugin says that it `meets`.
"""

from __future__ import annotations

from collections.abc import Hashable

from koord.scheduler.framework.cells import Cells, Many, One, Overlay
from koord.scheduler.state.nominations import Nominations
from koord.scheduler.state.table import Row


class Promised:
    """The cells of rows, with what promises take there."""

    def __init__(self, nominations: Nominations, floor: int) -> None:
        self._nominations, self._floor = nominations, floor

    def __call__(self, cells: Cells) -> Cells:
        overlay: Overlay = self._nominations.held(self._floor)
        if cells.overlay:
            overlay = _both(cells.overlay, overlay)
        return (One if isinstance(cells, One) else Many)(cells.columns, cells.rows, overlay)


def _both(one: Overlay, other: Overlay) -> Overlay:
    total: dict[Hashable, dict[Row, int]] = {column: dict(cells) for column, cells in one.items()}
    for column, cells in other.items():
        into = total.setdefault(column, {})
        for row, added in cells.items():
            into[row] = into.get(row, 0) + added
    return total
