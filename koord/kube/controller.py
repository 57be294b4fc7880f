"""Controller: runs `reconcile(key)` for every key that may need it, with N workers, until it is stopped.

Level-triggered: what happened does not matter, only that something did. Handlers turn changes into keys, and
reconcile looks at the present state. One object's failure is logged with its name and tried again after a backoff; it
never stops the others. Reconciling starts once all watched informers have synced.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, Literal, Protocol, TypeVar

from koord.kube.work_queue import Backoff, QueueObserver, ShutDown, WorkQueue

log = logging.getLogger(__name__)

K = TypeVar("K", bound=Hashable)
D_co = TypeVar("D_co", covariant=True)
D = TypeVar("D")

Result = Literal["success", "requeue", "requeue_after", "error"]


@dataclass(frozen=True, slots=True)
class Requeue:
    """Reconcile the key again: after `after_s`, or where that is not given after the key's growing backoff."""

    after_s: float | None = None


class Watched(Protocol[D_co]):
    """What a controller needs of an informer."""

    @property
    def has_synced(self) -> bool: ...
    async def synced(self) -> None: ...
    def add_handler(self, handler: Callable[[D_co], None], /) -> object: ...


class ReconcileObserver(Protocol):
    """Observes how reconciles end: the controller's metrics."""

    def reconciled(self, result: Result, took_s: float) -> None: ...


class Controller(Generic[K]):
    """One kind of work. `watch` says what causes it, `run` does it.

    controller = Controller("node-slo", reconcile, workers=2)
    controller.watch(nodes, lambda delta: [delta.key])
    await controller.run()
    """

    def __init__(
        self,
        name: str,
        reconcile: Callable[[K], Awaitable[Requeue | None]],
        *,
        workers: int = 1,
        timeout_s: float = 60.0,
        backoff: Backoff | None = None,
        resync: tuple[float, Callable[[], Iterable[K]]] | None = None,
        queue_observer: QueueObserver | None = None,
        observer: ReconcileObserver | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`resync` is (period in seconds, all keys): every key is reconciled once a period, come what may."""
        if workers < 1:
            raise ValueError(f"controller {name}: workers must be at least 1, not {workers}")
        self.name = name
        self.queue: WorkQueue[K] = WorkQueue(backoff, observer=queue_observer, monotonic=monotonic)
        self._reconcile = reconcile
        self._workers = workers
        self._timeout_s = timeout_s
        self._resync = resync
        self._observer = observer
        self._now = monotonic
        self._sources: list[Watched[Any]] = []
        self._failing: dict[K, str] = {}
        "The last logged error, by key: a traceback is logged once."
        self._stopping = asyncio.Event()
        self._started = False

    def watch(self, source: Watched[D], keys: Callable[[D], Iterable[K]]) -> None:
        """Every change of `source` asks for the keys that `keys` makes of it."""

        def handle(delta: D) -> None:
            try:
                for key in keys(delta):
                    self.queue.add(key)
            except Exception:
                log.exception("cannot tell what to reconcile for a change", extra=self._fields(_name_of(delta)))

        self._sources.append(source)
        source.add_handler(handle)

    def add(self, key: K) -> None:
        self.queue.add(key)

    def add_after(self, key: K, delay_s: float) -> None:
        self.queue.add_after(key, delay_s)

    def ready(self) -> bool:
        """Whether all that it watches has synced, so that it may reconcile."""
        return all(source.has_synced for source in self._sources)

    def stop(self) -> None:
        """Ends `run` once the reconciles under way are finished. What is left in the queue is not started."""
        self._stopping.set()
        self.queue.shut_down(drain=False)

    async def run(self) -> None:
        """Works until `stop` is called, or it is cancelled: that also cancels the reconciles under way."""
        if self._started:
            raise RuntimeError(f"controller {self.name} was already run")
        self._started = True
        if not await self._wait_for_sync():
            return
        log.info("controller started", extra={"controller": self.name, "workers": self._workers})
        try:
            async with asyncio.TaskGroup() as tasks:
                resync = tasks.create_task(self._resync_loop(), name=f"{self.name}/resync") if self._resync else None
                workers = [
                    tasks.create_task(self._work(), name=f"{self.name}/worker-{number}")
                    for number in range(self._workers)
                ]
                await asyncio.wait(workers)
                if resync:
                    resync.cancel()
        finally:
            self.queue.shut_down(drain=False)
            log.info("controller stopped", extra={"controller": self.name})

    async def _wait_for_sync(self) -> bool:
        """True when all sources have synced, False when stopped before that."""

        async def synced() -> None:
            for source in self._sources:
                await source.synced()

        async with asyncio.TaskGroup() as tasks:
            either = tasks.create_task(synced()), tasks.create_task(self._stopping.wait())
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            for task in either:
                task.cancel()
        return not self._stopping.is_set()

    async def _work(self) -> None:
        while True:
            try:
                key = await self.queue.get()
            except ShutDown:
                return
            try:
                await self._process(key)
            finally:
                self.queue.done(key)

    async def _process(self, key: K) -> None:
        started = self._now()
        result: Result
        try:
            async with asyncio.timeout(self._timeout_s):
                again = await self._reconcile(key)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            # Nobody cancelled this worker: something that reconcile waited for was cancelled. That is a failure too.
            result = self._failed(key, "was cancelled from within", exc_info=True)
        except TimeoutError:
            result = self._failed(key, f"did not finish within {self._timeout_s:g} s", exc_info=False)
        except Exception as error:  # noqa: BLE001 - the supervisor: one object's failure must not stop the others
            result = self._failed(key, str(error) or type(error).__name__, exc_info=True)
        else:
            result = self._succeeded(key, again)
        if self._observer:
            self._observer.reconciled(result, self._now() - started)

    def _failed(self, key: K, why: str, *, exc_info: bool) -> Result:
        delay_s = self.queue.retry(key)
        is_new, self._failing[key] = self._failing.get(key) != why, why
        log.error(
            "reconcile failed: %s",
            why,
            exc_info=exc_info and is_new,
            extra=self._fields(key) | {"retry_s": round(delay_s, 3)},
        )
        return "error"

    def _succeeded(self, key: K, again: Requeue | None) -> Result:
        self._failing.pop(key, None)
        if again is not None and again.after_s is None:
            self.queue.retry(key)
            return "requeue"
        self.queue.forget(key)
        if again is None or again.after_s is None:
            return "success"
        self.queue.add_after(key, again.after_s)
        return "requeue_after"

    async def _resync_loop(self) -> None:
        assert self._resync is not None
        period_s, all_keys = self._resync
        while True:
            await asyncio.sleep(period_s)
            for key in list(all_keys()):
                self.queue.add(key)

    def _fields(self, key: object) -> dict[str, Any]:
        return {"controller": self.name, "object": str(key)}


def _name_of(delta: object) -> str:
    return str(getattr(delta, "key", type(delta).__name__))
