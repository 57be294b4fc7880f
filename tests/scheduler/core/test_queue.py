"""The queue of pods that wait for a place."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koord.api.kubernetes.meta import ObjectMeta
from koord.api.kubernetes.pod import Pod, PodSpec, SchedulingGate
from koord.scheduler.core.entity import Attempt, Entity, Where
from koord.scheduler.core.queue import MOST_EVENTS, POOLED_AT_MOST_S, SWEEP_EVERY_S, ClusterEvent, Gate, Queue, Waker
from koord.scheduler.framework.ask import Ask
from koord.scheduler.plugins.priority_sort import order
from koord.scheduler.plugins.scheduling_gates import blocks
from koord.scheduler.state.table import Reason

FIT = "NodeResourcesFit"
TAINTS = "TaintToleration"
WAKERS = {FIT: Waker(int(Reason.REQUESTED | Reason.NODE)), TAINTS: Waker(int(Reason.TAINTS | Reason.NODE))}
FREED = ClusterEvent(int(Reason.REQUESTED))
TAINTED = ClusterEvent(int(Reason.TAINTS))
LABELLED = ClusterEvent(int(Reason.LABELS))


def queue(**wakers: Waker) -> Queue:
    return Queue(order, {**WAKERS, **wakers}, [Gate(blocks)])


def entity(key: str, priority: int = 0) -> Entity:
    return Entity(key, (), priority)


def popped(waiting: Queue, now_s: float) -> Attempt:
    attempt = waiting.pop(now_s)
    assert attempt is not None
    return attempt


def pop_all(waiting: Queue, now_s: float) -> list[str]:
    found = []
    while (attempt := waiting.pop(now_s)) is not None:
        found.append(attempt.entity.key)
        waiting.done(attempt)
    return found


def test_the_higher_priority_is_first_and_of_equals_who_came_first() -> None:
    waiting = queue()
    for key, priority, now_s in [("late", 5, 3.0), ("low", 0, 0.0), ("early", 5, 1.0), ("high", 9, 9.0)]:
        waiting.put(entity(key, priority), now_s)
    assert pop_all(waiting, 10.0) == ["high", "early", "late", "low"]


def test_entities_that_came_at_the_same_time_keep_their_order() -> None:
    waiting = queue()
    for key in "cabed":
        waiting.put(entity(key), 0.0)
    assert pop_all(waiting, 0.0) == list("cabed")


def test_a_plugin_may_sort_otherwise() -> None:
    class ByName:
        def order(self, attempt: Attempt) -> tuple[str]:
            return (attempt.entity.key,)

    waiting = Queue(ByName().order, {})
    for key in "cabed":
        waiting.put(entity(key), 0.0)
    assert pop_all(waiting, 0.0) == list("abcde")


@pytest.mark.parametrize(("rejections", "backoff_s"), [(1, 1), (2, 2), (3, 4), (4, 8), (5, 10), (6, 10), (5000, 10)])
def test_backoff_doubles_up_to_ten_seconds(rejections: int, backoff_s: float) -> None:
    attempt = Attempt(entity("a"), 1, 0.0, rejections=rejections)
    assert queue().backoff_s(attempt) == backoff_s


def test_errors_count_by_themselves_and_a_rejection_starts_them_anew() -> None:
    waiting = queue()
    waiting.put(entity("a"), 0.0)
    attempt = popped(waiting, 0.0)
    waiting.failed(attempt, 0.0)
    attempt = popped(waiting, 100.0)
    waiting.failed(attempt, 100.0)
    assert (attempt.errors, waiting.backoff_s(attempt)) == (2, 2)
    attempt = popped(waiting, 200.0)
    waiting.rejected(attempt, [FIT], 200.0)
    assert (attempt.errors, attempt.rejections, waiting.backoff_s(attempt)) == (0, 1, 1)


def test_only_an_event_that_can_help_wakes_a_rejected_one() -> None:
    waiting = queue()
    waiting.put(entity("full"), 0.0)
    waiting.rejected(popped(waiting, 0.0), [FIT], 0.0)
    waiting.put(entity("tainted"), 0.0)
    waiting.rejected(popped(waiting, 0.0), [TAINTS], 0.0)
    assert waiting.pop(60.0) is None
    assert waiting.happened(LABELLED, 60.0) == 0
    assert waiting.happened(TAINTED, 60.0) == 1
    assert waiting.where("full") is Where.UNSCHEDULABLE
    assert pop_all(waiting, 60.0) == ["tainted"]


def test_a_plugin_may_look_closer_at_an_event() -> None:
    waiting = queue(Picky=Waker(int(Reason.LABELS), lambda entity, event: entity.key == event.subject))
    for key in "ab":
        waiting.put(entity(key), 0.0)
        waiting.rejected(popped(waiting, 0.0), ["Picky"], 0.0)
    assert waiting.happened(ClusterEvent(int(Reason.LABELS), "b"), 60.0) == 1
    assert pop_all(waiting, 60.0) == ["b"]


def test_an_event_helps_if_one_of_several_rejecting_plugins_listens() -> None:
    waiting = queue()
    waiting.put(entity("a"), 0.0)
    waiting.rejected(popped(waiting, 0.0), [FIT, TAINTS], 0.0)
    assert waiting.happened(TAINTED, 0.0) == 1


def test_an_entity_that_is_woken_early_backs_off_first() -> None:
    waiting = queue()
    waiting.put(entity("a"), 0.0)
    waiting.rejected(popped(waiting, 0.0), [FIT], 0.0)
    waiting.happened(FREED, 0.5)
    assert waiting.where("a") is Where.BACKOFF
    waiting.tick(1.9)
    assert waiting.where("a") is Where.BACKOFF, "a backoff ends with the second that it falls in"
    assert waiting.next_change_s() == 2.0
    waiting.tick(2.0)
    assert waiting.where("a") is Where.ACTIVE


def test_one_that_backs_off_is_taken_early_when_nothing_else_is_there() -> None:
    waiting = queue()
    waiting.put(entity("back", 9), 0.0)
    waiting.rejected(popped(waiting, 0.0), [FIT], 0.0)
    waiting.put(entity("fresh"), 0.1)
    waiting.happened(FREED, 0.1)
    assert pop_all(waiting, 0.1) == ["fresh", "back"]


def test_one_that_met_an_error_is_not_taken_early() -> None:
    waiting = queue()
    waiting.put(entity("a"), 0.0)
    waiting.failed(popped(waiting, 0.0), 0.0)
    assert waiting.pop(1.9) is None
    assert pop_all(waiting, 2.0) == ["a"]


def test_a_rejection_by_nobody_counts_as_an_error() -> None:
    waiting = queue()
    waiting.put(entity("a"), 0.0)
    attempt = popped(waiting, 0.0)
    waiting.rejected(attempt, [], 0.0)
    assert (attempt.errors, waiting.where("a")) == (1, Where.BACKOFF)


def test_one_that_waits_for_something_promised_does_not_back_off() -> None:
    waiting = queue()
    waiting.put(entity("a"), 0.0)
    waiting.rejected(popped(waiting, 0.0), [FIT], 0.0, pending=True)
    waiting.happened(FREED, 0.1)
    assert waiting.where("a") is Where.ACTIVE


@pytest.mark.parametrize(("event", "where"), [(FREED, Where.BACKOFF), (LABELLED, Where.UNSCHEDULABLE)])
def test_events_during_the_flight_are_looked_at_on_return(event: ClusterEvent, where: Where) -> None:
    waiting = queue()
    waiting.put(entity("a"), 0.0)
    attempt = popped(waiting, 0.0)
    waiting.happened(event, 0.0)
    waiting.rejected(attempt, [FIT], 0.1)
    assert waiting.where("a") is where


def test_events_before_the_flight_do_not_count_on_return() -> None:
    waiting = queue()
    for key in "ab":
        waiting.put(entity(key), 0.0)
    first = popped(waiting, 0.0)
    waiting.happened(FREED, 0.0)
    second = popped(waiting, 0.0)
    waiting.rejected(second, [FIT], 0.1)
    waiting.rejected(first, [FIT], 0.1)
    assert (waiting.where("a"), waiting.where("b")) == (Where.BACKOFF, Where.UNSCHEDULABLE)


def test_after_too_many_events_in_flight_it_is_tried_again_to_be_safe() -> None:
    waiting = queue()
    waiting.put(entity("a"), 0.0)
    attempt = popped(waiting, 0.0)
    for _ in range(MOST_EVENTS + 1):
        waiting.happened(LABELLED, 0.0)
    waiting.rejected(attempt, [FIT], 0.1)
    assert waiting.where("a") is Where.BACKOFF


def test_a_change_during_the_flight_gives_a_new_chance() -> None:
    waiting = queue()
    waiting.put(entity("a"), 0.0)
    attempt = popped(waiting, 0.0)
    waiting.put(entity("a", 7), 0.0)
    waiting.rejected(attempt, [FIT], 0.1)
    assert waiting.where("a") is Where.BACKOFF
    assert popped(waiting, 5.0).entity.priority == 7


def test_one_that_went_away_in_flight_does_not_come_back() -> None:
    waiting = queue()
    waiting.put(entity("a"), 0.0)
    attempt = popped(waiting, 0.0)
    waiting.remove("a")
    waiting.rejected(attempt, [FIT], 0.0)
    assert "a" not in waiting
    assert pop_all(waiting, 1000.0) == []


def test_another_one_of_the_same_name_is_not_touched_by_the_outcome_of_the_first() -> None:
    waiting = queue()
    waiting.put(entity("a"), 0.0)
    attempt = popped(waiting, 0.0)
    waiting.remove("a")
    waiting.put(entity("a"), 0.0)
    waiting.done(attempt)
    assert pop_all(waiting, 0.0) == ["a"]


def test_an_outcome_is_told_once() -> None:
    waiting = queue()
    waiting.put(entity("a"), 0.0)
    attempt = popped(waiting, 0.0)
    waiting.done(attempt)
    with pytest.raises(ValueError, match="not in flight"):
        waiting.done(attempt)


def test_a_change_of_priority_changes_the_order() -> None:
    waiting = queue()
    for key in "abc":
        waiting.put(entity(key), 0.0)
    waiting.put(entity("c", 1), 5.0)
    assert pop_all(waiting, 5.0) == ["c", "a", "b"]


def gated(*gates: str) -> Entity:
    spec = PodSpec(scheduling_gates=tuple(SchedulingGate(name) for name in gates))
    return Entity.of(Ask(Pod(ObjectMeta(name="a", namespace="shop"), spec)))


def test_a_pod_with_scheduling_gates_waits_until_the_last_is_taken_off() -> None:
    waiting = queue()
    waiting.put(gated("a", "b"), 0.0)
    assert waiting.pop(1000.0) is None
    (attempt,) = waiting
    assert attempt.gate == "waiting for scheduling gates: [a b]"
    waiting.put(gated("b"), 1000.0)
    assert waiting.pop(2000.0) is None
    waiting.put(gated(), 2000.0)
    assert pop_all(waiting, 2000.0) == ["shop/a"]


def test_a_gate_of_a_plugin_opens_on_its_events() -> None:
    class Closed:
        wakes_on = int(Reason.NODE)
        reason: str | None = "not yet"

        def blocks(self, each: Entity) -> str | None:
            return self.reason

    gate = Closed()
    waiting = Queue(order, WAKERS, [Gate(gate.blocks, int(gate.wakes_on))])
    waiting.put(entity("a"), 0.0)
    assert waiting.happened(ClusterEvent(int(Reason.NODE)), 0.0) == 0
    gate.reason = None
    assert waiting.happened(LABELLED, 0.0) == 0
    assert waiting.happened(ClusterEvent(int(Reason.NODE)), 0.0) == 1
    assert pop_all(waiting, 0.0) == ["a"]


def test_activated_ones_skip_their_backoff() -> None:
    waiting = queue()
    waiting.put(entity("a"), 0.0)
    waiting.failed(popped(waiting, 0.0), 0.0)
    waiting.activate(["a", "stranger"], 0.0)
    assert waiting.where("a") is Where.ACTIVE


def test_a_job_is_one_entity_whose_members_may_come_one_by_one() -> None:
    asks = [Ask(Pod(ObjectMeta(name=f"worker-{i}", namespace="ml"))) for i in range(3)]
    waiting = queue()
    for i in range(3):
        waiting.put(Entity("ml/train", tuple(asks[: i + 1]), 5), float(i))
    attempt = popped(waiting, 3.0)
    assert [ask.key for ask in attempt.entity.pods] == ["ml/worker-0", "ml/worker-1", "ml/worker-2"]
    assert waiting.pop(3.0) is None


def test_without_any_event_a_rejected_one_is_tried_again_after_five_minutes() -> None:
    waiting = queue()
    waiting.put(entity("a"), 0.0)
    waiting.rejected(popped(waiting, 0.0), [FIT], 0.0)
    assert waiting.pop(POOLED_AT_MOST_S) is None
    assert waiting.pop(POOLED_AT_MOST_S + SWEEP_EVERY_S) is not None


KEYS = st.sampled_from("abcdefgh")
STEPS = st.one_of(
    st.tuples(st.just("put"), KEYS, st.integers(0, 3)),
    st.tuples(st.just("remove"), KEYS, st.just(0)),
    st.tuples(st.just("pop"), KEYS, st.just(0)),
    st.tuples(st.sampled_from(["done", "rejected", "failed", "pending"]), KEYS, st.integers(0, 2)),
    st.tuples(st.just("event"), KEYS, st.sampled_from([int(reason) for reason in Reason])),
    st.tuples(st.just("activate"), KEYS, st.just(0)),
    st.tuples(st.just("wait"), KEYS, st.integers(0, 40)),
)


class _Driven:
    """A queue, and beside it the plain set of keys that must be in it."""

    def __init__(self) -> None:
        self.queue = queue()
        self.there: dict[str, int] = {}
        self.flying: list[Attempt] = []
        self.now_s = 0.0

    def step(self, what: str, key: str, number: int) -> None:
        self.now_s += 0.25
        match what:
            case "put":
                self.queue.put(entity(key, number), self.now_s)
                self.there[key] = number
            case "remove":
                self.queue.remove(key)
                self.there.pop(key, None)
                # Of those in flight, the removed one's outcome no longer matters, but must still be told.
            case "pop":
                self._pop()
            case "done" | "rejected" | "failed" | "pending" if self.flying:
                self._tell(what, self.flying.pop(number % len(self.flying)), number)
            case "event":
                self.queue.happened(ClusterEvent(number), self.now_s)
            case "activate":
                self.queue.activate([key], self.now_s)
            case "wait":
                self.now_s += number
            case _:
                pass

    def _pop(self) -> None:
        self.queue.tick(self.now_s)
        active = [attempt for attempt in self.queue if attempt.where is Where.ACTIVE]
        attempt = self.queue.pop(self.now_s)
        if attempt is None:
            assert not active
            return
        if active:
            # Nobody who was ready has a higher priority, or the same and came back earlier.
            first = min((-attempt.entity.priority, attempt.queued_at_s, attempt.arrival) for attempt in active)
            assert (-attempt.entity.priority, attempt.queued_at_s, attempt.arrival) == first
        else:
            assert not attempt.errors, "one that met an error rests its full time"
        self.flying.append(attempt)

    def _tell(self, what: str, attempt: Attempt, number: int) -> None:
        match what:
            case "done":
                if attempt in list(self.queue):
                    del self.there[attempt.entity.key]
                self.queue.done(attempt)
            case "failed":
                self.queue.failed(attempt, self.now_s)
            case _:
                by = [[FIT], [TAINTS], [FIT, TAINTS]][number]
                self.queue.rejected(attempt, by, self.now_s, pending=what == "pending")

    def check(self) -> None:
        standing = {attempt.entity.key: attempt for attempt in self.queue}
        assert {key: attempt.entity.priority for key, attempt in standing.items()} == self.there, (
            "nothing lost, nothing new"
        )
        flying = [attempt for attempt in self.flying if standing.get(attempt.entity.key) is attempt]
        assert len(self.queue) == len(self.there) - len(flying)
        assert len({attempt.entity.key for attempt in flying}) == len(flying), "no pod is in flight twice"
        for attempt in standing.values():
            assert (attempt.where is Where.IN_FLIGHT) == (attempt in flying)


@settings(max_examples=200, deadline=None)
@given(st.lists(STEPS, max_size=60))
def test_nothing_is_lost_or_doubled_and_the_order_holds(steps: list[tuple[str, str, int]]) -> None:
    driven = _Driven()
    for step in steps:
        driven.step(*step)
        driven.check()


@settings(max_examples=100, deadline=None)
@given(st.lists(STEPS, max_size=60))
def test_whatever_happened_everybody_gets_another_chance_within_bounded_time(steps: list[tuple[str, str, int]]) -> None:
    driven = _Driven()
    for step in steps:
        driven.step(*step)
    while driven.flying:
        driven.step("rejected", "a", 0)
    wanted = set(driven.there)
    until_s = driven.now_s + POOLED_AT_MOST_S + 2 * SWEEP_EVERY_S
    got: list[str] = []
    while driven.now_s < until_s:
        driven.now_s += 1.0
        got += pop_all(driven.queue, driven.now_s)
    assert sorted(got) == sorted(wanted), "each once, and all"


@settings(max_examples=100, deadline=None)
@given(st.lists(STEPS, max_size=60))
def test_the_time_of_the_next_change_is_never_later_than_the_change(steps: list[tuple[str, str, int]]) -> None:
    driven = _Driven()
    for step in steps:
        driven.step(*step)
    driven.queue.tick(driven.now_s)
    active = [attempt for attempt in driven.queue if attempt.where is Where.ACTIVE]
    due_s = driven.queue.next_change_s()
    before_s = driven.now_s + 600.0 if due_s is None else due_s - 0.01
    if before_s > driven.now_s:
        driven.queue.tick(before_s)
    assert [attempt for attempt in driven.queue if attempt.where is Where.ACTIVE] == active
