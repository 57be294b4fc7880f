"""Carries placements out: what plugins want written on the pod, then the binding. Many at once, but not too many.

    bound       the attempt is done; the informer will show the pod on its node
    refused     the pod is gone, another one, or on a node already: what the API says counts, and will be heard
    failed      the place is free again, and the pod is tried again after a backoff

A call without an answer may have had its effect. So the same call is made again until there is an answer, or the
informer shows what became of the pod; until then its place is kept, and nothing else can be put there.

A pod that waits for others (`wait_s`) is asked about again after every decision, and lets its place go when its time
is up.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from koord.api.kinds import PODS
from koord.api.machinery.codec import DecodeError
from koord.kube.client import Client
from koord.kube.clock import Clock
from koord.kube.election import NotLeader
from koord.kube.errors import ApiError, NotFound, ServerError, TooManyRequests, Unavailable
from koord.kube.retry import backoff_s
from koord.scheduler.live import volumes
from koord.scheduler.live.cycle import Bind
from koord.scheduler.live.feed import Feed
from koord.scheduler.live.metrics import Point, Spent, Status, uncounted
from koord.scheduler.plugins.volume_binding import VolumeBinding
from koord.scheduler.queue import Attempt
from koord.scheduler.state.storage import Promise

log = logging.getLogger(__name__)

MOST_AT_ONCE: Final = 64
FIELD_MANAGER: Final = "koord-scheduler"
BINDER: Final = "DefaultBinder"
"""What kube-scheduler calls whoever binds."""
GRACE_S: Final = 5.0
"""At the end, what is under way has so long to end by itself."""
PATIENCE_S: Final = 30.0
"""So long a server that answers with failures is asked again; one that does not answer, for as long as it takes."""
FIRST_AGAIN_S: Final = 0.05
LONGEST_AGAIN_S: Final = 2.0

Outcome = Literal["bound", "refused", "failed"]
Told = Callable[[Bind, Outcome, str], None]
"""Who wants to know what became of a binding, and why."""


@dataclass(slots=True)
class _Waiting:
    bind: Bind
    since_s: float
    until_s: float


async def _at_once(uid: str) -> None:
    return None


class Bindings:
    """All bindings under way.

    `settled` is awaited before a pod is bound: what is being written of it comes first. `begun` is told when a binding
    starts for real, `awaiting` when it takes long for what a volume is waited for, `spent` of the time that it takes.
    """

    def __init__(
        self,
        client: Client,
        feed: Feed,
        clock: Clock,
        *,
        told: Told,
        wake: Callable[[], None],
        settled: Callable[[str], Awaitable[None]] = _at_once,
        begun: Callable[[Bind], None] = lambda bind: None,
        awaiting: Callable[[Bind, str], None] = lambda bind, what: None,
        spent: Spent = uncounted,
        most_at_once: int = MOST_AT_ONCE,
    ) -> None:
        # Attempts are made here, where it is known what has changed in between.
        self._client, self._feed, self._clock = client.limited(attempts=1), feed, clock
        self._told, self._wake, self._settled, self._most = told, wake, settled, most_at_once
        self._begun, self._awaiting, self._spent = begun, awaiting, spent
        self._tasks: dict[asyncio.Task[None], Bind] = {}
        self._idle: set[asyncio.Task[None]] = set()
        "Those of them that wait for volumes, and ask nothing of the API server."
        self._waiting: dict[str, _Waiting] = {}

    def __len__(self) -> int:
        return len(self._tasks) + len(self._waiting)

    @property
    def is_full(self) -> bool:
        """Whether the API server has enough to do: then nothing is decided that would only wait for it."""
        return len(self._tasks) - len(self._idle) >= self._most

    @property
    def attempts(self) -> list[Attempt]:
        """Those whose outcome will be told from here."""
        return [bind.attempt for bind in (*self._tasks.values(), *(each.bind for each in self._waiting.values()))]

    def start(self, bind: Bind) -> None:
        if bind.wait_s > 0:
            now_s = self._clock.monotonic()
            self._waiting[bind.ask.key] = _Waiting(bind, now_s, now_s + bind.wait_s)
            return
        self._begun(bind)
        task = asyncio.create_task(self._carry_out(bind), name=f"bind {bind.ask.key}")
        self._tasks[task] = bind
        task.add_done_callback(self._ended)

    def look_after_waiting(self) -> None:
        """Let those go on who need not wait any more, and those give up who waited too long."""
        for waiting in list(self._waiting.values()):
            bind = waiting.bind
            row, engine = self._feed.stands(bind.ask, bind.node), self._feed.engine_of(bind.ask)
            if row is None or engine is None:
                self._permitted(waiting, "Unschedulable")
                self._failed(bind, "its node went away, or it did")
            elif engine.wait_s(bind.ask, row) <= 0:
                self._permitted(waiting, "Success")
                self.start(replace(bind, wait_s=0.0))
            elif self._clock.monotonic() >= waiting.until_s:
                self._permitted(waiting, "Unschedulable")
                self._failed(bind, "it waited for others in vain")

    def _permitted(self, waiting: _Waiting, status: Status) -> None:
        """A pod waits for others no longer."""
        bind = waiting.bind
        del self._waiting[bind.ask.key]
        self._spent("Permit", status, bind.profile, self._clock.monotonic() - waiting.since_s)

    async def finish(self, within_s: float | None = GRACE_S) -> None:
        """Wait for what is under way, but not for ever; nothing new is started, and who waits for others gives up."""
        for waiting in self._waiting.values():
            self._failed(waiting.bind, "the scheduler is ending")
        self._waiting.clear()
        for task in self._idle:
            task.cancel()
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=within_s)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)

    def _ended(self, task: asyncio.Task[None]) -> None:
        bind = self._tasks.pop(task)
        if task.cancelled():
            self._failed(bind, "the scheduler is ending")
        elif (error := task.exception()) is not None:
            log.error("a binding ended with an error", exc_info=error, extra={"pod": bind.ask.key})
            self._failed(bind, f"{type(error).__name__}: {error}")
        self._wake()

    async def _carry_out(self, bind: Bind) -> None:
        await self._settled(bind.ask.meta.uid)
        if self._feed.stands(bind.ask, bind.node) is None:
            self._failed(bind, "its node went away, or it did")
            return
        promises = volumes.promises_of(self._feed, bind.ask)
        began_s, tries = self._clock.monotonic(), 0
        while True:
            try:
                if promises:
                    await self._volumes(bind, promises)
                    promises, began_s = (), self._clock.monotonic()
                await self._write(bind)
            except (ServerError, TooManyRequests) as error:
                tries += 1
                answered = not isinstance(error, Unavailable) or error.code
                if answered and self._clock.monotonic() - began_s > PATIENCE_S:
                    await self._not_bound(bind, error)
                    return
                log.debug("asked again: %s", error, extra={"pod": bind.ask.key})
                await self._clock.sleep(backoff_s(tries, bind.ask.key, base_s=FIRST_AGAIN_S, cap_s=LONGEST_AGAIN_S))
                if not self._is_ours(bind):
                    self._heard_otherwise(bind)
                    return
            except (NotLeader, volumes.NotBound) as error:
                self._failed(bind, str(error))
                return
            except (ApiError, DecodeError) as error:
                await self._not_bound(bind, error)
                return
            else:
                self._bound(bind)
                return

    async def _volumes(self, bind: Bind, promises: Sequence[Promise]) -> None:
        began_s = self._clock.monotonic()
        await volumes.write(self._client, self._feed, promises)
        task = asyncio.current_task()
        assert task is not None
        self._idle.add(task)
        self._wake()
        try:
            await volumes.bound(self._feed, bind.ask, bind.node, promises, late=lambda what: self._awaiting(bind, what))
        finally:
            self._idle.discard(task)
        self._took(bind, "PreBind", began_s, plugin=VolumeBinding.name)

    async def _write(self, bind: Bind) -> None:
        meta, began_s = bind.ask.meta, self._clock.monotonic()
        if bind.patch:
            wanted = {**bind.patch, "metadata": {**bind.patch.get("metadata", {}), "uid": meta.uid}}
            await self._client.patch(
                PODS, meta.name, wanted, namespace=meta.namespace, type="merge", field_manager=FIELD_MANAGER
            )
            self._took(bind, "PreBind", began_s)
            began_s = self._clock.monotonic()
        try:
            await self._client.bind(meta.namespace, meta.name, bind.node, uid=meta.uid)
        except ApiError:
            self._took(bind, "Bind", began_s, "Error", BINDER)
            raise
        self._took(bind, "Bind", began_s, plugin=BINDER)

    def _took(self, bind: Bind, point: Point, began_s: float, status: Status = "Success", plugin: str = "") -> None:
        self._spent(point, status, bind.profile, self._clock.monotonic() - began_s, plugin)

    def _is_ours(self, bind: Bind) -> bool:
        """Whether nothing has been heard of the pod since it was placed. Its node may be gone: a call is under way."""
        held = self._feed.assumed.get(bind.ask.key)
        return held is not None and held.uid == bind.ask.meta.uid and held.node == bind.node

    def _heard_otherwise(self, bind: Bind) -> None:
        """While we asked, the informer told what became of the pod: it is on a node, or gone."""
        known = self._feed.cluster.pods.get(bind.ask.key)
        row = self._feed.cluster.table.row_of.get(bind.node)
        if known is not None and known[0].uid == bind.ask.meta.uid and known[1] == row:
            self._bound(bind)
        else:
            self._refused(bind, "it went away, or elsewhere, meanwhile")

    def _bound(self, bind: Bind) -> None:
        self._feed.queue.done(bind.attempt)
        self._told(bind, "bound", "")

    async def _not_bound(self, bind: Bind, error: Exception) -> None:
        """What the API server says now decides; where it cannot be asked, the binding has failed."""
        meta = bind.ask.meta
        try:
            pod = await self._client.get(PODS, meta.name, namespace=meta.namespace)
        except NotFound:
            self._refused(bind, "it is gone")
            return
        except (ApiError, DecodeError):
            self._failed(bind, str(error))
            return
        if pod.metadata.uid != meta.uid:
            self._refused(bind, "it is gone, and there is another one of its name")
        elif not pod.spec.node_name:
            self._failed(bind, str(error))
        elif pod.spec.node_name == bind.node:
            self._bound(bind)
        else:
            self._refused(bind, f"it is on {pod.spec.node_name}")

    def _refused(self, bind: Bind, why: str) -> None:
        log.info("not bound: %s", why, extra={"pod": bind.ask.key, "node": bind.node})
        self._feed.let_go(bind.ask)
        self._feed.queue.done(bind.attempt)
        self._told(bind, "refused", why)

    def _failed(self, bind: Bind, why: str) -> None:
        if bind.ask.key not in self._feed.queue:
            # Who is gone, or on a node, waits for nothing.
            self._refused(bind, why)
            return
        log.warning("not bound, tried again later: %s", why, extra={"pod": bind.ask.key, "node": bind.node})
        self._feed.let_go(bind.ask)
        self._feed.queue.failed(bind.attempt, self._clock.monotonic())
        self._told(bind, "failed", why)
