"""Watches: a stream of what happens to the objects that a client selected.

An object that begins to match the selector is ADDED, one that ceases to is DELETED. Each event is encoded once for all
watchers that want the same form, and what has queued up goes out in one write. A watcher that is too slow is cut off
with 410, and lists again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import msgspec

from koord.apiserver.listing import Filter, item_value
from koord.apiserver.resource import Resource
from koord.apiserver.status import StatusError, gone
from koord.apiserver.store import Collection, Compacted, Ended, Entry, Event, EventType, Overflow, Store

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

    def wants(self, event: Event) -> bool:
        return self.seen_as(event) is not None

    def seen_as(self, event: Event) -> EventType | None:
        """What this event is to the client, or None."""
        prefix = f"{self.namespace}/" if self.namespace and self.resource.namespaced else ""
        if prefix and not event.entry.key.startswith(prefix):
            return None
        if self.wanted.all:
            return event.type
        was = event.previous is not None and self.wanted.matches(event.previous)
        if event.type == "DELETED":
            return "DELETED" if was else None
        is_ = self.wanted.matches(event.entry)
        if is_:
            return "MODIFIED" if was else "ADDED"
        return "DELETED" if was else None

    def frame(self, event: Event) -> bytes:
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


def line(kind: str, value: bytes) -> bytes:
    return b'{"type":"' + kind.encode() + b'","object":' + value + b"}\n"


async def stream(
    store: Store, collection: Collection, watch: Watch, from_rev: int | None, initial: bool, send: Send
) -> None:
    """Send events until the time is up. `from_rev` None: begin with the present state as ADDED events.

    `initial`: the client asked for the state first (sendInitialEvents) and for a bookmark that says when it was all.
    """
    if watch.columns:
        send = _with_columns(watch.columns, send)
    try:
        if from_rev is None:
            from_rev, state = store.revision, _state(collection, watch)
            past, subscription = await collection.watch(from_rev, watch.wants)
            for start in range(0, len(state), 128):
                values = [watch.shape(item_value(watch.resource, e.value)) for e in state[start : start + 128]]
                await send(b"".join(line("ADDED", value) for value in values))
            if initial and watch.bookmarks:
                await send(bookmark(watch, from_rev, initial_end=True))
        else:
            past, subscription = await collection.watch(from_rev, watch.wants)
    except Compacted as error:
        await send(line("ERROR", _encoded(gone(str(error)))))
        return
    try:
        for start in range(0, len(past), 128):
            await send(b"".join(watch.frame(event) for event in past[start : start + 128]))
        await _follow(store, subscription.batch, watch, send)
    except Overflow:
        await send(line("ERROR", _encoded(gone("too old resource version: the watcher was too slow"))))
    except Ended:
        # The stream closes in good order, and the client goes on from what it saw last.
        return
    finally:
        subscription.close()


async def _follow(
    store: Store, next_batch: Callable[[float], Awaitable[list[Event]]], watch: Watch, send: Send
) -> None:
    loop = asyncio.get_running_loop()
    end = loop.time() + watch.timeout_s
    while (left := end - loop.time()) > 0:
        quiet_rev = store.revision
        events = await next_batch(min(BOOKMARK_EVERY_S, left))
        if events:
            await send(b"".join([watch.frame(event) for event in events]))
        elif watch.bookmarks:
            # Nothing came since: all up to this revision has been seen.
            await send(bookmark(watch, quiet_rev))
    if watch.bookmarks and not await next_batch(0):
        await send(bookmark(watch, store.revision))


def bookmark(watch: Watch, rev: int, *, initial_end: bool = False) -> bytes:
    metadata: dict[str, object] = {"resourceVersion": str(rev)}
    if initial_end:
        metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
    resource = watch.resource
    empty = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}
    return line("BOOKMARK", watch.shape(msgspec.json.encode(empty)))


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
    prefix = f"{watch.namespace}/" if watch.namespace and watch.resource.namespaced else ""
    entries = collection.entries(prefix)
    return entries if watch.wanted.all else [entry for entry in entries if watch.wanted.matches(entry)]


def _with_revision(value: bytes, rev: int) -> bytes:
    obj = msgspec.json.decode(value)
    obj["metadata"]["resourceVersion"] = str(rev)
    return msgspec.json.encode(obj)


def _encoded(error: StatusError) -> bytes:
    return msgspec.json.encode(error.body())
