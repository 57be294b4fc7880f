"""Looking on while decisions are made: for metrics, diagnoses and tables.

An observer decides nothing. The core has no clock: an observer that measures reads its own when a step begins or ends.
"""

from __future__ import annotations

from collections.abc import Sequence

from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.engine import Engine, Placement
from koord.scheduler.framework.remedy import Remedy
from koord.scheduler.suggestion import Suggestion


class Observer:
    """Called at every step. Methods that are not overridden do nothing."""

    def placing(self, engine: Engine, asks: Sequence[Ask]) -> None:
        """A place is about to be looked for."""

    def placed(self, engine: Engine, *, has_place: bool) -> None:
        """That ended."""

    def helped(self, engine: Engine, remedy: Remedy, *, job: str = "") -> None:
        """The search for a remedy has ended, for an entity that fits nowhere. `job`: its key if it is a job."""

    def nowhere(
        self, engine: Engine, ask: Ask, placement: Placement, remedy: Remedy, suggestion: Suggestion | None
    ) -> None:
        """A pod fits nowhere."""
