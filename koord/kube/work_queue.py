"""Work queue: which key is worked on next, and when is a failed one tried again?

Controllers add keys, workers take them. A key is in the queue at most once; one that is added while it is being worked
on is handed out again afterwards, never to two workers at once. `WorkState` is the whole logic, with time passed in;
`WorkQueue` lets tasks wait on it.

    retry delay = max(base * 2^failures up to a cap, wait of the queue's overall rate limit)
"""

from __future__ import annotations

import asyncio
import heapq
import time
from collections import deque
from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from koord.kube.token_bucket import TokenBucket

K = TypeVar("K", bound=Hashable)


class ShutDown(Exception):
    """The queue was shut down: there will be no more work."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """How long a key waits after its n-th failure, and how many retries a second all keys together may have."""

    base_s: float = 0.005
    cap_s: float = 1000.0
    rate_per_s: float = 10.0
    burst: int = 100

    def delay_s(self, failures: int) -> float:
        # 2.0**1024 overflows; long before that the cap holds.
        return min(self.cap_s, self.base_s * 2.0 ** min(failures, 64))


@dataclass(slots=True)
class Counts:
    """What has gone through a queue since it was made."""

    adds: int = 0
    retries: int = 0
    taken: int = 0
    done: int = 0


class QueueObserver(Protocol):
    """Observes a queue: its metrics."""

    def added(self, depth: int) -> None: ...
    def retried(self) -> None: ...
    def taken(self, depth: int, waited_s: float) -> None: ...
    def done(self, depth: int, worked_s: float) -> None: ...


@dataclass(frozen=True, slots=True)
class WorkItem(Generic[K]):
    key: K
    waited_s: float


class WorkState(Generic[K]):
    """The queue without a clock or tasks. Every call that depends on time takes `now` in seconds."""

    def __init__(self, backoff: Backoff | None = None) -> None:
        self.backoff = backoff or Backoff()
        self.counts = Counts()
        self._bucket = TokenBucket(self.backoff.rate_per_s, self.backoff.burst)
        self._ready: deque[K] = deque()
        self._added_at: dict[K, float] = {}  # every key that waits for a worker, or for its own worker to finish
        self._working: dict[K, float] = {}
        self._due: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._failures: dict[K, int] = {}
        self._sequence = 0
        self._closed = False

    def __len__(self) -> int:
        """Keys that a worker could take now."""
        return len(self._ready)

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def working(self) -> frozenset[K]:
        return frozenset(self._working)

    @property
    def idle(self) -> bool:
        """Nothing to take, nothing taken. Delayed keys do not count."""
        return not self._ready and not self._working

    @property
    def exhausted(self) -> bool:
        """Shut down, and no key will be handed out any more."""
        return self._closed and not self._added_at

    def add(self, key: K, now: float) -> bool:
        """Adds `key`. False if it is already waiting, or the queue is closed."""
        if self._closed or key in self._added_at:
            return False
        self._added_at[key] = now
        self.counts.adds += 1
        if key not in self._working:
            self._ready.append(key)
        return True

    def add_after(self, key: K, delay_s: float, now: float) -> bool:
        """Adds `key` at a later time. Of several times the earliest holds."""
        if delay_s <= 0:
            return self.add(key, now)
        if self._closed:
            return False
        due = now + delay_s
        due_at = self._due.get(key)
        if due_at is not None and due_at <= due:
            return False
        self._due[key] = due
        self._sequence += 1
        heapq.heappush(self._heap, (due, self._sequence, key))
        self._compact()
        return True

    def retry(self, key: K, now: float) -> float:
        """Asks for a key that failed, after its backoff. Returns the delay."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        self.counts.retries += 1
        delay_s = max(self.backoff.delay_s(failures), self._bucket.reserve(now))
        self.add_after(key, delay_s, now)
        return delay_s

    def forget(self, key: K) -> None:
        """The key succeeded: its next failure is its first again."""
        self._failures.pop(key, None)

    def failures(self, key: K) -> int:
        return self._failures.get(key, 0)

    def take(self, now: float) -> WorkItem[K] | None:
        """The next key for a worker. The worker must call `done` with it."""
        self.promote(now)
        if not self._ready:
            return None
        key = self._ready.popleft()
        waited_s = max(0.0, now - self._added_at.pop(key))
        self._working[key] = now
        self.counts.taken += 1
        return WorkItem(key, waited_s)

    def done(self, key: K, now: float) -> float:
        """The worker is finished with `key`. Returns how long it took."""
        started = self._working.pop(key, None)
        if started is None:
            raise ValueError(f"{key!r} is not being worked on")
        self.counts.done += 1
        if key in self._added_at:
            self._ready.append(key)
        return max(0.0, now - started)

    def promote(self, now: float) -> int:
        """Moves delayed keys that are due to where workers take them. Returns how many."""
        promoted = 0
        while self._heap and self._heap[0][0] <= now:
            due, _, key = heapq.heappop(self._heap)
            if self._due.get(key) == due:
                del self._due[key]
                promoted += self.add(key, due)
        return promoted

    def next_due(self) -> float | None:
        """When the next delayed key is due."""
        while self._heap and self._due.get(self._heap[0][2]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def unfinished_s(self, now: float) -> tuple[float, float]:
        """Seconds of work in progress: of all workers together, and of the longest."""
        # Copied in one step: metrics are rendered in another thread.
        running = [max(0.0, now - started) for started in tuple(self._working.values())]
        return sum(running), max(running, default=0.0)

    def shut_down(self, *, drain: bool) -> None:
        """Takes no more keys. With `drain`, those that are ready are still handed out; delayed ones never are."""
        self._closed = True
        self._due.clear()
        self._heap.clear()
        if not drain:
            self._ready.clear()
            self._added_at.clear()

    def _compact(self) -> None:
        """A key that is asked for ever earlier leaves its later times in the heap: bound that."""
        if len(self._heap) > 2 * len(self._due) + 64:
            self._heap = [entry for entry in self._heap if self._due.get(entry[2]) == entry[0]]
            heapq.heapify(self._heap)


class WorkQueue(Generic[K]):
    """A queue that tasks of one event loop add to and wait on.

    while True:
        key = await queue.get()      # ShutDown once there is no more
        try: ...
        finally: queue.done(key)
    """

    def __init__(
        self,
        backoff: Backoff | None = None,
        *,
        observer: QueueObserver | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.state: WorkState[K] = WorkState(backoff)
        self._observer = observer
        self._now = monotonic
        self._getters: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due = 0.0
        self._drained = asyncio.Event()

    def __len__(self) -> int:
        return len(self.state)

    def add(self, key: K) -> None:
        if self.state.add(key, self._now()):
            self._added()

    def add_after(self, key: K, delay_s: float) -> None:
        if delay_s <= 0:
            self.add(key)
        elif self.state.add_after(key, delay_s, self._now()):
            self._set_timer()

    def retry(self, key: K) -> float:
        """Again after the key's backoff, whose seconds are returned."""
        delay_s = self.state.retry(key, self._now())
        if self._observer:
            self._observer.retried()
        self._set_timer()
        return delay_s

    def forget(self, key: K) -> None:
        self.state.forget(key)

    async def get(self) -> K:
        """The next key. Its caller must call `done` with it."""
        while True:
            now = self._now()
            self._promote(now)
            taken = self.state.take(now)
            if taken is not None:
                if self._observer:
                    self._observer.taken(len(self.state), taken.waited_s)
                return taken.key
            if self.state.exhausted:
                raise ShutDown
            self._set_timer()
            getter = asyncio.get_running_loop().create_future()
            self._getters.append(getter)
            try:
                await getter
            except asyncio.CancelledError:
                # Who is cancelled after being woken passes the wake-up on, or a key would lie there unseen.
                if getter.done() and not getter.cancelled():
                    self._wake_one()
                else:
                    # Another that was cancelled in the same moment may have passed it over already.
                    with suppress(ValueError):
                        self._getters.remove(getter)
                raise

    def done(self, key: K) -> None:
        worked_s = self.state.done(key, self._now())
        if self._observer:
            self._observer.done(len(self.state), worked_s)
        if self.state.closed:
            self._wake_all()
            if self.state.idle:
                self._drained.set()
        else:
            self._wake_one()

    def shut_down(self, *, drain: bool = True) -> None:
        """No more keys are accepted. Waiting workers get what is left (with `drain`), then `ShutDown`."""
        self.state.shut_down(drain=drain)
        if self._timer:
            self._timer.cancel()
            self._timer = None
        if self.state.idle:
            self._drained.set()
        self._wake_all()

    async def drained(self) -> None:
        """Returns when the queue is shut down and its last key is done."""
        await self._drained.wait()

    def _added(self) -> None:
        if self._observer:
            self._observer.added(len(self.state))
        self._wake_one()

    def _set_timer(self) -> None:
        due = self.state.next_due()
        if due is None:
            return
        if self._timer is not None and self._timer_due <= due:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_due = due
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(max(0.0, due - self._now()), self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._promote(self._now())
        self._set_timer()

    def _promote(self, now: float) -> None:
        for _ in range(self.state.promote(now)):
            self._added()

    def _wake_one(self) -> None:
        while self._getters and len(self.state):
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return

    def _wake_all(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
