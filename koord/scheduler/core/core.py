"""The core as drivers see it: objects and time in, decisions out, outcomes back in.

    core = Core(profiles_of(config))
    core.at(Moment(now_s, now_s))
    core.put(NODES, node); core.put(PODS, pod)
    while (decision := core.decide()) is not None: ...      a Bind is carried out, then core.bound(bind, ask)

Live, `koord plan`, `koord explain` and tests drive it, and decide nothing themselves.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias, TypeVar

from koord.api.kinds import PODS, Kind
from koord.api.machinery.shield import Shield
from koord.api.machinery.struct import Struct
from koord.scheduler.core.cycle import Cycle
from koord.scheduler.core.decision import Bind, Decision
from koord.scheduler.core.entity import Attempt, Entity, Where
from koord.scheduler.core.feed import Assumed, Feed
from koord.scheduler.core.moment import Moment
from koord.scheduler.core.observer import Observer
from koord.scheduler.core.queue import Queue
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.engine import Engine
from koord.scheduler.framework.writes import Tell, Write
from koord.scheduler.profiles import Profiles
from koord.scheduler.shards import Shard
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.stand_ins import is_stand_in

Thing = TypeVar("Thing", bound=Struct)
START: Final = Moment(0.0, 0.0)
BindingOutcome: TypeAlias = Literal["bound", "refused", "failed", "again"]
"""How a binding ended. `again`: it failed, the pod keeps its place, and the binding will be retried."""


@dataclass(slots=True)
class _Flight:
    """A bind that is being carried out."""

    bind: Bind
    open: set[str]
    bound: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)
    failed: set[str] = field(default_factory=set)
    resting: set[str] = field(default_factory=set)
    "Open ones that failed and keep their places until they are tried again."
    until_s: float | None = None
    "How long they do; None where none has failed."

    def keeps(self, key: str, now_s: float) -> bool:
        """Whether a member whose binding failed keeps its place. Once one is bound, the others are wanted; as long as
        another one may yet be, too."""
        if self.until_s is None:
            self.until_s = now_s + self.bind.keeps_s
        return now_s < self.until_s and bool(self.bound or self.open - self.resting - {key})


class Core:
    """One state, one queue, an engine for each profile.

    `shard`: the part of the cluster that is its own. `alone`: there is no other scheduler, so this one takes the pods
    that name none. `hints`: say what would make pods schedulable that fit nowhere; `scores`: how nodes scored.
    `most_tries`: how often an entity is tried. `wake` is called when there may be something to decide, `queued` when an
    entity moves into a part of the queue. `shield` gets the failures of single objects; without one, they are raised.
    """

    def __init__(
        self,
        profiles: Profiles,
        *,
        seed: int = 0,
        alone: bool = False,
        shard: Shard | None = None,
        now: Moment = START,
        observer: Observer | None = None,
        hints: bool = True,
        scores: bool = False,
        most_tries: int | None = None,
        wake: Callable[[], None] = lambda: None,
        queued: Callable[[Where, str], None] = lambda where, event: None,
        shield: Shield | None = None,
    ) -> None:
        self.profiles = profiles
        self.cluster = Cluster(seed, shield)
        self.cluster.now_s = now.wall_s
        # Plugins are made before nodes and pods are added, and so get all of them.
        self.engines = {name: Engine(self.cluster, profile) for name, profile in profiles.profiles.items()}
        self.queue: Queue = profiles.queue(self.cluster)
        self.queue.moved = queued
        self.feed = Feed(
            self.cluster, self.queue, self.engines, profiles.plugins(), alone=alone, shard=shard, wake=wake
        )
        for plugin in profiles.plugins():
            if plugin.stand_ins is not None:
                plugin.stand_ins.use_engines(self.feed.engine_of)
        self._cycle = Cycle(self.feed, observer, hints=hints, scores=scores, most_tries=most_tries)
        self._flights: dict[int, _Flight] = {}
        controllers = [(plugin.name, plugin.controller) for plugin in profiles.plugins()]
        self._writing = [(name, controller) for name, controller in controllers if controller is not None]
        self.at(now)

    @property
    def now(self) -> Moment:
        return self.feed.now

    @property
    def assumed(self) -> dict[str, Assumed]:
        """Pods that were placed and whose binding is not confirmed yet."""
        return self.feed.assumed

    def at(self, now: Moment) -> None:
        """Set the current time."""
        self.feed.at(now)

    def put(self, kind: Kind[Any], new: Any, old: Any | None = None) -> None:
        """An object was added or has changed. `old`: its previous version, if the driver knows it."""
        self.feed.hear(kind, new, old)

    def put_many(self, kind: Kind[Any], objects: Sequence[Any]) -> None:
        """Many objects of one kind were added or have changed."""
        self.feed.hear_many(kind, objects)

    def removed(self, kind: Kind[Any], old: Any) -> None:
        """An object is gone."""
        self.feed.hear(kind, None, old)

    def hand_over(self, ask: Ask) -> None:
        """Another scheduler decides about a pod from now on."""
        self.feed.hand_over(ask.key)

    def decide(self) -> Decision | None:
        """The next decision; None if no entity is ready."""
        self.feed.cluster.tidy()
        decision = self._cycle.step()
        if isinstance(decision, Bind):
            self._flights[id(decision.attempt)] = _Flight(decision, {member.ask.key for member in decision.members})
        return decision

    def take_writes(self, *, decisive: bool = False) -> list[Write | Tell]:
        """What plugins want written since the last call, besides bindings: the status of other kinds, and events on
        them. `decisive`: only those that later decisions depend on."""
        writes: list[Write | Tell] = []
        self.cluster.again_s = math.inf
        for name, controller in self._writing:
            if controller.decides or not decisive:
                with self.cluster.shield.about(f"write what {name} has to say"):
                    writes.extend(controller.writes())
        outbox = self.cluster.outbox
        return writes if decisive else [*(outbox.popleft() for _ in range(len(outbox))), *writes]

    def objects(self, kind: Kind[Thing]) -> Mapping[str, Thing]:
        """The current objects, by name, of a kind that a plugin has placed like pods; none of any other kind."""
        return self.feed.objects.get(kind, {})

    def writes_in_s(self) -> float:
        """Seconds until plugins must be asked again for writes, even if nothing happens. 0 if a plugin may now admit a
        pod that it refused."""
        return 0.0 if self.cluster.may_ease else max(0.0, self.cluster.again_s - self.now.wall_s)

    def about(self, asks: Sequence[Ask]) -> list[tuple[Kind[Any], Any]]:
        """Objects, besides the pods of a job, that show its progress to users."""
        engine = self.feed.engine_of(asks[0])
        return [] if engine is None else engine.about(asks)

    def subject(self, ask: Ask) -> tuple[Kind[Any], Any]:
        """The object that shows a pod's progress to users: the pod itself, or the object that it stands for."""
        engine = self.feed.engine_of(ask) if is_stand_in(ask.meta.name) else None
        stand_in = None if engine is None else engine.stands_for(ask)
        return (PODS, ask.pod) if stand_in is None else stand_in

    def upcoming(self) -> Entity | None:
        """The entity to decide next, not counting entities that wait for others."""
        return self.queue.upcoming(self.now.steady_s)

    def next_change_s(self) -> float | None:
        """When time alone may lead to a decision."""
        return self._cycle.next_change_s()

    @property
    def awaited(self) -> list[Attempt]:
        """Attempts in progress: their pods are being bound, or wait for others."""
        flights = [flight.bind.attempt for flight in self._flights.values()]
        return [*flights, *(bind.attempt for bind in self._cycle.waiting)]

    def waiting(self) -> int:
        """How many entities have their places and wait for others."""
        return len(self._cycle.waiting)

    def stands(self, ask: Ask, node: str) -> bool:
        """Whether a pod still has its place, and the node still exists."""
        return self.feed.stands(ask, node) is not None

    def bound(self, bind: Bind, ask: Ask) -> None:
        """A pod of a bind is on its node."""
        self._ended(bind, ask, "bound")

    def refused(self, bind: Bind, ask: Ask) -> None:
        """A pod of a bind is gone, replaced, or on another node: the API's version counts, and will arrive."""
        self.feed.let_go(ask)
        self._ended(bind, ask, "refused")

    def failed(self, bind: Bind, ask: Ask, *, last: bool = False) -> BindingOutcome:
        """A pod of a bind was not bound. If its place is kept (outcome `again`), the caller calls `again` later;
        otherwise the place is free, and the pod is tried again later. `last`: the caller will not call `again`."""
        if not self.feed.is_queued(ask.key):
            # A pod that is gone, or on a node, waits for nothing.
            self.refused(bind, ask)
            return "refused"
        flight = self._flights.get(id(bind.attempt))
        is_kept = not last and bool(bind.keeps_s) and self._is_held(bind, ask)
        if flight is not None and is_kept and flight.keeps(ask.key, self._now_s):
            flight.resting.add(ask.key)
            return "again"
        self.feed.let_go(ask)
        self._ended(bind, ask, "failed")
        if flight is not None and not flight.bound and flight.open == flight.resting:
            self._give_up(bind, flight)
        return "failed"

    def again(self, bind: Bind, ask: Ask) -> bool:
        """Whether to bind again now a pod whose binding failed: its place still stands."""
        flight = self._flights.get(id(bind.attempt))
        if flight is None or ask.key not in flight.resting:
            return False
        flight.resting.discard(ask.key)
        return True

    def _give_up(self, bind: Bind, flight: _Flight) -> None:
        """No pod of a job could be bound, and no binding is in progress: all places are free again."""
        for member in bind.members:
            if member.ask.key in flight.resting:
                flight.resting.discard(member.ask.key)
                self.feed.let_go(member.ask)
                self._ended(bind, member.ask, "failed")

    def _is_held(self, bind: Bind, ask: Ask) -> bool:
        return any(member.ask.key == ask.key and self.stands(ask, member.node) for member in bind.members)

    @property
    def _now_s(self) -> float:
        return self.now.steady_s

    def forget(self, bind: Bind) -> None:
        """The outcome of a bind will not be reported."""
        self._flights.pop(id(bind.attempt), None)

    def unattended(self, attempt: Attempt) -> None:
        """An attempt was abandoned: its pods are tried again."""
        self._flights.pop(id(attempt), None)
        for ask in attempt.entity.pods:
            self.feed.let_go(ask)
        self.queue.failed(attempt, self.now.steady_s)

    def take_back(self, pod: str) -> None:
        """A pod is promised nothing any more, because its victims stay."""
        self.feed.take_back(pod)

    def give_up_waiting(self, why: str) -> None:
        """Entities that wait for others give up: decisions say so."""
        self._cycle.give_up_waiting(why)

    def take_over(self, other: Core) -> None:
        """Place here, too, the pods that another core placed and whose bindings are not confirmed yet."""
        self.feed.take_over(other.feed)

    def _ended(self, bind: Bind, ask: Ask, outcome: BindingOutcome) -> None:
        flight = self._flights.get(id(bind.attempt))
        if flight is None:
            return
        flight.open.discard(ask.key)
        {"bound": flight.bound, "refused": flight.refused}.get(outcome, flight.failed).add(ask.key)
        if flight.open:
            return
        del self._flights[id(bind.attempt)]
        attempt, now_s = bind.attempt, self._now_s
        # Other pods may have joined the job in the meantime.
        settled = flight.bound | flight.refused
        left = tuple(member_ask for member_ask in attempt.entity.pods if member_ask.key not in settled)
        if left and len(left) < len(attempt.entity.pods):
            self.queue.narrow(attempt, Entity.job(attempt.entity.key, left, attempt.entity.profile))
        if not left:
            self.queue.done(attempt)
        elif flight.failed:
            self.queue.failed(attempt, now_s)
        elif bind.turned_away:
            self.queue.rejected(attempt, bind.turned_away, now_s)
        else:
            self.queue.back(attempt, now_s)
