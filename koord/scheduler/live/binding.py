"""Carries placements out: what plugins want written on the pod, then the binding. Many at once, but not too many.

    bound            the attempt is done; the informer will show the pod on its node
    refused          the pod is gone, another one, or on a node already: what the API says counts, and will be heard
    failed           the place is free again, and the pod is tried again after a backoff
    unknown          the connection broke under way: the API server is asked what became of it

A pod that waits for others (`wait_s`) is asked about again after every decision, and lets its place go when its time
is up.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from koord.api.kinds import PODS
from koord.kube.client import Client
from koord.kube.clock import Clock
from koord.kube.errors import ApiError, NotFound
from koord.scheduler.live.cycle import Bind
from koord.scheduler.live.feed import Feed

log = logging.getLogger(__name__)

MOST_AT_ONCE: Final = 64
FIELD_MANAGER: Final = "koord-scheduler"

Told = Callable[[Bind, str], None]
"""Who wants to know what became of a binding: `bound`, `refused` or `failed`."""


@dataclass(slots=True)
class _Waiting:
    bind: Bind
    until_s: float


class Bindings:
    """All bindings under way."""

    def __init__(self, client: Client, feed: Feed, clock: Clock, *, told: Told, wake: Callable[[], None]) -> None:
        self._client, self._feed, self._clock = client, feed, clock
        self._told, self._wake = told, wake
        self._tasks: set[asyncio.Task[None]] = set()
        self._waiting: dict[str, _Waiting] = {}

    @property
    def is_full(self) -> bool:
        """Whether the API server has enough to do: then nothing is decided that would only wait for it."""
        return len(self._tasks) >= MOST_AT_ONCE

    def start(self, bind: Bind) -> None:
        if bind.wait_s > 0:
            self._waiting[bind.ask.key] = _Waiting(bind, self._clock.monotonic() + bind.wait_s)
            return
        task = asyncio.create_task(self._carry_out(bind), name=f"bind {bind.ask.key}")
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def look_after_waiting(self) -> None:
        """Let those go on who need not wait any more, and those give up who waited too long."""
        for key, waiting in list(self._waiting.items()):
            bind, feed = waiting.bind, self._feed
            if feed.assumed.get(key) != bind.ask.meta.uid:
                del self._waiting[key]
                feed.queue.done(bind.attempt)
            elif feed.engines[str(bind.ask.spec.scheduler_name)].wait_s(bind.ask, bind.row) <= 0:
                del self._waiting[key]
                self.start(_now(bind))
            elif self._clock.monotonic() >= waiting.until_s:
                del self._waiting[key]
                self._failed(bind, "it waited for others in vain")

    async def finish(self) -> None:
        """Wait for what is under way; nothing new is started."""
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._wake()
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a binding ended with an error", exc_info=error)

    async def _carry_out(self, bind: Bind) -> None:
        meta = bind.ask.meta
        try:
            if bind.patch:
                wanted = {**bind.patch, "metadata": {**bind.patch.get("metadata", {}), "uid": meta.uid}}
                await self._client.patch(
                    PODS, meta.name, wanted, namespace=meta.namespace, type="merge", field_manager=FIELD_MANAGER
                )
            await self._client.bind(meta.namespace, meta.name, bind.node, uid=meta.uid)
        except ApiError as error:
            await self._not_bound(bind, error)
        else:
            self._bound(bind)

    def _bound(self, bind: Bind) -> None:
        self._feed.queue.done(bind.attempt)
        self._told(bind, "bound")

    async def _not_bound(self, bind: Bind, error: ApiError) -> None:
        """What the API server says now decides; where it cannot be asked, the binding has failed."""
        meta = bind.ask.meta
        try:
            pod = await self._client.get(PODS, meta.name, namespace=meta.namespace)
        except NotFound:
            pod = None
        except ApiError:
            self._failed(bind, str(error))
            return
        if pod is not None and pod.metadata.uid == meta.uid and not pod.spec.node_name:
            self._failed(bind, str(error))
        elif pod is not None and pod.metadata.uid == meta.uid and pod.spec.node_name == bind.node:
            self._bound(bind)
        else:
            log.debug("not bound: %s", error, extra={"pod": bind.ask.key})
            self._feed.let_go(bind.ask.key, meta.uid)
            self._feed.queue.done(bind.attempt)
            self._told(bind, "refused")

    def _failed(self, bind: Bind, why: str) -> None:
        log.warning("not bound, tried again later: %s", why, extra={"pod": bind.ask.key, "node": bind.node})
        self._feed.let_go(bind.ask.key, bind.ask.meta.uid)
        self._feed.queue.failed(bind.attempt, self._clock.now())
        self._told(bind, "failed")


def _now(bind: Bind) -> Bind:
    return Bind(bind.attempt, bind.ask, bind.node, bind.row, bind.patch, 0.0)
