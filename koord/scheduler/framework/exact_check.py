"""An exact check: a look at the row that won, for what no column can say.

Plugins that must agree on something for the row (NUMA nodes for CPUs and devices) make offers first, which their
`Joint` settles. Then each plugin checks the row, knowing what was agreed. `exact` runs the checks of a class.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from koord.scheduler.framework.ask import Ask
from koord.scheduler.state.pods import PodRecord
from koord.scheduler.state.table import Row


@dataclass(frozen=True, slots=True)
class Objection:
    """Why the winner will not do after all."""

    reason: str
    resolvable: bool = True
    "Whether it might if pods left the row."


class Joint(Protocol):
    """A step that several plugins take together for one candidate row."""

    def settle(self, offers: Sequence[object], ask: Ask, row: Row) -> object:
        """What suits all plugins that made offers, in the order of the profile; or an `Objection`."""
        ...


@dataclass(frozen=True, slots=True)
class Door:
    """One way onto a row, of pods that see room there which other pods hold: by their room, or beside all of it."""

    plugin: str
    "The plugin that holds the rooms: its `reserve` gets the door that was taken."
    holders: tuple[PodRecord, ...] = ()
    "The pods whose room it takes."
    limited: frozenset[str] = frozenset()
    "Resources that are limited to what is left in the room: that of one pod alone."
    words: str = ""
    "What objections to it begin with, for users."


class ExactCheck:
    """The exact check of one judge."""

    joint: Joint | None = None
    "Where several plugins agree on something for one row before each checks it: NUMA nodes, for example."

    def offer(self, ask: Ask, row: Row, door: Door | None = None) -> object:
        """What the plugin could accept on a row, for `joint` to settle. `door`: the way that is being tried."""
        return None

    def check(self, ask: Ask, row: Row, agreed: object = None, door: Door | None = None) -> object:
        """An `Objection`, or what was worked out on the way: `reserve` gets it. `agreed`: what the joint settled."""
        return None

    def offer_more(self, ask: Ask, row: Row, having: object) -> object:
        """As `offer`, to a pod that keeps all that it has by its note and asks for more. The row is without it."""
        return self.offer(ask, row)

    def check_more(self, ask: Ask, row: Row, agreed: object, having: object) -> object:
        """As `check`: what the pod has afterwards, which is never less than `having`."""
        return self.check(ask, row, agreed)
