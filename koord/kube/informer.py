"""An informer: a local, always current copy of one kind of object.

It lists, then watches, and hands every change to its handlers in order, after its store has changed. The list is a
stream (WatchList) that goes on as the watch; where the server fails to stream it, pages and then a watch. The rules by
which it stays true:

- It starts from a consistent read ("most recent"), which no later read can undercut: it never goes back in time.
- A watch that ends is resumed from the last version; bookmarks advance that version where nothing happens.
- `410 Gone` is answered by a relist, whose deltas are the differences only.
- A server that could not be reached may come back with another history (a restored or an empty etcd), in which our
  version means nothing, and is silently waited for. So after a break the server's own version is asked for first; if it
  is lower than ours, or the server was away longer than `RESUME_WITHIN_S`, the informer relists, and converges.
- A watch that brings nothing for long may be dead, or nothing may have happened: it is replaced by a new one.
- An object that cannot be read is reported and skipped. Its last readable record stays until it is readable again,
  replaced or deleted, because to drop a running pod would free what it uses; `unreadable` names these objects.

One task runs an informer; all else may be called from any code on the same event loop.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import aclosing
from functools import partial
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec

from koord.api.kinds import Kind
from koord.api.machinery.codec import DecodeError, decode
from koord.api.machinery.struct import EMPTY, Struct
from koord.api.text.whole_number import natural_number
from koord.kube.client import Client
from koord.kube.clock import Clock, SystemClock
from koord.kube.collector import paused
from koord.kube.errors import ApiError, Gone, ServerTimeout, Silent, Status, Unavailable
from koord.kube.pages import item_of
from koord.kube.retry import backoff_s, fraction
from koord.kube.store import Delta, Identity, IndexKeys, Relist, Store, identity_of
from koord.kube.streamed_list import StreamedLists, UnfinishedStream
from koord.kube.watch import WatchEvent

log = logging.getLogger(__name__)

R = TypeVar("R")

Transform: TypeAlias = Callable[[msgspec.Raw], R]
Handler: TypeAlias = Callable[[Delta[R]], None]

PAGE_SIZE = 500
REPLAYED_AT_ONCE = 200
"""About a millisecond's work."""
LIST_TIMEOUT_S = 120.0
PROBE_TIMEOUT_S = 15.0
BACKOFF_BASE_S = 0.5
BACKOFF_CAP_S = 30.0
RETRY_AFTER_CAP_S = 60.0
RESUME_WITHIN_S = 2.0
"""How long a server may be away and still be taken for the same one: less than any needs to start."""
SHORT_WATCH_S = 1.0
"""A watch that ends sooner than this counts as a failure, lest it be asked for in a tight loop."""
WATCH_S = 240.0
"""Watches are asked to end after one to two times this, spread so that not all clients come back at once."""
INITIAL_SILENCE_S = 15.0
"""How long a streamed list may bring nothing before its end."""
INITIAL_EVENTS_S = 120.0
"""How long a streamed list may take: a server that ignores the request sends changes for ever, and never that end."""
INITIAL_EVENTS_END = "k8s.io/initial-events-end"


class _HeadMeta(Struct):
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""


class _Head(Struct):
    """The identity of an object, also if the rest of it cannot be read."""

    metadata: _HeadMeta = _HeadMeta()

    @property
    def key(self) -> str:
        meta = self.metadata
        return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name


class _BookmarkMeta(Struct):
    resource_version: str = ""
    annotations: Mapping[str, str] = EMPTY


class _Bookmark(Struct):
    metadata: _BookmarkMeta = _BookmarkMeta()


class Informer(Generic[R]):
    """The objects of one kind that match the selectors, as records that `transform` makes of their bytes.

    `identity` gives a record's key, uid and version; records without `metadata` need one of their own.
    """

    def __init__(
        self,
        client: Client,
        kind: Kind[Any],
        *,
        transform: Transform[R] | None = None,
        identity: Callable[[R], Identity] = identity_of,
        namespace: str = "",
        labels: str = "",
        fields: str = "",
        indexes: Mapping[str, IndexKeys[R]] = EMPTY,
        on_malformed: Callable[[str, Exception], None] | None = None,
        watch_list: bool = True,
        page_size: int = PAGE_SIZE,
        clock: Clock | None = None,
    ) -> None:
        self.kind = kind
        self.namespace, self.labels, self.fields = namespace, labels, fields
        self.unreadable: dict[str, str] = {}
        "Objects that exist in a version that could not be read, and why."
        self.last_sync: float | None = None
        "When the last full list was complete, in seconds since the epoch."
        self.last_error: Exception | None = None
        "Why the stream is down, while it is."
        self.relists = self.reconnects = self.events = self.malformed = self.handler_failures = 0
        self._pages = client.limited(timeout_s=LIST_TIMEOUT_S)
        # An informer is patient in its own way, and wants to know of every failure.
        self._watches = client.limited(attempts=1)
        self._probes = client.limited(timeout_s=PROBE_TIMEOUT_S, attempts=1)
        self._streamed_lists = StreamedLists(wanted=watch_list)
        self._transform: Transform[R] = transform or partial(item_of, kind)
        self._as = f" as {getattr(transform, '__name__', 'records')}" if transform else ""
        self._identity = identity
        self._store: Store[R] = Store(identity, indexes)
        self._on_malformed = on_malformed
        self._page_size = page_size
        self._clock: Clock = clock or SystemClock()
        self._handlers: tuple[Handler[R], ...] = ()
        self._synced = asyncio.Event()
        self._version: str | None = None
        self._failures = 0
        self._broken_at: float | None = None
        self._contact_at: float | None = None
        self._running = False

    def __str__(self) -> str:
        selectors = ",".join(part for part in (self.namespace, self.labels, self.fields) if part)
        return self.kind.resource + (f"[{selectors}]" if selectors else "") + self._as

    def __len__(self) -> int:
        return len(self._store)

    @property
    def has_synced(self) -> bool:
        """Whether the first list is complete."""
        return self._synced.is_set()

    async def synced(self) -> None:
        """Returns when the first list is complete."""
        await self._synced.wait()

    @property
    def watch_list(self) -> bool:
        """Whether the next full list is asked for as a stream: not after the server failed to send one."""
        return self._streamed_lists.worth_asking(self._clock.monotonic())

    @property
    def resource_version(self) -> str:
        """The version that the store is at; empty before the first list."""
        return self._version or ""

    @property
    def staleness_s(self) -> float:
        """Seconds since the server was last heard. Grows to `WATCH_IDLE_S` and more where nothing happens."""
        return float("inf") if self._contact_at is None else self._clock.monotonic() - self._contact_at

    def get(self, key: str) -> R | None:
        """The record of `namespace/name` (or of the name, for cluster-scoped objects)."""
        return self._store.get(key)

    def by_index(self, name: str, key: str) -> list[R]:
        return self._store.by_index(name, key)

    def index_keys(self, name: str) -> list[str]:
        return self._store.index_keys(name)

    def add_index(self, name: str, keys: IndexKeys[R]) -> None:
        self._store.add_index(name, keys)

    def add_handler(self, handler: Handler[R], *, replay: bool = True) -> Callable[[], None]:
        """From here on `handler` receives every change, in order; with `replay`, first existing records as additions.

        It must not wait: it notes what to do and returns. Its failures are logged and do not reach other handlers.
        Returns a function that takes it away again.
        """
        for key in list(self._store) if replay else ():
            record = self._store.get(key)
            if record is not None:
                self._call(handler, Delta(key, None, record))
        # Replaced, not changed: a round of calls under way goes on over the handlers that it began with, and this one
        # has just been told the state after that round.
        self._handlers = (*self._handlers, handler)

        def remove() -> None:
            self._handlers = tuple(h for h in self._handlers if h is not handler)

        return remove

    async def replay(self, handler: Handler[R]) -> None:
        """Hands existing records to a handler as additions, a few at a time: other work goes on in between."""
        for number, key in enumerate(list(self._store), 1):
            record = self._store.get(key)
            if record is not None:
                self._call(handler, Delta(key, None, record))
            if number % REPLAYED_AT_ONCE == 0:
                await asyncio.sleep(0)

    async def run(self) -> None:
        """Follow the server until cancelled."""
        if self._running:
            raise RuntimeError(f"informer {self} is running already")
        self._running = True
        # Changes while it did not run are as unknown as after a break.
        self._broken_at = self._contact_at
        try:
            while True:
                await self._attempt()
        finally:
            self._running = False

    async def _attempt(self) -> None:
        """One connection's worth of following; what goes wrong decides how the next begins."""
        try:
            if self._version is None:
                await self._relist()
            elif self._broken_at is None or await self._is_as_before(self._version, self._broken_at):
                self.reconnects += 1
                await self._stream(self._version, None)
            else:
                self._version = None
        except Gone as error:
            self._version = None
            log.info("informer %s must list again: %s", self, error)
            await self._failed(error, patient=self._failures > 0)
        except Silent as error:
            self._broken_at = self._clock.monotonic()
            log.debug("informer %s begins a new watch: %s", self, error)
        except (ApiError, DecodeError, OSError) as error:
            log.warning("informer %s lost its stream: %s", self, error)
            # A refusal comes from the same server; only an unreachable server may have been replaced.
            # A server answers with a timeout if our version lies in its future.
            if self._broken_at is None and isinstance(error, Unavailable | ServerTimeout | OSError):
                self._broken_at = self._clock.monotonic()
            await self._failed(error, patient=True)

    async def _failed(self, error: Exception, *, patient: bool) -> None:
        self.last_error = error
        self._failures += 1
        asked_s = min(error.retry_after_s or 0.0, RETRY_AFTER_CAP_S) if isinstance(error, ApiError) else 0.0
        if patient:
            wait_s = backoff_s(self._failures, f"{_PROCESS}/{self}", base_s=BACKOFF_BASE_S, cap_s=BACKOFF_CAP_S)
            await self._clock.sleep(max(wait_s, asked_s))

    async def _is_as_before(self, version: str, broken_at: float) -> bool:
        """Whether the server after a break continues the history that we know up to `version`."""
        pages = self._probes.list_pages(
            self.kind, namespace=self.namespace, labels=self.labels, fields=self.fields, limit=1
        )
        async with aclosing(pages):
            present = (await anext(pages)).metadata.resource_version
        away_s = self._clock.monotonic() - broken_at
        if away_s <= RESUME_WITHIN_S and not _is_older(present, version):
            return True
        log.info("informer %s lists again: %.1f s without the server, version %s to %s", self, away_s, version, present)
        return False

    def _heard(self) -> None:
        """The server is there. Whether the stream is sound, only changes that come through it can tell."""
        self._contact_at = self._clock.monotonic()
        self._broken_at = None
        self.last_error = None

    async def _relist(self) -> None:
        """A full list into the store, then the watch of what follows."""
        self.unreadable.clear()
        streamed = self.watch_list
        if streamed:
            try:
                return await self._stream("", self._store.relist())
            except (ApiError, DecodeError, OSError, UnfinishedStream) as error:
                # With a version the list was complete, and the watch after it failed.
                if self._version is not None or not self._streamed_lists.failed(error):
                    raise
                log.info("informer %s lists in pages: the streamed list failed: %s", self, error)
                self.last_error = error
        try:
            version = await self._list(self._page_size)
        except Gone:
            # A page's token expired while the list was read: the server compacts faster than pages come. One answer
            # with everything in it cannot expire.
            version = await self._list(0)
        if streamed:
            self._streamed_lists.pages_came_instead(self._clock.monotonic())
        return await self._stream(version, None)

    async def _list(self, page_size: int) -> str:
        relist = self._store.relist()
        version = ""
        pages = self._pages.list_pages(
            self.kind, namespace=self.namespace, labels=self.labels, fields=self.fields, limit=page_size
        )
        async with aclosing(pages):
            async for page in pages:
                self._heard()
                version = version or page.metadata.resource_version
                with paused():
                    for raw in page.items:
                        self._put(raw, relist)
        self._finish(relist, version)
        return version

    def _finish(self, relist: Relist[R], version: str) -> None:
        for delta in relist.finish():
            self._tell((delta,))
        self._version = version
        self.relists += 1
        self.last_sync = self._clock.now()
        self._synced.set()

    async def _stream(self, version: str, relist: Relist[R] | None) -> None:
        """Follow one watch to its end; with a relist, a WatchList, whose first part is the list."""
        started = self._clock.monotonic()
        batches = self._watches.watch(
            self.kind,
            namespace=self.namespace,
            labels=self.labels,
            fields=self.fields,
            resource_version=version,
            send_initial_events=relist is not None,
            timeout_s=self._watch_s(),
        )
        async with aclosing(batches):
            if relist is not None:
                await self._read_initial_events(batches, relist)
            async for batch in batches:
                self._heard()
                if batch:
                    self._failures = 0
                with paused():
                    self._apply(batch, None)
        if self._clock.monotonic() - started < SHORT_WATCH_S:
            raise ConnectionError("the watch ended at once")
        self._failures = 0

    async def _read_initial_events(self, batches: AsyncIterator[Iterable[WatchEvent]], relist: Relist[R]) -> None:
        """The first part of a streamed list, up to the bookmark that ends it."""
        now = asyncio.get_running_loop().time
        accepted = False
        try:
            async with asyncio.timeout(INITIAL_EVENTS_S), asyncio.timeout(INITIAL_SILENCE_S) as silence:
                async for batch in batches:
                    accepted = True
                    self._heard()
                    with paused():
                        if self._apply(batch, relist) is None:
                            self._streamed_lists.came()
                            return
                    silence.reschedule(now() + INITIAL_SILENCE_S)
        except TimeoutError as error:
            raise UnfinishedStream("the end of its initial events did not come in time") from error
        except (ApiError, DecodeError, OSError) as error:
            if accepted and self._version is None:
                raise UnfinishedStream(str(error)) from error
            raise
        raise UnfinishedStream("it ended before its initial events did")

    def _apply(self, batch: Iterable[WatchEvent], relist: Relist[R] | None) -> Relist[R] | None:
        """Take events into the store. Returns the relist while its end has not come."""
        for event in batch:
            match event.type:
                case "ADDED" | "MODIFIED":
                    version = self._put(event.object, relist or self._store)
                case "DELETED":
                    version = self._delete(event.object, relist or self._store)
                case "BOOKMARK":
                    bookmark = decode(_Bookmark, memoryview(event.object)).metadata
                    version = bookmark.resource_version
                    if relist is not None:
                        if bookmark.annotations.get(INITIAL_EVENTS_END) != "true":
                            raise UnfinishedStream("it went on as a watch without an end of its initial events")
                        self._finish(relist, version)
                        relist = None
                case _:
                    continue
            self.events += 1
            if relist is None and version:
                self._version = version
        return relist

    def _put(self, raw: msgspec.Raw, sink: Store[R] | Relist[R]) -> str:
        """The object is there, in this form. Returns its version."""
        try:
            record = self._transform(raw)
            key, _, version = self._identity(record)
            deltas = sink.put(record)
        except Exception as error:  # noqa: BLE001 - one object that cannot be read must not stop the others
            return self._skip(raw, error, sink)
        if self.unreadable:
            self.unreadable.pop(key, None)
        if deltas and self._handlers:
            self._tell(deltas)
        return version

    def _delete(self, raw: msgspec.Raw, sink: Store[R] | Relist[R]) -> str:
        """The object is gone. Only its head is read, so that what cannot be read can at least be deleted."""
        try:
            head = decode(_Head, memoryview(raw))
        except DecodeError as error:
            # The event does not name a record: only a full list can tell which is gone.
            self._report("?", error)
            raise Gone(Status(message=f"a deletion could not be read: {error}"), verb="watch", what=str(self)) from None
        self.unreadable.pop(head.key, None)
        self._tell(sink.delete(head.key))
        return head.metadata.resource_version

    def _skip(self, raw: msgspec.Raw, error: Exception, sink: Store[R] | Relist[R]) -> str:
        """Report an object that cannot be read, and keep what is known of it. Returns its version."""
        try:
            head = decode(_Head, memoryview(raw))
        except DecodeError:
            self._report("?", error)
            return ""
        key = head.key
        if self._store.uid(key) not in (None, head.metadata.uid):
            # The record is of another object, which is gone.
            self._tell(sink.delete(key))
        elif isinstance(sink, Relist):
            sink.keep(key)
        self.unreadable[key] = str(error)
        self._report(key, error)
        return head.metadata.resource_version

    def _report(self, key: str, error: Exception) -> None:
        self.malformed += 1
        log.error("informer %s cannot read %s and skips it: %s", self, key, error)
        if self._on_malformed is not None:
            try:
                self._on_malformed(key, error)
            except Exception:
                log.exception("informer %s: reporting %s failed", self, key)

    def _tell(self, deltas: Iterable[Delta[R]]) -> None:
        handlers = self._handlers
        for delta in deltas:
            for handler in handlers:
                self._call(handler, delta)

    def _call(self, handler: Handler[R], delta: Delta[R]) -> None:
        try:
            handler(delta)
        except Exception:
            self.handler_failures += 1
            log.exception("informer %s: a handler failed on %s (%s)", self, delta.key, delta.type)

    def _watch_s(self) -> float:
        return WATCH_S * (1 + fraction(f"{_PROCESS}/{self}#{self.reconnects}"))

    # Last, because within the class body the name hides the builtin.
    def list(self) -> list[R]:
        """All records, as a list that later changes leave alone."""
        return self._store.records()


def _is_older(version: str, than: str) -> bool:
    """Versions are decimal numbers that grow; what is not one tells nothing."""
    own, other = natural_number(version), natural_number(than)
    return own is not None and other is not None and own < other


_PROCESS = f"{socket.gethostname()}/{os.getpid()}"
