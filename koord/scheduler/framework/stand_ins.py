"""Stand-ins: objects of another kind that are placed like pods, and pods that may use the room that these hold.

The pod that stands for an object is made by `Taking.stand_in`. `Reservation` is the example.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from koord.api.kinds import Kind
from koord.scheduler.framework.writes import Write
from koord.scheduler.state.table import Row
from koord.scheduler.state.view import View

if TYPE_CHECKING:
    from koord.scheduler.framework.ask import Ask
    from koord.scheduler.framework.engine import Engine


class StandIns:
    """The stand-ins of one plugin, for one cluster. The defaults say nothing."""

    def view(self, ask: Ask) -> View | None:
        """How the class of a pod sees the cluster; None: like all others. Classes may share one. As long as the
        plugin's key is the same, so is the view; what it shows may change."""
        return None

    def bind(self, ask: Ask, row: Row) -> Write | None:
        """The write that binds a stand-in; None for a pod."""
        return None

    def object_of(self, ask: Ask) -> tuple[Kind[Any], Any] | None:
        """The object that a stand-in stands for, which gets its events; None for a pod."""
        return None

    def use_engines(self, engine_of: Callable[[Ask], Engine | None]) -> None:
        """Called once per core with a lookup from pod to engine."""
