"""The queue beside a plain reading of its rules: after any steps, everybody is where the rules say.

The plain one keeps a list and looks through it; it knows no heaps, no pools and no log of events.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from koord.api.kubernetes.meta import ObjectMeta
from koord.api.kubernetes.pod import Pod, PodSpec
from koord.scheduler.core import queue
from koord.scheduler.core.entity import Attempt, Entity, Where
from koord.scheduler.core.queue import POOLED_AT_MOST_S, SWEEP_EVERY_S, ClusterEvent, Queue, Waker
from koord.scheduler.framework.ask import Ask
from koord.scheduler.plugins.priority_sort import order
from koord.scheduler.state.table import Reason

FIT, TAINTS, EVERYTHING, PICKY = "NodeResourcesFit", "TaintToleration", "OfNobodyKnown", "Picky"
BY: list[frozenset[str]] = [frozenset(each) for each in ([FIT], [TAINTS], [FIT, TAINTS], [EVERYTHING], [PICKY])]
GATE_OPENS = int(Reason.EXACT)
LISTENS = {FIT: int(Reason.FREED | Reason.NODE), TAINTS: int(Reason.TAINTS | Reason.NODE), PICKY: int(Reason.LOAD)}
EVENTS = [int(each) for each in (Reason.FREED, Reason.NODE, Reason.TAINTS, Reason.LABELS, Reason.LOAD, Reason.EXACT)]


def picky(entity: Entity, event: ClusterEvent) -> bool:
    """Only events about itself help."""
    return event.subject == entity.key


class Gate:
    wakes_on = GATE_OPENS

    def __init__(self) -> None:
        self.closed: set[str] = set()

    def blocks(self, entity: Entity) -> str | None:
        return "closed" if entity.key in self.closed else None


@dataclass(eq=False)
class Waiting:
    key: str
    priority: int
    members: int
    arrival: int
    queued_at_s: float
    where: Where = Where.GONE
    rejections: int = 0
    errors: int = 0
    by: frozenset[str] = frozenset()
    pending: bool = False
    ends: int = 0
    missed: list[ClusterEvent] = field(default_factory=list)
    helped: bool = False

    @property
    def order(self) -> tuple[int, float, int]:
        return -self.priority, self.queued_at_s, self.arrival

    def backoff_s(self) -> float:
        """min(10s, 1s * 2^(n-1)); n counts rejections, or errors in a row where the last attempt met one."""
        number = self.errors or self.rejections
        return 0.0 if self.pending or number == 0 else min(10.0, 2.0 ** (number - 1))

    def is_helped_by(self, event: ClusterEvent) -> bool:
        for name in self.by:
            if name not in LISTENS:
                return True
            if LISTENS[name] & event.reasons and (name != PICKY or event.subject == self.key):
                return True
        return False


class PlainQueue:
    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        self.all: dict[str, Waiting] = {}
        self.flying: list[Waiting] = []
        self._arrivals = 0
        self._swept_s = -math.inf

    def put(self, key: str, priority: int, members: int, now_s: float) -> None:
        known = self.all.get(key)
        if known is None:
            self._arrivals += 1
            known = self.all[key] = Waiting(key, priority, members, self._arrivals, now_s)
            self._ready(known, now_s)
            return
        known.priority, known.members = priority, members
        if known.where is Where.IN_FLIGHT:
            known.helped = True
        else:
            self._ready(known, now_s, at_once=known.where is Where.ACTIVE)

    def remove(self, key: str) -> None:
        self.all.pop(key, None)

    def pop(self, now_s: float) -> Waiting | None:
        self.tick(now_s)
        active = [each for each in self.all.values() if each.where is Where.ACTIVE]
        early = [each for each in self.all.values() if each.where is Where.BACKOFF and not each.errors]
        if active:
            found = min(active, key=lambda each: each.order)
        elif early:
            found = min(early, key=lambda each: (each.ends, each.order))
        else:
            return None
        found.where, found.missed, found.helped = Where.IN_FLIGHT, [], False
        self.flying.append(found)
        return found

    def done(self, flown: Waiting) -> None:
        if self._lands(flown):
            del self.all[flown.key]

    def rejected(self, flown: Waiting, by: frozenset[str], pending: bool, now_s: float) -> None:
        if not self._lands(flown):
            return
        flown.rejections, flown.errors, flown.queued_at_s = flown.rejections + 1, 0, now_s
        flown.by, flown.pending = by, pending
        if flown.helped or any(map(flown.is_helped_by, flown.missed)):
            self._ready(flown, now_s)
        else:
            flown.where = Where.UNSCHEDULABLE

    def failed(self, flown: Waiting, now_s: float) -> None:
        if self._lands(flown):
            flown.errors, flown.queued_at_s, flown.by, flown.pending = flown.errors + 1, now_s, frozenset(), False
            self._ready(flown, now_s)

    def happened(self, event: ClusterEvent, now_s: float) -> None:
        for each in self.flying:
            each.missed.append(event)
        for each in self.all.values():
            pooled = each.where is Where.UNSCHEDULABLE and each.is_helped_by(event)
            opened = each.where is Where.GATED and event.reasons & GATE_OPENS and each.key not in self.gate.closed
            if pooled or opened:
                self._ready(each, now_s)

    def activate(self, key: str, now_s: float) -> None:
        found = self.all.get(key)
        if found is None:
            return
        if found.where is Where.IN_FLIGHT:
            found.helped = True
        elif found.where is not Where.ACTIVE:
            self._ready(found, now_s, at_once=True)

    def tick(self, now_s: float) -> None:
        for each in self.all.values():
            if each.where is Where.BACKOFF and math.floor(now_s) > each.ends:
                self._ready(each, now_s, at_once=True)
        if now_s - self._swept_s >= SWEEP_EVERY_S:
            self._swept_s = now_s
            for each in self.all.values():
                if each.where is Where.UNSCHEDULABLE and now_s - each.queued_at_s > POOLED_AT_MOST_S:
                    self._ready(each, now_s)

    def _ready(self, each: Waiting, now_s: float, *, at_once: bool = False) -> None:
        if each.key in self.gate.closed:
            each.where = Where.GATED
            return
        rest_s = 0.0 if at_once else each.backoff_s()
        each.ends = math.floor(each.queued_at_s + rest_s)
        each.where = Where.BACKOFF if rest_s and math.floor(now_s) <= each.ends else Where.ACTIVE

    def _lands(self, flown: Waiting) -> bool:
        self.flying.remove(flown)
        return self.all.get(flown.key) is flown


STEPS = (
    *["put"] * 4,
    *["pop"] * 8,
    *["done", "rejected", "rejected", "rejected", "failed", "pending"] * 2,
    *["event"] * 5,
    *["remove", "activate", "activate", "close", "open", "open", "wait", "wait"],
)
WAITS_S = (0, 0.5, 1, 2, 5, 11, 31, 301)


class Both:
    """The queue and the plain one, told the same."""

    def __init__(self) -> None:
        self.gate = Gate()
        wakers = {name: Waker(reasons, picky if name == PICKY else None) for name, reasons in LISTENS.items()}
        self.queue, self.plain = (
            Queue(order, wakers, [queue.Gate(self.gate.blocks, GATE_OPENS)]),
            PlainQueue(self.gate),
        )
        self.flying: list[tuple[Attempt, Waiting]] = []
        self.now_s = 0.0

    def step(self, what: str, key: str, number: int) -> None:
        self.now_s += 0.125
        queue, plain, now_s = self.queue, self.plain, self.now_s
        match what:
            case "put":
                priority, many = number % 4, number % 3
                # Each of its own template: a closer look is taken once for all that are alike.
                spec = PodSpec(node_selector={"for": key})
                members = tuple(Ask(Pod(ObjectMeta(name=f"{key}{i}", namespace="n"), spec)) for i in range(many))
                queue.put(Entity(key, members, priority), now_s)
                plain.put(key, priority, many, now_s)
            case "remove":
                queue.remove(key)
                plain.remove(key)
            case "pop":
                self._pop()
            case "done" | "rejected" | "failed" | "pending" if self.flying:
                self._tell(what, *self.flying.pop(number % len(self.flying)), BY[number % len(BY)])
            case "event":
                event = ClusterEvent(EVENTS[number % len(EVENTS)], key)
                queue.happened(event, now_s)
                plain.happened(event, now_s)
            case "activate":
                queue.activate([key], now_s)
                plain.activate(key, now_s)
            case "close":
                self.gate.closed.add(key)
            case "open":
                self.gate.closed.discard(key)
            case "wait":
                self.now_s += WAITS_S[number % len(WAITS_S)]
            case _:
                pass

    def _pop(self) -> None:
        attempt, waiting = self.queue.pop(self.now_s), self.plain.pop(self.now_s)
        assert (attempt and attempt.entity.key) == (waiting and waiting.key)
        if attempt is not None and waiting is not None:
            assert len(attempt.entity.pods) == waiting.members, "a job comes with all of its members"
            self.flying.append((attempt, waiting))

    def _tell(self, what: str, attempt: Attempt, waiting: Waiting, by: frozenset[str]) -> None:
        if what == "done":
            self.queue.done(attempt)
            self.plain.done(waiting)
        elif what == "failed":
            self.queue.failed(attempt, self.now_s)
            self.plain.failed(waiting, self.now_s)
        else:
            self.queue.rejected(attempt, by, self.now_s, pending=what == "pending")
            self.plain.rejected(waiting, by, what == "pending", self.now_s)

    def check(self) -> None:
        assert {attempt.entity.key: attempt.where for attempt in self.queue} == {
            key: each.where for key, each in self.plain.all.items()
        }


@settings(max_examples=60)
@given(st.integers(0, 2**32))
def test_everybody_is_where_the_rules_say(seed: int) -> None:
    rng = random.Random(seed)
    both = Both()
    for _ in range(300):
        both.step(rng.choice(STEPS), rng.choice("abcdef"), rng.randrange(20))
        both.check()


def test_those_that_never_fit_do_not_keep_others_from_their_turn() -> None:
    """However often something wakes them, a pod that was turned away rests first, and then the others are next."""
    queue = Queue(order, {FIT: Waker(int(Reason.FREED))})
    for i in range(200):
        queue.put(Entity(f"huge-{i}", (), 9), 0.0)
    queue.put(Entity("small", (), 0), 0.0)
    now_s, tried = 0.0, 0
    while (attempt := queue.pop(now_s)) is not None:
        tried += 1
        now_s += 0.001
        if attempt.entity.key == "small":
            break
        queue.rejected(attempt, [FIT], now_s)
        queue.happened(ClusterEvent(int(Reason.FREED)), now_s)
    assert tried == 201


def test_a_busy_queue_tries_everybody_at_least_once_in_a_backoff() -> None:
    """Among those that are turned away for ever and woken by every event, no pod is tried twice as often as another."""
    queue = Queue(order, {FIT: Waker(int(Reason.FREED))})
    for i in range(50):
        queue.put(Entity(f"p{i}", (), i), 0.0)
    tries: dict[str, int] = {}
    now_s = 0.0
    while now_s < 100.0:
        attempt = queue.pop(now_s)
        now_s += 0.02
        if attempt is not None:
            tries[attempt.entity.key] = tries.get(attempt.entity.key, 0) + 1
            queue.rejected(attempt, [FIT], now_s)
        queue.happened(ClusterEvent(int(Reason.FREED)), now_s)
    assert len(tries) == 50
    assert max(tries.values()) <= 2 * min(tries.values())
