"""Pods that were promised a node, as those see them who must leave them their room.

Of what a promise takes, amounts count in every verdict by amounts (`Promised`); scores do not know of promises. The
rest (ports, terms, disks) is looked at only where the row that won has a promise: `meets` tells whether it matters.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

from koord.scheduler.framework.plugin import Cells, Many, One, Overlay
from koord.scheduler.state.nominations import Nominations
from koord.scheduler.state.pods import PodRecord
from koord.scheduler.state.table import Row

if TYPE_CHECKING:
    from koord.scheduler.framework.ask import Ask


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


def meets(ask: Ask, promised: PodRecord) -> bool:
    """Whether a pod could be turned away by a promised one for more than its amounts."""
    spec = ask.spec
    return bool(
        promised.held
        or ask.terms.held
        or spec.topology_spread_constraints
        or (promised.ports and ask.ports)
        or (spec.volumes and (promised.claims or promised.own_claims or promised.disks))
    )
