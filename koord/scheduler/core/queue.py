"""Which pod is next: the queue of those that wait for a place.

An entity is one pod, or a job whose pods are placed together. It is in exactly one place:

    active          ready; taken in the order of the sorting plugin, equal ones in order of arrival. Heavy ones, which
                    take long to try, have one turn a second while others are ready
    backoff         was tried in vain a short while ago: min(longest, first * 2^(n-1)) seconds after the n-th time
    unschedulable   waits for an event that one of the plugins which turned it away says could help
    gated           not to be tried yet, says a plugin
    in flight       taken, and its outcome not told yet; events of the meantime are looked at on its return

Nothing starves: after five minutes without a helping event an entity is tried again anyway. When nothing is active, an
entity that backs off after a rejection is taken early; one that backs off after an error is not. There is no clock
here: callers pass `now_s`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from koord.scheduler.core.entity import Attempt, Entity, Where
from koord.scheduler.core.heaps import Heap, Order

SWEEP_EVERY_S: Final = 30.0
POOLED_AT_MOST_S: Final = 300.0
HEAVY_EVERY_S: Final = 1.0
"""While other entities are ready, one heavy entity is tried per this many seconds, so that heavy entities together do
not delay the others."""
MOST_EVENTS: Final = 4096
"""Events kept for entities in flight. If there are more, all entities in flight count as helped."""

POD_CAME: Final = "UnschedulablePodAdd"
POD_CHANGED: Final = "UnschedulablePodUpdate"
TRIED: Final = "ScheduleAttemptFailure"
RESTED: Final = "BackoffComplete"
ACTIVATED: Final = "ForceActivate"
WAITED_LONG: Final = "UnschedulableTimeout"


@dataclass(frozen=True, slots=True)
class ClusterEvent:
    """Something changed: for which reasons (flags of `Reason`), and what it was, for plugins that look closer."""

    reasons: int
    subject: object = None
    name: str = ""
    "What metrics call it."
    grown: frozenset[str] = frozenset()
    "Resources whose capacity grew on the node."


@dataclass(frozen=True, slots=True)
class Gate:
    """Holds back entities that must not be tried yet."""

    blocks: Callable[[Entity], str | None]
    "Why not, or None."
    wakes_on: int = 0
    "Events after which the answer may be another. A change of the entity itself is always looked at."
    profile: str | None = None
    "Whose entities it looks at; None: all."


Hint: TypeAlias = Callable[[Entity, ClusterEvent], bool]
"""A plugin's closer look: whether an event that it listens to could help this entity. It is asked once for all pods of
a template, so that thousands of pods that never fit cost as little as one."""


@dataclass(frozen=True, slots=True)
class Waker:
    """What could help entities that a plugin rejected."""

    reasons: int
    hint: Hint | None = None


class Queue:
    """All entities that wait. `wakers` are by name of plugin; a plugin without one is helped by any event."""

    def __init__(
        self,
        order: Order,
        wakers: Mapping[str, Waker],
        gates: Iterable[Gate] = (),
        *,
        first_backoff_s: float = 1.0,
        longest_backoff_s: float = 10.0,
    ) -> None:
        self._wakers, self._gates = dict(wakers), tuple(gates)
        self._first_backoff_s, self._longest_backoff_s = first_backoff_s, longest_backoff_s
        self._all: dict[str, Attempt] = {}
        self._in_flight: dict[int, Attempt] = {}
        self._active = Heap(Where.ACTIVE, order)
        self._heavy = Heap(Where.ACTIVE, order)
        self._heavy_again_s = -math.inf
        in_windows: Callable[[Attempt], Any] = lambda attempt: (attempt.ends, order(attempt))  # noqa: E731
        self._backoff = Heap(Where.BACKOFF, in_windows)
        self._backoff_after_error = Heap(Where.BACKOFF, in_windows)
        self._resting = (self._backoff, self._backoff_after_error)
        self._pool: dict[frozenset[str], dict[Hashable, dict[str, Attempt]]] = {}
        "By the plugins that turned them away, and by what these look at, so that an event is weighed once for all."
        self._gated: dict[str, Attempt] = {}
        self._events: list[ClusterEvent] = []
        self._events_before = 0
        self._arrivals = 0
        self._swept_s = -math.inf
        self.moved: Callable[[Where, str], None] = lambda where, event: None
        "Called for every move into a queue, with its cause in kube-scheduler's words."

    def __len__(self) -> int:
        """Entities that are here, those in flight not counted."""
        return len(self._all) - sum(1 for attempt in self._in_flight.values() if self._is_current(attempt))

    def __contains__(self, key: str) -> bool:
        return key in self._all

    def __iter__(self) -> Iterator[Attempt]:
        """Everything that is not settled, in no particular order."""
        return iter(self._all.values())

    def gated(self) -> Iterable[Attempt]:
        """Those that must not be tried yet."""
        return self._gated.values()

    def entity(self, key: str) -> Entity | None:
        attempt = self._all.get(key)
        return None if attempt is None else attempt.entity

    def where(self, key: str) -> Where:
        attempt = self._all.get(key)
        return Where.GONE if attempt is None else attempt.where

    def put(self, entity: Entity, now_s: float) -> None:
        """An entity came, or changed in something that scheduling looks at: its chance is new, its backoff stays."""
        attempt = self._all.get(entity.key)
        if attempt is None:
            self._arrivals += 1
            attempt = self._all[entity.key] = Attempt(entity, self._arrivals, now_s, now_s)
            self._ready(attempt, now_s, POD_CAME)
            return
        attempt.entity = entity
        if attempt.where is Where.IN_FLIGHT:
            attempt._helped = True
            return
        was_active = attempt.where is Where.ACTIVE
        self._leave(attempt)
        self._ready(attempt, now_s, POD_CHANGED, at_once=was_active)

    def remove(self, key: str) -> None:
        """An entity is gone, wherever it was in the queue; the outcome of an attempt in flight is ignored."""
        attempt = self._all.pop(key, None)
        if attempt is not None and attempt.where is not Where.IN_FLIGHT:
            self._leave(attempt)

    def upcoming(self, now_s: float) -> Entity | None:
        """The entity that `pop` would return."""
        self.tick(now_s)
        attempt = self._active.first() or self._heavy.first() or self._backoff.first()
        return None if attempt is None else attempt.entity

    def pop(self, now_s: float) -> Attempt | None:
        """The next attempt, now in flight; None if none is ready. The caller must report its outcome."""
        if self._backoff.items or self._backoff_after_error.items or now_s - self._swept_s >= SWEEP_EVERY_S:
            self.tick(now_s)
        attempt = (self._heavy_one(now_s) if self._heavy.items else None) or self._active.pop()
        attempt = attempt or self._heavy.pop() or self._backoff.pop()
        if attempt is None:
            return None
        attempt.where = Where.IN_FLIGHT
        attempt.tries += 1
        attempt._stamp += 1
        attempt._helped = False
        attempt._seen = self._events_before + len(self._events)
        self._in_flight[id(attempt)] = attempt
        return attempt

    def _heavy_one(self, now_s: float) -> Attempt | None:
        """The first of the heavy ones, if it is before all others and none was tried for a while."""
        heavy, other = self._heavy.first(), self._active.first()
        if heavy is None or other is None or now_s < self._heavy_again_s:
            return None
        order = self._heavy.order
        if (order(other), other.arrival) < (order(heavy), heavy.arrival):
            return None
        self._heavy_again_s = now_s + HEAVY_EVERY_S
        return self._heavy.pop()

    def narrow(self, attempt: Attempt, entity: Entity) -> None:
        """Of an entity in flight, only a part comes back."""
        if self._is_current(attempt):
            attempt.entity = entity

    def done(self, attempt: Attempt) -> None:
        """It has its place."""
        if self._land(attempt):
            del self._all[attempt.entity.key]
        self._forget_events()

    def back(self, attempt: Attempt, now_s: float) -> None:
        """The entity differs from the one that was placed: pods that joined the job in the meantime wait, and their
        retries are counted from zero."""
        if self._land(attempt):
            attempt.rejections = attempt.errors = 0
            attempt.queued_at_s = now_s
            self._ready(attempt, now_s, POD_CHANGED)
        self._forget_events()

    def rejected(self, attempt: Attempt, by: Iterable[str], now_s: float, *, pending: bool = False) -> None:
        """Plugins turned it away: it waits for an event that helps one of them."""
        attempt.rejected_by, attempt.pending = frozenset(by), pending
        if not attempt.rejected_by:
            self.failed(attempt, now_s)
            return
        if self._land(attempt):
            attempt.rejections += 1
            attempt.errors = 0
            attempt.queued_at_s = now_s
            missed = self._events[max(0, attempt._seen - self._events_before) :]
            if attempt._helped or any(self._helps(attempt, event) for event in missed):
                self._ready(attempt, now_s, TRIED)
            else:
                self._pool_it(attempt)
                self.moved(attempt.where, TRIED)
        self._forget_events()

    def failed(self, attempt: Attempt, now_s: float) -> None:
        """Something went wrong that no plugin decided: it is tried again after a backoff, never early."""
        if self._land(attempt):
            attempt.errors += 1
            attempt.queued_at_s = now_s
            attempt.rejected_by, attempt.pending = frozenset(), False
            self._ready(attempt, now_s, TRIED)
        self._forget_events()

    def happened(self, event: ClusterEvent, now_s: float, *, besides: str = "") -> int:
        """An event happened; how many unschedulable or gated entities it makes ready. `besides`: the key of a waiting
        entity that it does not help, whatever plugins say."""
        if self._in_flight:
            self._events.append(event)
            if len(self._events) > MOST_EVENTS:
                for attempt in self._in_flight.values():
                    attempt._helped = True
                self._events_before += len(self._events)
                self._events.clear()
        woken: list[Attempt] = []
        for by, kinds in self._pool.items():
            hints = self._listening(by, event)
            for pooled in kinds.values() if hints else ():
                if _any_hint(hints, next(iter(pooled.values())).entity, event):
                    woken += pooled.values()
        if any(gate.wakes_on & event.reasons for gate in self._gates):
            woken += [attempt for attempt in self._gated.values() if self._gate_of(attempt.entity) is None]
        woken = [attempt for attempt in woken if attempt.entity.key != besides] if besides else woken
        for attempt in woken:
            self._leave(attempt)
            self._ready(attempt, now_s, event.name)
        return len(woken)

    def help(self, keys: Iterable[str], now_s: float, event: str) -> None:
        """What kept these entities from being placed may be over: as after an event that helps only them."""
        for key in keys:
            attempt = self._all.get(key)
            if attempt is None:
                continue
            if attempt.where is Where.IN_FLIGHT:
                attempt._helped = True
            elif attempt.where is Where.UNSCHEDULABLE:
                self._leave(attempt)
                self._ready(attempt, now_s, event)

    def activate(self, keys: Iterable[str], now_s: float) -> None:
        """Have these tried now, backoff or not: their time has come for a reason that no event tells."""
        for key in keys:
            attempt = self._all.get(key)
            if attempt is None:
                continue
            if attempt.where is Where.IN_FLIGHT:
                attempt._helped = True
            elif attempt.where is not Where.ACTIVE:
                self._leave(attempt)
                self._ready(attempt, now_s, ACTIVATED, at_once=True)

    def tick(self, now_s: float) -> None:
        """Do what only time does: end backoffs, and retry entities that no event has helped for long."""
        for heap in self._resting:
            while (first := heap.first()) is not None and not _backs_off(first, now_s):
                self._leave(first)
                self._ready(first, now_s, RESTED, at_once=True)
        if now_s - self._swept_s >= SWEEP_EVERY_S:
            self._swept_s = now_s
            late = [
                attempt
                for kinds in self._pool.values()
                for pooled in kinds.values()
                for attempt in pooled.values()
                if now_s - attempt.queued_at_s > POOLED_AT_MOST_S
            ]
            for attempt in late:
                self._leave(attempt)
                self._ready(attempt, now_s, WAITED_LONG)

    def next_change_s(self) -> float | None:
        """When time alone may make one ready; None where nothing waits for time."""
        ends = [first.ends + 1.0 for heap in self._resting if (first := heap.first())]
        if self._pool:
            ends.append(self._swept_s + SWEEP_EVERY_S)
        return min(ends, default=None)

    def backoff_s(self, attempt: Attempt) -> float:
        """How long an entity is to rest since its last return."""
        number = attempt.errors or attempt.rejections
        if number == 0 or attempt.pending:
            return 0.0
        # Beyond 2^30 every backoff is the longest.
        return float(min(self._longest_backoff_s, self._first_backoff_s * 2.0 ** min(number - 1, 30)))

    def _ready(self, attempt: Attempt, now_s: float, event: str, *, at_once: bool = False) -> None:
        """To the active ones, or behind a gate or a backoff first."""
        if attempt.gate:
            attempt.came_s = now_s
        attempt.gate = self._gate_of(attempt.entity) or ""
        if attempt.gate:
            attempt.where = Where.GATED
            self._gated[attempt.entity.key] = attempt
            self.moved(attempt.where, event)
            return
        heap = self._heavy if attempt.entity.heavy else self._active
        if not at_once and (attempt.rejections or attempt.errors):
            rest_s = self.backoff_s(attempt)
            attempt.ends = math.floor(attempt.queued_at_s + rest_s)
            if rest_s and _backs_off(attempt, now_s):
                heap = self._backoff_after_error if attempt.errors else self._backoff
        heap.push(attempt)
        self.moved(attempt.where, event)

    def _pool_it(self, attempt: Attempt) -> None:
        attempt.where = Where.UNSCHEDULABLE
        by, entity = attempt.rejected_by, attempt.entity
        attempt._kind = None
        if any((waker := self._wakers.get(name)) is not None and waker.hint is not None for name in by):
            attempt._kind = entity.pods[0].template if len(entity.pods) == 1 else entity.key
        self._pool.setdefault(by, {}).setdefault(attempt._kind, {})[entity.key] = attempt

    def _leave(self, attempt: Attempt) -> None:
        """Out of where it is. Heaps notice by themselves."""
        key = attempt.entity.key
        if attempt.where is Where.UNSCHEDULABLE:
            kinds = self._pool[attempt.rejected_by]
            pooled = kinds[attempt._kind]
            del pooled[key]
            if not pooled:
                del kinds[attempt._kind]
            if not kinds:
                del self._pool[attempt.rejected_by]
        elif attempt.where is Where.GATED:
            del self._gated[key]
        attempt.where = Where.GONE
        attempt._stamp += 1

    def _land(self, attempt: Attempt) -> bool:
        """End a flight; False where the entity went away, or is another one, in the meantime."""
        if self._in_flight.pop(id(attempt), None) is None:
            raise ValueError(f"{attempt.entity.key} is not in flight")
        attempt.where = Where.GONE
        return self._is_current(attempt)

    def _is_current(self, attempt: Attempt) -> bool:
        return self._all.get(attempt.entity.key) is attempt

    def _gate_of(self, entity: Entity) -> str | None:
        for gate in self._gates:
            if gate.profile is None or gate.profile == entity.profile:
                reason = gate.blocks(entity)
                if reason is not None:
                    return reason
        return None

    def _listening(self, plugins: frozenset[str], event: ClusterEvent) -> list[Hint | None]:
        """The hints of the plugins that this event concerns; None for one that needs no closer look."""
        hints: list[Hint | None] = []
        for name in plugins:
            waker = self._wakers.get(name)
            if waker is None:
                hints.append(None)
            elif waker.reasons & event.reasons:
                hints.append(waker.hint)
        return hints

    def _helps(self, attempt: Attempt, event: ClusterEvent) -> bool:
        return _any_hint(self._listening(attempt.rejected_by, event), attempt.entity, event)

    def _forget_events(self) -> None:
        if self._in_flight:
            oldest = next(iter(self._in_flight.values()))._seen
            if oldest - self._events_before > MOST_EVENTS // 4:
                del self._events[: oldest - self._events_before]
                self._events_before = oldest
        elif self._events:
            self._events_before += len(self._events)
            self._events.clear()


def _any_hint(hints: Iterable[Hint | None], entity: Entity, event: ClusterEvent) -> bool:
    for hint in hints:  # noqa: SIM110 - asked often, and a generator costs more than most hints
        if hint is None or hint(entity, event):
            return True
    return False


def _backs_off(attempt: Attempt, now_s: float) -> bool:
    """A backoff ends with the second in which it would; so all that end in one second are sorted together."""
    return math.floor(now_s) <= attempt.ends
