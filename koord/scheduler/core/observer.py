"""Looking on while decisions are made: for metrics, diagnoses and tables.

An observer decides nothing. The core has no clock: whoever measures looks at its own when a step begins or ends.
"""

from __future__ import annotations

from collections.abc import Sequence

from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.engine import Engine, Placement
from koord.scheduler.framework.plugin import Remedy
from koord.scheduler.suggestion import Suggestion


class Observer:
    """Told of every step. What is not overridden is not looked at."""

    def placing(self, engine: Engine, asks: Sequence[Ask]) -> None:
        """A place is about to be looked for."""

    def placed(self, engine: Engine, *, found: bool) -> None:
        """That ended."""

    def helped(self, engine: Engine, remedy: Remedy, *, job: str = "") -> None:
        """What would help whoever fits nowhere was looked for since. `job`: the key of the entity, if it is one."""

    def nowhere(
        self, engine: Engine, ask: Ask, placement: Placement, remedy: Remedy, suggestion: Suggestion | None
    ) -> None:
        """A pod fits nowhere."""
