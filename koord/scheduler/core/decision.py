"""What the core decides, as data. The driver carries decisions out and reports their outcome to the core.

The unit is an entity: a pod, or all pods of a job. A job is decided in one transaction, and reported member by member.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from koord.scheduler.core.entity import Attempt
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.engine import Placement
from koord.scheduler.framework.remedy import Move, Remedy
from koord.scheduler.framework.writes import BindingPlan
from koord.scheduler.suggestion import Suggestion


@dataclass(frozen=True, slots=True)
class Placed:
    """One pod of an entity has a place and will be bound to it."""

    ask: Ask
    node: str
    plan: BindingPlan
    "What is written, and waited for, before the binding; and the binding itself."
    placement: Placement


@dataclass(frozen=True, slots=True)
class Unplaced:
    """One pod of an entity has no place, and the others go ahead without it."""

    ask: Ask
    placement: Placement
    message: str


@dataclass(frozen=True, slots=True)
class Bind:
    """An entity has its places."""

    attempt: Attempt
    profile: str
    members: tuple[Placed, ...]
    unplaced: tuple[Unplaced, ...] = ()
    "Members that found no place, where the job goes ahead without them."
    keeps_s: float = 0.0
    """How long members whose bindings fail keep their places and are bound again, once one is bound: see `Permit`."""

    @property
    def turned_away(self) -> frozenset[str]:
        """The plugins that turned members away."""
        return frozenset[str]().union(*(unplaced.placement.rejected_by for unplaced in self.unplaced))

    @property
    def ask(self) -> Ask:
        return self.members[0].ask

    @property
    def node(self) -> str:
        return self.members[0].node


@dataclass(frozen=True, slots=True)
class _OfBind:
    """About an entity that has its places, and is not bound to them."""

    bind: Bind

    @property
    def attempt(self) -> Attempt:
        return self.bind.attempt

    @property
    def profile(self) -> str:
        return self.bind.profile

    @property
    def ask(self) -> Ask:
        return self.bind.ask


@dataclass(frozen=True, slots=True)
class Wait(_OfBind):
    """An entity has its places, and waits for others before it is bound."""

    group: str
    "The key of the entities that wait together and are released together."
    wait_s: float


@dataclass(frozen=True, slots=True)
class LetGo(_OfBind):
    """An entity waited for others in vain. Its places are free again, and it is tried again later."""

    why: str


@dataclass(frozen=True, slots=True)
class Nowhere:
    """An entity has no place."""

    attempt: Attempt
    profile: str
    asks: tuple[Ask, ...]
    placement: Placement
    "Of the first member that found no place."
    remedy: Remedy
    message: str
    suggestion: Suggestion | None = None
    outbid: tuple[str, ...] = ()
    "Keys of less important pods that were promised a node which this entity is promised now."

    @property
    def ask(self) -> Ask:
        return self.asks[0]

    @property
    def moves(self) -> tuple[Move, ...]:
        """The nodes that its pods are nominated to, and the victims for each."""
        remedy = self.remedy
        if remedy.node is None:
            return remedy.others
        return (Move(self.ask.key, remedy.node, remedy.victims), *remedy.others)


@dataclass(frozen=True, slots=True)
class Broken:
    """An entity that cannot be understood, or about which a plugin failed."""

    attempt: Attempt
    profile: str
    asks: tuple[Ask, ...]
    message: str
    error: Exception | None = None
    "What a plugin raised; None where the pod itself is at fault."

    @property
    def ask(self) -> Ask:
        return self.asks[0]


@dataclass(frozen=True, slots=True)
class TriedEnough:
    """An entity would be tried again, and was tried as often as the driver wanted."""

    attempt: Attempt
    profile: str
    asks: tuple[Ask, ...]

    @property
    def ask(self) -> Ask:
        return self.asks[0]


Decision: TypeAlias = Bind | Wait | LetGo | Nowhere | Broken | TriedEnough
