"""Queueing: entities that wait outside the queue, the order of the others, and what wakes rejected ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from koord.scheduler.core.entity import Attempt, Entity
    from koord.scheduler.core.queue import ClusterEvent
    from koord.scheduler.framework.ask import Ask
    from koord.scheduler.state.cluster import Cluster


@dataclass(frozen=True, slots=True)
class Queueing:
    """What one plugin says of the queue."""

    blocks: Callable[[Entity], str | None] | None = None
    "Why an entity must not be tried yet, or None. Asked again after the plugin's `wakes_on`."
    order: Callable[[Attempt], Sequence[Any]] | None = None
    "The order of entities: lower comes first."
    helps: Callable[[Ask, ClusterEvent, Cluster], bool] | None = None
    """Whether an event of the plugin's `wakes_on` could help a pod which it rejected. Asked once for all pods of a
    template. Without it, all of these events help."""
