"""Pods that were promised a node, as those see them who must leave them their room.

Of what a promise takes, amounts count in every verdict by amounts (`Promised`); scores do not know of promises. The
rest (ports, terms, disks) is looked at only where the row that won has a promise, and `Nominating.meets` of a plugin
says so.
"""

from __future__ import annotations

from koord.scheduler.framework.cells import Cells, Many, One
from koord.scheduler.state.nominations import Nominations


class Promised:
    """The cells of rows, with what promises take there."""

    def __init__(self, nominations: Nominations, floor: int) -> None:
        self._nominations, self._floor = nominations, floor

    def __call__(self, cells: Cells) -> Cells:
        held = self._nominations.held(self._floor)
        return (One if isinstance(cells, One) else Many)(cells.columns, cells.rows, held)
