"""The unit that is queued, decided, bound and reported: a pod, or all pods of a job; and its place in the queue."""

from __future__ import annotations

from collections.abc import Hashable
from enum import Enum
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from koord.scheduler.framework.ask import Ask


class Entity(msgspec.Struct, frozen=True):
    """What is queued as one: a pod, or all pods of a job."""

    key: str
    pods: tuple[Ask, ...]
    priority: int = 0
    heavy: bool = False
    "Whether it takes too long to try, so that others go before it."
    profile: str = ""

    @property
    def is_job(self) -> bool:
        return len(self.pods) > 1 or self.pods[0].key != self.key

    @staticmethod
    def of(ask: Ask, profile: str = "") -> Entity:
        spec = ask.spec
        is_heavy = bool(spec.affinity or spec.topology_spread_constraints) and ask.is_heavy
        return Entity(ask.key, (ask,), spec.priority or 0, is_heavy, profile)

    @staticmethod
    def job(key: str, asks: tuple[Ask, ...], profile: str = "") -> Entity:
        """A job is as important as its most important member."""
        priority = max(ask.spec.priority or 0 for ask in asks)
        return Entity(key, asks, priority, any(ask.is_heavy for ask in asks), profile)

    def joined_by(self, ask: Ask) -> Entity:
        """The same job with one member more, without a look at the others."""
        priority = max(self.priority, ask.spec.priority or 0)
        return Entity(self.key, (*self.pods, ask), priority, self.heavy or ask.is_heavy, self.profile)


class Where(Enum):
    ACTIVE = "active"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"
    GATED = "gated"
    IN_FLIGHT = "in flight"
    GONE = "gone"


class Attempt(msgspec.Struct, eq=False):
    """An entity's place in the queue. The caller that pops it reports the outcome with it."""

    entity: Entity
    arrival: int
    "Counts entities as they come: the last word on order."
    queued_at_s: float
    "When it came, or came back."
    came_s: float = 0.0
    "When it came for the first time, or was let through a gate."
    where: Where = Where.GONE
    tries: int = 0
    rejections: int = 0
    errors: int = 0
    "Errors in a row."
    rejected_by: frozenset[str] = frozenset()
    pending: bool = False
    "Whether it waits for something that was promised: then no backoff follows."
    gate: str = ""
    "Why it is gated."
    ends: int = 0
    "The second in which its backoff ends."
    _stamp: int = 0
    _seen: int = 0
    _helped: bool = False
    _kind: Hashable = None
    "What plugins that look closer look at, while it is unschedulable: the same for all that are woken together."
