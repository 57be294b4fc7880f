"""Says on each object of a kind that nothing acts on yet that it has no effect, in one event. The leader's work."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import msgspec

from koord.api.kinds import Kind
from koord.api.kubernetes.meta import ObjectMeta
from koord.api.machinery.codec import decode
from koord.api.machinery.struct import Struct
from koord.api.protocol.unacted import REASON, UNACTED, Unacted
from koord.kube.client import Client
from koord.kube.clock import Clock
from koord.kube.events import EventRecorder, reference
from koord.kube.informers import Informers
from koord.kube.served import until_served
from koord.kube.store import Delta


class _Head(Struct):
    metadata: ObjectMeta = ObjectMeta()


class UnactedTeller:
    def __init__(
        self,
        client: Client,
        informers: Informers,
        events: EventRecorder,
        clock: Clock,
        table: Iterable[Unacted] = UNACTED,
    ) -> None:
        self._client, self._informers, self._events, self._clock = client, informers, events, clock
        self._table = [(unacted.kind, unacted) for unacted in table if unacted.kind is not None]

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for kind, unacted in self._table:
                tasks.create_task(self._follow(kind, unacted), name=f"unacted/{kind.plural}")

    async def _follow(self, kind: Kind[Any], unacted: Unacted) -> None:
        await until_served(self._client, (kind,), self._clock)

        def hear(delta: Delta[_Head]) -> None:
            if delta.new is not None and (delta.old is None or delta.old.metadata.uid != delta.new.metadata.uid):
                self._events.record(reference(kind, delta.new), REASON, unacted.message, type="Warning")

        forget = self._informers.get(kind, transform=_head).add_handler(hear)
        try:
            await asyncio.Event().wait()
        finally:
            forget()


def _head(raw: msgspec.Raw) -> _Head:
    return decode(_Head, memoryview(raw))
