from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from koord.kube.token_bucket import TokenBucket
from koord.kube.work_queue import Backoff, ShutDown, WorkQueue, WorkState
from tests.waiting import eventually, turns

KEYS = st.sampled_from(["a", "b", "c", "d"])


def test_a_key_added_twice_is_taken_once() -> None:
    state: WorkState[str] = WorkState()
    assert state.add("a", 0.0)
    assert not state.add("a", 1.0)
    taken = state.take(3.0)
    assert taken is not None
    assert (taken.key, taken.waited_s) == ("a", 3.0)
    assert state.take(3.0) is None


def test_a_key_added_while_worked_on_comes_back_only_when_done() -> None:
    state: WorkState[str] = WorkState()
    state.add("a", 0.0)
    state.take(0.0)
    state.add("a", 1.0)
    assert state.take(1.0) is None
    assert state.done("a", 2.0) == 2.0
    taken = state.take(2.0)
    assert taken is not None
    assert taken.key == "a"


def test_of_several_delays_the_earliest_wins() -> None:
    state: WorkState[str] = WorkState()
    state.add_after("a", 10.0, 0.0)
    state.add_after("a", 5.0, 0.0)
    state.add_after("a", 7.0, 0.0)
    assert state.next_due() == 5.0
    assert state.take(4.9) is None
    assert state.take(5.0) is not None
    state.done("a", 5.0)
    assert state.take(100.0) is None


def test_a_key_asked_for_ever_earlier_does_not_fill_memory() -> None:
    state: WorkState[str] = WorkState()
    for step in range(1000):
        state.add_after("a", 2000.0 - step, 0.0)
    assert len(state._heap) < 100


@pytest.mark.parametrize(
    ("failures", "delay_s"),
    [(0, 0.005), (1, 0.01), (2, 0.02), (10, 5.12), (17, 655.36), (18, 1000.0), (5000, 1000.0)],
)
def test_backoff_doubles_up_to_its_cap(failures: int, delay_s: float) -> None:
    assert Backoff().delay_s(failures) == pytest.approx(delay_s)


def test_a_success_makes_the_next_failure_the_first_again() -> None:
    state: WorkState[str] = WorkState(Backoff(base_s=1.0))
    assert [state.retry("a", 0.0) for _ in range(3)] == [1.0, 2.0, 4.0]
    state.forget("a")
    assert state.retry("a", 0.0) == 1.0


def test_all_retries_together_are_limited() -> None:
    # 2 at once, then 10 a second: the third waits 0.1 s, the fourth 0.2 s.
    state: WorkState[str] = WorkState(Backoff(base_s=0.001, rate_per_s=10.0, burst=2))
    assert [round(state.retry(key, 0.0), 3) for key in "abcd"] == [0.001, 0.001, 0.1, 0.2]


def test_draining_hands_out_what_is_ready_but_nothing_delayed() -> None:
    state: WorkState[str] = WorkState()
    state.add("a", 0.0)
    state.add("b", 0.0)
    state.take(0.0)
    state.add("a", 0.0)
    state.add_after("late", 1.0, 0.0)
    state.shut_down(drain=True)
    assert not state.add("c", 0.0)
    taken = state.take(9.0)
    assert taken is not None
    assert taken.key == "b"
    assert not state.exhausted
    state.done("a", 9.0)
    again = state.take(9.0)
    assert again is not None
    assert again.key == "a"
    assert state.exhausted


def test_work_in_progress_is_measured() -> None:
    state: WorkState[str] = WorkState()
    for number, key in enumerate("ab"):
        state.add(key, 0.0)
        state.take(float(number))
    assert state.unfinished_s(5.0) == (9.0, 5.0)


def test_done_with_a_key_nobody_took_is_an_error() -> None:
    with pytest.raises(ValueError, match="'a' is not being worked on"):
        WorkState[str]().done("a", 0.0)


class QueueMachine(RuleBasedStateMachine):
    """Never one key with two workers; every request is followed by work that began after it."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.state: WorkState[str] = WorkState(Backoff(base_s=1.0, cap_s=8.0))
        self.working: set[str] = set()
        self.wanted: dict[str, float] = {}  # key -> by when it must be available, at the latest

    def want(self, key: str, due: float) -> None:
        self.wanted[key] = min(due, self.wanted.get(key, due))

    @rule(key=KEYS)
    def add(self, key: str) -> None:
        self.state.add(key, self.now)
        self.want(key, self.now)

    @rule(key=KEYS, delay_s=st.sampled_from([0.0, 1.0, 3.0, 9.0]))
    def add_after(self, key: str, delay_s: float) -> None:
        self.state.add_after(key, delay_s, self.now)
        self.want(key, self.now + delay_s)

    @rule(key=KEYS)
    def retry(self, key: str) -> None:
        self.want(key, self.now + self.state.retry(key, self.now))

    @rule(key=KEYS)
    def forget(self, key: str) -> None:
        self.state.forget(key)

    @rule(seconds=st.sampled_from([0.5, 1.0, 5.0]))
    def pass_time(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def take(self) -> None:
        due = {key for key, at in self.wanted.items() if at <= self.now and key not in self.working}
        taken = self.state.take(self.now)
        if taken is None:
            assert not due
            return
        assert taken.key not in self.working
        assert taken.key in due
        self.working.add(taken.key)
        # A later delayed request may still be pending and cause one more round: that is allowed, not needed.
        remaining = self.state._due.get(taken.key)
        del self.wanted[taken.key]
        if remaining is not None:
            self.wanted[taken.key] = remaining

    @precondition(lambda self: self.working)
    @rule(data=st.data())
    def done(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.working)))
        self.state.done(key, self.now)
        self.working.remove(key)

    @invariant()
    def counts_agree(self) -> None:
        assert self.state.working == self.working
        assert self.state.counts.taken - self.state.counts.done == len(self.working)


TestQueueMachine = QueueMachine.TestCase
TestQueueMachine.settings = settings(max_examples=60, stateful_step_count=40)


def test_a_bucket_refills_at_its_rate_and_never_above_its_burst() -> None:
    bucket = TokenBucket(1 / 300, 25)
    assert sum(bucket.take(0.0) for _ in range(30)) == 25
    assert not bucket.take(299.0)
    assert bucket.take(301.0)
    assert sum(bucket.take(1e9) for _ in range(30)) == 25


def test_a_clock_that_goes_back_takes_no_tokens_away() -> None:
    bucket = TokenBucket(1.0, 2)
    assert bucket.take(10.0)
    assert bucket.take(5.0)
    assert not bucket.take(10.5)
    assert bucket.take(11.0)


async def test_workers_share_keys_and_none_is_lost() -> None:
    queue: WorkQueue[int] = WorkQueue()
    active: Counter[int] = Counter()
    finished: Counter[int] = Counter()

    async def worker() -> None:
        while True:
            try:
                key = await queue.get()
            except ShutDown:
                return
            active[key] += 1
            assert active[key] == 1
            await turns(2)
            active[key] -= 1
            finished[key] += 1
            queue.done(key)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(4):
            tasks.create_task(worker())
        for number in range(100):
            queue.add(number % 10)
            queue.add_after(100 + number % 5, 0.002)
            if number % 10 == 0:
                await turns(2)
        await eventually(lambda: finished.keys() >= {*range(100, 105)})
        queue.shut_down(drain=True)
        await asyncio.wait_for(queue.drained(), 60)
    assert set(finished) == {*range(10), *range(100, 105)}


async def test_a_cancelled_getter_passes_its_wake_up_on() -> None:
    queue: WorkQueue[str] = WorkQueue()
    first = asyncio.create_task(queue.get())
    second = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.add("a")
    first.cancel()
    assert await asyncio.wait_for(second, 60) == "a"


async def test_getters_cancelled_in_one_moment_end_as_cancelled() -> None:
    queue: WorkQueue[str] = WorkQueue()
    getters = [asyncio.create_task(queue.get()) for _ in range(3)]
    await asyncio.sleep(0)
    queue.add("a")
    for getter in getters:
        getter.cancel()
    ends = await asyncio.gather(*getters, return_exceptions=True)
    assert [type(end) for end in ends] == [asyncio.CancelledError] * 3
    assert await asyncio.wait_for(queue.get(), 60) == "a"


async def test_a_delayed_key_wakes_a_waiting_worker_at_its_time() -> None:
    queue: WorkQueue[str] = WorkQueue()
    loop = asyncio.get_running_loop()
    started = loop.time()
    queue.add_after("late", 60.0)
    queue.add_after("soon", 0.05)
    assert await asyncio.wait_for(queue.get(), 60) == "soon"
    assert loop.time() - started >= 0.049


async def test_shutting_down_without_drain_ends_waiting_workers() -> None:
    queue: WorkQueue[str] = WorkQueue()
    waiting = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.shut_down(drain=False)
    with pytest.raises(ShutDown):
        await asyncio.wait_for(waiting, 60)
