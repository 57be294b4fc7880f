"""Event recorder: tells users what happened to their objects, as events.k8s.io/v1 Events.

    async with EventRecorder(client, controller="koord-scheduler") as events:
        events.record(reference(PODS, pod), "FailedScheduling", "0/3 nodes have 4 CPUs free", type="Warning")

`record` never waits and never fails: what cannot be written is dropped and counted. Events are written in order,
unless more calls than one may be under way; what is still pending at the end is written within `FLUSH_S`. If the
recorder itself fails, it ends the block.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Final, Protocol, Self, TypeVar

from koord.api.kinds import EVENTS, Kind
from koord.api.kubernetes.meta import ObjectMeta, ObjectReference
from koord.api.machinery.codec import DecodeError
from koord.api.machinery.struct import Struct
from koord.kube.background_task import background_task
from koord.kube.client import Client
from koord.kube.clock import Clock, SystemClock
from koord.kube.errors import AlreadyExists, ApiError, NotFound, ServerError, TooManyRequests, Unauthorized
from koord.kube.event_ledger import EventLedger, EventLimits, EventType, Write, occurrence

log = logging.getLogger(__name__)

T = TypeVar("T", bound=Struct)

FLUSH_S: Final = 3.0
TIDY_S: Final = 60.0


class EventObserver(Protocol):
    """Observes what becomes of events: the recorder's metrics."""

    def written(self, count: int) -> None: ...
    def dropped(self, count: int) -> None: ...
    def failed(self, count: int) -> None: ...


def reference(kind: Kind[T], obj: T) -> ObjectReference:
    """How an event names `obj`."""
    return reference_to(kind, getattr(obj, "metadata", ObjectMeta()))


def reference_to(kind: Kind[Any], meta: ObjectMeta) -> ObjectReference:
    """How an event names the object with this metadata."""
    return ObjectReference(kind.api_version, kind.kind, meta.namespace, meta.name, meta.uid)


class EventRecorder:
    """Records for one component. Used as a context manager; `record` may be called at any time on the event loop."""

    def __init__(
        self,
        client: Client,
        *,
        controller: str,
        instance: str = "",
        limits: EventLimits | None = None,
        observer: EventObserver | None = None,
        clock: Clock | None = None,
        at_once: int = 1,
    ) -> None:
        """`controller` is a qualified name, as in koord-scheduler; `instance` is the replica; `at_once` is how
        many calls may be under way together."""
        self._ledger = EventLedger(controller, instance or f"{controller}-{socket.gethostname()}", limits)
        self._client = client.limited(attempts=1)
        self._observer, self._at_once = observer, at_once
        self._clock: Clock = clock or SystemClock()
        self._wake = asyncio.Event()
        self._quiet_until = 0.0
        self._writing: AbstractAsyncContextManager[object] | None = None

    @property
    def counts(self) -> tuple[int, int, int, int]:
        """Occurrences recorded, written, dropped, failed."""
        counts = self._ledger.counts
        return counts.recorded, counts.written, counts.dropped, counts.failed

    def record(
        self,
        regarding: ObjectReference,
        reason: str,
        note: str,
        *,
        action: str = "",
        type: EventType = "Normal",
        related: ObjectReference | None = None,
        theme: str | None = None,
    ) -> None:
        """`reason` is a CamelCase word for why, `action` one for what was done, `note` a sentence for people. Notes of
        one `theme` are one series, where they differ in numbers only; without it, notes that are the same."""
        what = occurrence(regarding, reason, note, action=action, type=type, related=related, theme=theme)
        outcome = self._ledger.record(what, self._clock.monotonic(), self._clock.now())
        if outcome == "scheduled":
            self._wake.set()
        elif outcome == "dropped" and self._observer:
            self._observer.dropped(1)

    async def __aenter__(self) -> Self:
        self._writing = background_task(self._run(), name="event-recorder")
        await self._writing.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._writing is not None
        try:
            await self._writing.__aexit__(kind, error, trace)
        finally:
            await self._flush()

    async def _flush(self) -> None:
        try:
            async with asyncio.timeout(FLUSH_S):
                # Twice: what turns out to be gone, or to exist already, needs a second call.
                for _ in range(2):
                    await self._write_all(self._ledger.due(self._clock.monotonic(), all_pending=True))
        except TimeoutError:
            log.warning("gave up writing events", extra={"events": self._ledger.pending})
        lost = self._ledger.give_up()
        if lost and self._observer:
            self._observer.failed(lost)

    async def _run(self) -> None:
        while True:
            now = self._clock.monotonic()
            if now >= self._quiet_until:
                await self._write_all(self._ledger.due(now))
            await self._rest()

    async def _rest(self) -> None:
        """Until something is due, something new came, or it is time to close what is over."""
        now = self._clock.monotonic()
        due = self._ledger.next_due()
        until = max(self._quiet_until, now + TIDY_S if due is None else due)
        if until <= now:
            return
        self._wake.clear()
        try:
            async with asyncio.timeout(min(TIDY_S, until - now)):
                await self._wake.wait()
                # While the server is away, what comes in only wakes us up for nothing.
                await self._clock.sleep(max(0.0, self._quiet_until - self._clock.monotonic()))
        except TimeoutError:
            pass

    async def _write_all(self, writes: list[Write]) -> None:
        pending = list(reversed(writes))
        async with asyncio.TaskGroup() as tasks:
            for _ in range(min(self._at_once, len(pending))):
                tasks.create_task(self._write_some(pending))

    async def _write_some(self, pending: list[Write]) -> None:
        """Takes from what is pending until nothing is left."""
        write: Write | None = None
        try:
            while pending and self._clock.monotonic() >= self._quiet_until:
                write = pending.pop()
                await self._write(write)
                write = None
        finally:
            # The server went away, or we were cancelled: the rest is due as before.
            for left in pending if write is None else [*pending, write]:
                self._ledger.returned(left)
            pending.clear()

    async def _write(self, write: Write) -> None:
        """One call. What it says about the event goes into the ledger."""
        event = write.event
        try:
            if write.create:
                await self._client.create(EVENTS, event)
            else:
                await self._client.patch(
                    EVENTS, event.metadata.name, write.series_patch, namespace=event.metadata.namespace
                )
        except AlreadyExists:
            self._done(write, existed=True)
        except NotFound as error:
            if write.create:
                self._give_up(write, error)
            else:
                self._ledger.gone(write, self._clock.monotonic())
        except (ServerError, TooManyRequests, Unauthorized, OSError, TimeoutError) as error:
            self._try_later(write, error)
        except (ApiError, DecodeError) as error:
            self._give_up(write, error)
        else:
            self._done(write)

    def _done(self, write: Write, *, existed: bool = False) -> None:
        before = self._ledger.counts.written
        self._ledger.done(write, self._clock.monotonic(), existed=existed)
        if self._observer:
            self._observer.written(self._ledger.counts.written - before)

    def _try_later(self, write: Write, error: Exception) -> None:
        before = self._ledger.counts.failed
        again = self._ledger.failed(write, self._clock.monotonic(), retry=True)
        if again is not None:
            asked_s = min(error.retry_after_s or 0.0, TIDY_S) if isinstance(error, ApiError) else 0.0
            self._quiet_until = max(self._quiet_until, again, self._clock.monotonic() + asked_s)
            return
        log.warning("gave up an event: %s", error, extra=_fields(write))
        if self._observer:
            self._observer.failed(self._ledger.counts.failed - before)

    def _give_up(self, write: Write, error: Exception) -> None:
        before = self._ledger.counts.failed
        self._ledger.failed(write, self._clock.monotonic(), retry=False)
        log.warning("the server refused an event: %s", error, extra=_fields(write))
        if self._observer:
            self._observer.failed(self._ledger.counts.failed - before)


def _fields(write: Write) -> dict[str, str]:
    regarding = write.key.regarding
    return {"object": f"{regarding.kind} {regarding.namespace}/{regarding.name}", "reason": write.key.reason}
