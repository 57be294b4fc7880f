"""All informers of a process: one stream for each question, however many ask it.

    async with Informers(client) as informers:
        pods = informers.get(PODS, indexes={"node": by_node})
        await informers.synced()

Informers start when the block is entered (or, inside it, when they are first asked for) and have all ended when it is
left: no task outlives it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Any, TypeVar, overload

from koord.api.kinds import Kind
from koord.api.machinery.struct import EMPTY, Struct
from koord.kube import collector
from koord.kube.client import Client
from koord.kube.clock import Clock
from koord.kube.informer import Informer, Transform
from koord.kube.store import Identity, IndexKeys, identity_of

T = TypeVar("T", bound=Struct)
R = TypeVar("R")


class Informers:
    """Shares informers by kind, selectors and transform."""

    def __init__(
        self,
        client: Client,
        *,
        on_malformed: Callable[[Kind[Any], str, Exception], None] | None = None,
        watch_list: bool = True,
        clock: Clock | None = None,
    ) -> None:
        self._client = client
        self._on_malformed = on_malformed
        self._watch_list = watch_list
        self._clock = clock
        self._shared: dict[tuple[object, ...], Informer[Any]] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._group: asyncio.TaskGroup | None = None

    def __iter__(self) -> Iterator[Informer[Any]]:
        return iter(list(self._shared.values()))

    @overload
    def get(
        self,
        kind: Kind[T],
        *,
        namespace: str = "",
        labels: str = "",
        fields: str = "",
        indexes: Mapping[str, IndexKeys[T]] = EMPTY,
    ) -> Informer[T]: ...
    @overload
    def get(
        self,
        kind: Kind[Any],
        *,
        transform: Transform[R],
        identity: Callable[[R], Identity] = identity_of,
        namespace: str = "",
        labels: str = "",
        fields: str = "",
        indexes: Mapping[str, IndexKeys[R]] = EMPTY,
    ) -> Informer[R]: ...
    def get(
        self,
        kind: Kind[Any],
        *,
        transform: Transform[Any] | None = None,
        identity: Callable[[Any], Identity] = identity_of,
        namespace: str = "",
        labels: str = "",
        fields: str = "",
        indexes: Mapping[str, IndexKeys[Any]] = EMPTY,
    ) -> Informer[Any]:
        """The informer that answers this; the same one for the same question. Further indexes are added to it."""
        question = (kind, namespace, labels, fields, transform, identity)
        informer = self._shared.get(question)
        if informer is None:
            informer = Informer(
                self._client,
                kind,
                transform=transform,
                identity=identity,
                namespace=namespace,
                labels=labels,
                fields=fields,
                on_malformed=self._reporter(kind),
                watch_list=self._watch_list,
                clock=self._clock,
            )
            self._shared[question] = informer
            if self._group is not None:
                self._start(informer)
        for name, keys in indexes.items():
            informer.add_index(name, keys)
        return informer

    async def synced(self, *, freeze: bool = False) -> None:
        """Returns when all informers asked for so far have synced; `freeze` then spares them the collector."""
        for informer in self:
            await informer.synced()
        if freeze:
            collector.freeze()

    async def __aenter__(self) -> Informers:
        if self._group is not None:
            raise RuntimeError("these informers have been started already")
        self._group = await asyncio.TaskGroup().__aenter__()
        for informer in self:
            self._start(informer)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._group is not None
        for task in self._tasks:
            task.cancel()
        self._tasks.clear()
        group, self._group = self._group, None
        # The block's own error is raised unwrapped; only a cancellation may be the group's, which is for it to judge.
        own = error is not None and not isinstance(error, asyncio.CancelledError)
        await group.__aexit__(None if own else kind, None if own else error, None if own else trace)

    def _start(self, informer: Informer[Any]) -> None:
        assert self._group is not None
        self._tasks.append(self._group.create_task(informer.run(), name=f"informer/{informer}"))

    def _reporter(self, kind: Kind[Any]) -> Callable[[str, Exception], None] | None:
        report = self._on_malformed
        if report is None:
            return None
        return lambda key, error: report(kind, key, error)
