"""Queueing: which entities wait outside the queue, and in which order the others are tried."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from koord.scheduler.core.entity import Attempt, Entity


@dataclass(frozen=True, slots=True)
class Queueing:
    """What one plugin says of the queue."""

    blocks: Callable[[Entity], str | None] | None = None
    "Why an entity must not be tried yet, or None. Asked again after the plugin's `wakes_on`."
    order: Callable[[Attempt], Sequence[Any]] | None = None
    "The order of entities: lower comes first."
