"""Jobs: pods that are queued, placed and bound together. What a plugin that has jobs says of them.

`Coscheduling` is the example. `job_placing` places jobs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from koord.api.kinds import Kind
from koord.scheduler.state.table import Row

if TYPE_CHECKING:
    from koord.scheduler.framework.ask import Ask
    from koord.scheduler.framework.engine import Engine
    from koord.scheduler.framework.remedy import Remedy


@dataclass(frozen=True, slots=True)
class Permit:
    """Whether a placed entity is bound at once, or waits with others until they are released together."""

    group: str = ""
    "The pods that wait together."
    wait_s: float = 0.0
    "0: it does not wait. Of a group, the first one's time counts for all."
    allows: tuple[str, ...] = ()
    "Groups whose waiting members are bound with it."
    keeps_s: float = 0.0
    """Of a job: how long members whose bindings fail keep their places and are bound again, once one is bound. Where
    none of them can be bound, all give their places back together. 0: each goes its own way."""


@dataclass(frozen=True, slots=True)
class JobNeed:
    """What a part of a job needs for any member of the job to be bound."""

    name: str
    "What users call it."
    members: tuple[int, ...]
    "Which of the job's pods are in it, those first that go first."
    at_least: int
    "How many of them must have a place. Others get one if there is room when all parts have what they need."
    waits: str = ""
    "Why none of them gets a place yet, though other parts may go."


class Jobs:
    """The jobs of one plugin, for one cluster. The defaults say nothing."""

    def group(self, ask: Ask) -> str | None:
        """The job that a waiting pod belongs to, by a key of its own; None: the pod goes alone."""
        return None

    def objects(self, asks: Sequence[Ask]) -> Sequence[tuple[Kind[Any], Any]]:
        """Objects of a job, beside its pods, that get its events too."""
        return ()

    def needs(self, asks: Sequence[Ask]) -> Sequence[JobNeed] | None:
        """What a job needs, by its parts; None: it is not a job of this plugin. By default a job needs all its pods."""
        return None

    def plan(self, asks: Sequence[Ask], engine: Engine) -> Sequence[Row | None] | str | None:
        """Rows for the members of a job, in their order (None: no place for that one); a text, why the job has no
        place; or None where it has no plan of its own. Inside a transaction: it may place and undo. The engine places
        members as planned, with all checks."""
        return None

    def post_filter(self, asks: Sequence[Ask], engine: Engine) -> Remedy | None:
        """What would make room for a job that does not fit: as `Plugin.post_filter`."""
        return None

    def permit(self, ask: Ask, row: Row) -> Permit | None:
        """Whether a placed pod waits for others; None: it does not."""
        return None

    def patch(self, asks: Sequence[Ask]) -> Mapping[str, Any] | None:
        """A merge patch for each of some pods that are bound together: a job's, or one alone."""
        return None
