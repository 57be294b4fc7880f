"""Watches: a stream of what happens to the objects that a client selected.

An object that begins to match the selector is ADDED, one that ceases to is DELETED. Each event is encoded once for all
watchers that want the same form. A group of events goes straight to the connections that take it; for a slow one it
queues up, and goes out in one write later. A watcher that is too slow is cut off with 410, and lists again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import msgspec

from koord.api.machinery.short_cache import short_cache
from koord_minicluster.apiserver.bodies import typed
from koord_minicluster.apiserver.listing import Filter, item_value
from koord_minicluster.apiserver.resource import Obj, Resource
from koord_minicluster.apiserver.status import StatusError, gone
from koord_minicluster.apiserver.store import (
    Change,
    Collection,
    Compacted,
    Ended,
    Entry,
    EventType,
    Overflow,
    Store,
    Subscription,
)
from koord_minicluster.apiserver.wire.answers import Stream, chunk

BOOKMARK_EVERY_S = 30.0
DEFAULT_TIMEOUT_S = 1800.0

Send = Callable[[bytes], Awaitable[None]]
Shape = Callable[[bytes], bytes]
"""A stored value as the client wants it: whole, as a table row, or its metadata."""


@dataclass(frozen=True, slots=True)
class Watch:
    """What one client asked to see."""

    resource: Resource
    namespace: str
    wanted: Filter
    form: object
    "Names the form for the cache of encodings; equal forms are encoded alike."
    shape: Shape
    bookmarks: bool = False
    timeout_s: float = DEFAULT_TIMEOUT_S
    columns: bytes = b""
    "Of a table: its column definitions, which only the first event carries."

    @property
    def prefix(self) -> str:
        """How the keys begin that it is about."""
        return f"{self.namespace}/" if self.namespace and self.resource.namespaced else ""

    @property
    def wants(self) -> Callable[[Change], bool] | None:
        """Which events are for this client; None: all."""
        if not self.wanted.all:
            return lambda event: self.seen_as(event) is not None
        return _within(self.prefix) if self.prefix else None

    def seen_as(self, event: Change) -> EventType | None:
        """What this event is to the client, or None."""
        if self.wanted.all:
            return event.type if event.entry.key.startswith(self.prefix) else None
        if not event.entry.key.startswith(self.prefix):
            return None
        was = event.previous is not None and self.wanted.matches(event.previous)
        if event.type == "DELETED":
            return "DELETED" if was else None
        is_ = self.wanted.matches(event.entry)
        if is_:
            return "MODIFIED" if was else "ADDED"
        return "DELETED" if was else None

    def frame(self, event: Change) -> bytes:
        """The line for this event, encoded once per form."""
        seen = self.seen_as(event)
        assert seen is not None
        cached = event.frames.get((self.form, seen))
        if cached is None:
            value = event.entry.value
            if seen == "DELETED" and event.type != "DELETED" and event.previous is not None:
                value = _with_revision(event.previous.value, event.entry.rev)
            cached = line(seen, self.shape(item_value(self.resource, value)))
            event.frames[(self.form, seen)] = cached
        return cached


@short_cache(1024)
def _within(prefix: str) -> Callable[[Change], bool]:
    """One function for all who watch the same place."""
    return lambda event: event.entry.key.startswith(prefix)


class _Direct:
    """Writes groups of events straight to a connection. Those who watch the same in the same form share a chunk."""

    def __init__(self, watch: Watch, answer: Stream) -> None:
        self._watch, self._answer = watch, answer
        self._shared = f"{watch.prefix} {watch.form}" if watch.wanted.all else ""

    def __call__(self, events: list[Change]) -> bool:
        last = events[-1]
        chunk_ = last.frames.get(self._shared) if self._shared else None
        if chunk_ is None:
            try:
                chunk_ = self._chunk(events)
            except Exception:  # noqa: BLE001
                # Whoever wrote must not suffer: left in the queue, the fault shows where this watch is answered.
                return False
            if self._shared:
                last.frames[self._shared] = chunk_
        return self._answer.write_now(chunk_)

    def _chunk(self, events: list[Change]) -> bytes:
        return chunk(b"".join([self._watch.frame(event) for event in events]))


def line(kind: str, value: bytes) -> bytes:
    return b'{"type":"' + kind.encode() + b'","object":' + value + b"}\n"


async def stream(
    store: Store, collection: Collection, watch: Watch, from_rev: int | None, initial: bool, answer: Stream
) -> None:
    """Send events until the time is up. `from_rev` None: begin with the present state as ADDED events.

    `initial`: the client asked for the state first (sendInitialEvents) and for a bookmark that says when it was all.
    """
    send = _with_columns(watch.columns, answer.write) if watch.columns else answer.write
    state: list[Entry] | None = None
    if from_rev is None:
        from_rev, state = store.revision, _state(collection, watch)
    elif from_rev > store.revision and not await store.reached(from_rev, watch.timeout_s):
        # The requested version did not arrive in time, so there are no events to send.
        return
    try:
        past, subscription = await collection.watch(from_rev, watch.wants)
    except Compacted as error:
        await send(line("ERROR", _encoded(gone(str(error)))))
        return
    try:
        if state is not None:
            for start in range(0, len(state), 128):
                values = [watch.shape(item_value(watch.resource, e.value)) for e in state[start : start + 128]]
                await send(b"".join(line("ADDED", value) for value in values))
            state = None
            if initial and watch.bookmarks:
                await send(bookmark(watch, from_rev, initial_end=True))
        for start in range(0, len(past), 128):
            await send(b"".join(watch.frame(event) for event in past[start : start + 128]))
        past = []
        if not watch.columns:
            subscription.direct = _Direct(watch, answer)
        await _follow(store, collection, subscription, watch, send)
    except Overflow:
        await send(line("ERROR", _encoded(gone("too old resource version: the watcher was too slow"))))
    except Ended:
        # The stream closes in good order, and the client goes on from what it saw last.
        return
    finally:
        subscription.close()


async def _follow(store: Store, collection: Collection, subscription: Subscription, watch: Watch, send: Send) -> None:
    loop = asyncio.get_running_loop()
    end = loop.time() + watch.timeout_s
    while (left := end - loop.time()) > 0:
        events = await subscription.batch(min(BOOKMARK_EVERY_S, left))
        if not events and watch.bookmarks:
            collection.tell_now()
            events = await subscription.batch(0)
            if not events:
                # All up to this revision has been seen.
                await send(bookmark(watch, store.revision))
        if events:
            await send(b"".join([watch.frame(event) for event in events]))
    collection.tell_now()
    while events := await subscription.batch(0):
        await send(b"".join([watch.frame(event) for event in events]))
    if watch.bookmarks:
        await send(bookmark(watch, store.revision))


def bookmark(watch: Watch, rev: int, *, initial_end: bool = False) -> bytes:
    metadata: dict[str, object] = {"resourceVersion": str(rev)}
    if initial_end:
        metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
    resource = watch.resource
    empty: Obj = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}
    if not resource.custom:
        # With what a built-in kind always has, as any object of it.
        empty |= typed.read(resource.schema, {"metadata": metadata})[0]
        empty["kind"], empty["apiVersion"] = resource.kind, resource.api_version
    value = msgspec.json.encode(empty)
    shown = watch.shape(value)
    if shown is value:
        # Only the whole object has what the kind adds: the other forms are made before.
        resource.strategy.blank(empty)
        shown = msgspec.json.encode(empty)
    return line("BOOKMARK", shown)


def _with_columns(columns: bytes, send: Send) -> Send:
    """Sends as `send` does, with the column definitions in the first event."""
    first = True

    async def sending(data: bytes) -> None:
        nonlocal first
        if first and data:
            first = False
            data = data.replace(b'"columnDefinitions":null', b'"columnDefinitions":' + columns, 1)
        await send(data)

    return sending


def _state(collection: Collection, watch: Watch) -> list[Entry]:
    entries = collection.entries(watch.prefix)
    return entries if watch.wanted.all else [entry for entry in entries if watch.wanted.matches(entry)]


def _with_revision(value: bytes, rev: int) -> bytes:
    obj = msgspec.json.decode(value)
    obj["metadata"]["resourceVersion"] = str(rev)
    return msgspec.json.encode(obj)


def _encoded(error: StatusError) -> bytes:
    return msgspec.json.encode(error.body())
