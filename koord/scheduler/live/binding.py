"""Carries placements out: what plugins want done before, then the binding. Many at once, but not too many.

    bound       the attempt is done; the informer will show the pod on its node
    refused     the pod is gone, another one, or on a node already: what the API says counts, and will be heard
    failed      the place is free again, and the pod is tried again after a backoff
    again       another pod of its job is bound, or may be: it keeps its place, and is bound again after a while

A call without an answer may have had its effect. So the same call is made again until there is an answer, or the
informer shows what became of the pod; until then its place is kept, and nothing else can be put there.

It knows no plugin: a plan is a list of values (`koord.scheduler.framework.writes`). The pods of a job are carried out
side by side.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Final

from koord.api.kinds import PODS
from koord.api.kubernetes.words import PodConditionType
from koord.api.machinery.codec import DecodeError
from koord.kube.client import Client
from koord.kube.clock import Clock
from koord.kube.election import NotLeader
from koord.kube.errors import AlreadyExists, ApiError, NotFound, ServerError, TooManyRequests, Unavailable
from koord.kube.retry import backoff_s
from koord.scheduler.core.core import BindingOutcome, Core
from koord.scheduler.core.decision import Bind, Placed
from koord.scheduler.framework.writes import (
    BindingPlan,
    CannotBind,
    Create,
    Delete,
    Evict,
    PodBinding,
    Step,
    Until,
    Write,
)
from koord.scheduler.live.metrics import Point, Spent, Status, uncounted
from koord.scheduler.live.sources import moment

log = logging.getLogger(__name__)

MOST_AT_ONCE: Final = 64
FIELD_MANAGER: Final = "koord-scheduler"
BINDER: Final = "DefaultBinder"
"""Kube-scheduler's name for the plugin that binds pods."""
GRACE_S: Final = 5.0
"""At shutdown, seconds that bindings in progress have to finish."""
PATIENCE_S: Final = 30.0
"""Seconds for which a server that answers with failures is retried. A server that does not answer is retried without a
limit."""
FIRST_AGAIN_S: Final = 0.05
LONGEST_AGAIN_S: Final = 2.0
FIRST_RETRY_S: Final = 0.5
LONGEST_RETRY_S: Final = 10.0
"""Between two tries to bind a pod that keeps its place."""
LOOK_EVERY_S: Final = 0.2
"""How often it is looked whether something has come true that others do."""

BindingCallback = Callable[[Bind, Placed, BindingOutcome, str], None]
"""Called with the outcome of a binding, and why."""


async def _at_once(uid: str) -> None:
    return None


class Bindings:
    """All bindings in progress.

    `settled` is awaited before a pod is bound, so that earlier writes to the pod come first. `begun` is called when a
    binding really starts, `awaiting` when something that it needs is late, `spent` with the time that it takes.
    """

    def __init__(
        self,
        client: Client,
        core: Core,
        clock: Clock,
        *,
        on_outcome: BindingCallback,
        wake: Callable[[], None],
        settled: Callable[[str], Awaitable[None]] = _at_once,
        begun: Callable[[Bind, Placed], None] = lambda bind, placed: None,
        awaiting: Callable[[Placed, str], None] = lambda placed, what: None,
        spent: Spent = uncounted,
        most_at_once: int = MOST_AT_ONCE,
    ) -> None:
        # Attempts are made here, where it is known what has changed in between.
        self._client, self._core, self._clock = client.limited(attempts=1), core, clock
        self._told, self._wake, self._settled, self._most = on_outcome, wake, settled, most_at_once
        self._begun, self._awaiting, self._spent = begun, awaiting, spent
        self._tasks: dict[asyncio.Task[None], tuple[Bind, Placed]] = {}
        self._idle: set[asyncio.Task[None]] = set()
        "Those of them that rest, or wait for others' work, and ask nothing of the API server."

    def __len__(self) -> int:
        return len(self._tasks)

    @property
    def is_full(self) -> bool:
        """Whether the API server has enough to do: then nothing is decided that would only wait for it."""
        return len(self._tasks) - len(self._idle) >= self._most

    def start(self, bind: Bind) -> None:
        for placed in bind.members:
            self._begun(bind, placed)
            task = asyncio.create_task(self._carry_out(bind, placed), name=f"bind {placed.ask.key}")
            self._tasks[task] = bind, placed
            task.add_done_callback(self._ended)

    async def finish(self, within_s: float | None = GRACE_S) -> None:
        """Wait for bindings in progress, but not for ever; no new one is started."""
        for task in self._idle:
            task.cancel()
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=within_s)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)

    def _ended(self, task: asyncio.Task[None]) -> None:
        bind, placed = self._tasks.pop(task)
        if task.cancelled():
            self._failed(bind, placed, "the scheduler is ending", last=True)
        elif (error := task.exception()) is not None:
            log.error("a binding ended with an error", exc_info=error, extra={"pod": placed.ask.key})
            self._failed(bind, placed, f"{type(error).__name__}: {error}", last=True)
        self._wake()

    async def _carry_out(self, bind: Bind, placed: Placed) -> None:
        failures = 0
        while await self._try(bind, placed) == "again":
            failures += 1
            with self._resting():
                rest_s = backoff_s(failures, placed.ask.key, base_s=FIRST_RETRY_S, cap_s=LONGEST_RETRY_S)
                await self._clock.sleep(rest_s)
            self._core.at(moment(self._clock))
            if not self._core.again(bind, placed.ask):
                # In the meantime the whole job gave its places back, or the informer reported the pod.
                return

    async def _try(self, bind: Bind, placed: Placed) -> BindingOutcome:
        ask = placed.ask
        await self._settled(ask.meta.uid)
        if not self._core.stands(ask, placed.node):
            return self._failed(bind, placed, "its node went away, or it did")
        began_s, tries, left = self._clock.monotonic(), 0, list(placed.plan.steps)
        while True:
            try:
                while left:
                    await self._take(bind, placed, left[0])
                    del left[0]
                    began_s = self._clock.monotonic()
                await self._bind(bind, placed)
            except (ServerError, TooManyRequests) as error:
                tries += 1
                answered = not isinstance(error, Unavailable) or error.code
                if answered and self._clock.monotonic() - began_s > PATIENCE_S:
                    return await self._not_bound(bind, placed, error)
                log.debug("asked again: %s", error, extra={"pod": ask.key})
                await self._clock.sleep(backoff_s(tries, ask.key, base_s=FIRST_AGAIN_S, cap_s=LONGEST_AGAIN_S))
                if not self._is_ours(placed):
                    return self._heard_otherwise(bind, placed)
            except (NotLeader, CannotBind) as error:
                return self._failed(bind, placed, str(error), last=True)
            except (ApiError, DecodeError) as error:
                return await self._not_bound(bind, placed, error)
            else:
                return self._bound(bind, placed)

    async def _take(self, bind: Bind, placed: Placed, step: Step) -> None:
        """One step before the binding, and what it waits for."""
        began_s = self._clock.monotonic()
        for write in step.writes():
            await self._write(write)
        if step.until is not None:
            with self._resting():
                await self._come_true(placed, step.until)
        self._took(bind, "PreBind", began_s, plugin=step.plugin)

    @contextmanager
    def _resting(self) -> Iterator[None]:
        """While this binding asks nothing of the API server, others may."""
        task = asyncio.current_task()
        assert task is not None
        self._idle.add(task)
        self._wake()
        try:
            yield
        finally:
            self._idle.discard(task)

    async def _come_true(self, placed: Placed, until: Until) -> None:
        began_s, is_told = self._clock.monotonic(), False
        while missing := until.missing():
            if not self._core.stands(placed.ask, placed.node):
                raise CannotBind("its node went away, or it did")
            waited_s = self._clock.monotonic() - began_s
            if waited_s >= until.within_s:
                raise CannotBind(f"{missing} within {until.within_s:g} s. {until.waits_for()}".rstrip())
            if waited_s >= until.late_s and not is_told:
                self._awaiting(placed, until.waits_for())
                is_told = True
            await self._clock.sleep(LOOK_EVERY_S)

    async def _bind(self, bind: Bind, placed: Placed) -> None:
        plan, began_s = placed.plan, self._clock.monotonic()
        said = with_binding(plan)
        if plan.patch is not None and not said:
            await self._write(plan.patch)
            self._took(bind, "PreBind", began_s)
            began_s = self._clock.monotonic()
        try:
            if said and isinstance(plan.binding, PodBinding):
                to = plan.binding
                await self._client.bind(to.namespace, to.name, to.node, uid=to.uid, annotations=said)
            else:
                await self._write(plan.binding)
        except ApiError:
            self._took(bind, "Bind", began_s, "Error", BINDER)
            raise
        self._took(bind, "Bind", began_s, plugin=BINDER)

    async def _write(self, write: Write) -> None:
        await carry_out(self._client, write)

    def _took(self, bind: Bind, point: Point, began_s: float, status: Status = "Success", plugin: str = "") -> None:
        self._spent(point, status, bind.profile, self._clock.monotonic() - began_s, plugin)

    def _is_ours(self, placed: Placed) -> bool:
        """Whether the pod is unchanged since it was placed. Its node may be gone while a call is in progress."""
        held = self._core.assumed.get(placed.ask.key)
        return held is not None and held.uid == placed.ask.meta.uid and held.node == placed.node

    def _heard_otherwise(self, bind: Bind, placed: Placed) -> BindingOutcome:
        """During the call, the informer reported the pod: it is on a node, or gone."""
        placed_pod = self._core.cluster.pods.get(placed.ask.key)
        row = self._core.cluster.table.row_of.get(placed.node)
        if placed_pod is not None and placed_pod[0].uid == placed.ask.meta.uid and placed_pod[1] == row:
            return self._bound(bind, placed)
        return self._refused(bind, placed, "it went away, or elsewhere, meanwhile")

    def _bound(self, bind: Bind, placed: Placed) -> BindingOutcome:
        self._core.at(moment(self._clock))
        self._core.bound(bind, placed.ask)
        self._told(bind, placed, "bound", "")
        return "bound"

    async def _not_bound(self, bind: Bind, placed: Placed, error: Exception) -> BindingOutcome:
        """What the API server says now decides; where it cannot be asked, the binding has failed."""
        if not isinstance(placed.plan.binding, PodBinding):
            return self._failed(bind, placed, str(error))
        meta = placed.ask.meta
        try:
            pod = await self._client.get(PODS, meta.name, namespace=meta.namespace)
        except NotFound:
            return self._refused(bind, placed, "it is gone")
        except (ApiError, DecodeError):
            return self._failed(bind, placed, str(error))
        if pod.metadata.uid != meta.uid:
            return self._refused(bind, placed, "it is gone, and there is another one of its name")
        if not pod.spec.node_name:
            return self._failed(bind, placed, str(error))
        if pod.spec.node_name == placed.node:
            return self._bound(bind, placed)
        return self._refused(bind, placed, f"it is on {pod.spec.node_name}")

    def _refused(self, bind: Bind, placed: Placed, why: str) -> BindingOutcome:
        log.info("not bound: %s", why, extra={"pod": placed.ask.key, "node": placed.node})
        self._core.at(moment(self._clock))
        self._core.refused(bind, placed.ask)
        self._told(bind, placed, "refused", why)
        return "refused"

    def _failed(self, bind: Bind, placed: Placed, why: str, *, last: bool = False) -> BindingOutcome:
        self._core.at(moment(self._clock))
        outcome = self._core.failed(bind, placed.ask, last=last)
        if outcome == "refused":
            log.info("not bound: %s", why, extra={"pod": placed.ask.key, "node": placed.node})
        else:
            log.warning("binding failed, retrying later: %s", why, extra={"pod": placed.ask.key, "node": placed.node})
        self._told(bind, placed, outcome, why)
        return outcome


def with_binding(plan: BindingPlan) -> Mapping[str, str]:
    """The annotations that a pod gets, where nothing else is written on it: the binding itself brings them, in one call
    instead of two. Empty where it takes a call of its own."""
    if plan.patch is None or not isinstance(plan.binding, PodBinding) or set(plan.patch.body) != {"metadata"}:
        return {}
    metadata = plan.patch.body["metadata"]
    annotations = metadata.get("annotations") or {}
    if metadata.keys() - {"uid", "annotations"} or any(text is None for text in annotations.values()):
        return {}
    return dict(annotations)


async def carry_out(client: Client, write: Write) -> None:
    """Make one call of the API."""
    if isinstance(write, PodBinding):
        await client.bind(write.namespace, write.name, write.node, uid=write.uid)
        return
    if isinstance(write, Delete):
        await client.delete(write.kind, write.name, namespace=write.namespace, uid=write.uid)
        return
    if isinstance(write, Create):
        with suppress(AlreadyExists):
            await client.create(write.kind, write.body, namespace=write.namespace, field_manager=FIELD_MANAGER)
        return
    if isinstance(write, Evict):
        await _evict(client, write)
        return
    await client.patch(
        write.kind,
        write.name,
        dict(write.body),
        namespace=write.namespace,
        type=write.type,
        subresource=write.subresource,
        field_manager=FIELD_MANAGER,
    )


async def _evict(client: Client, write: Evict) -> None:
    """Write on the pod why it goes, then evict it. If it may not go, nothing is written."""
    await client.evict(write.namespace, write.name, uid=write.uid, dry_run=True)
    condition = {
        "type": PodConditionType.DISRUPTION_TARGET,
        "status": "True",
        "reason": write.reason,
        "message": write.message,
    }
    body = {"metadata": {"uid": write.uid}, "status": {"conditions": [condition]}}
    await client.patch(
        PODS,
        write.name,
        body,
        namespace=write.namespace,
        type="strategic",
        subresource="status",
        field_manager=FIELD_MANAGER,
    )
    await client.evict(write.namespace, write.name, uid=write.uid)
