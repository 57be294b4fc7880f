"""Whether all is well after whatever went wrong: no pod bound twice, lost, or put where there is no room for it.

And what the scheduler has in mind is what the API says, no more and no less.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager, suppress

from msgspec.structs import replace

from koord.api.configuration.scheduler_config import SHIPPED, SchedulerConfiguration
from koord.api.kinds import NODES, PODS
from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Pod
from koord.api.kubernetes.resources import amounts, pod_requests
from koord.kube.client import Client
from koord.kube.clock import SystemClock
from koord.kube.informer import Informer
from koord.kube.metrics import Metrics
from koord.kube.store import Delta
from koord.scheduler.live.run import Runner, SchedulerOptions
from tests.scheduler.core.build import Fed, picture
from tests.waiting import eventually

SOON_S = 60.0
REST_WITHIN_S = 60.0
NEVER_LEADS = replace(SHIPPED, leader_election=replace(SHIPPED.leader_election, resource_namespace="no-such"))
"""Its lease has no place to be."""


class Witness:
    """Sees every pod on every node: a pod that has been on two was bound twice."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._places: dict[str, set[str]] = {}
        self.informer: Informer[Pod] = Informer(client, PODS)
        self.informer.add_handler(self._see)

    def _see(self, delta: Delta[Pod]) -> None:
        if delta.new is not None and delta.new.spec.node_name:
            self._places.setdefault(delta.new.metadata.uid, set()).add(delta.new.spec.node_name)

    async def nothing_is_wrong(self, names: Collection[str], runner: Runner | None = None) -> None:
        """At any time; `names` are the pods that there ought to be. Without a scheduler to look at, one is started."""
        pods = await self._client.list(PODS)
        assert {pod.metadata.name for pod in pods} == set(names), "none is lost, none is there that was deleted"
        assert {uid: places for uid, places in self._places.items() if len(places) > 1} == {}, "bound twice"
        assert min(free_milli(await self._client.list(NODES), pods)) >= 0, "more on a node than it has"
        if runner is None:
            async with following(self._client, SchedulerOptions(elect=True, alone=True), NEVER_LEADS) as stands_by:
                assert await knows_what_is_so(self._client, stands_by)
        else:
            await eventually(lambda: knows_what_is_so(self._client, runner), SOON_S)

    async def all_is_well(self, names: Collection[str], runner: Runner | None = None) -> None:
        """Once there is nothing more to do for any pod."""
        await eventually(lambda: at_rest(self._client), REST_WITHIN_S)
        await self.nothing_is_wrong(names, runner)


async def at_rest(client: Client) -> bool:
    """Whoever has no node has been told that there is none, and that is true."""
    nodes, pods = await client.list(NODES), await client.list(PODS)
    most_milli = max(free_milli(nodes, pods))
    for pod in pods:
        scheduled = pod.status.condition("PodScheduled")
        told = scheduled is not None and scheduled.reason == "Unschedulable"
        if not pod.spec.node_name and (not told or pod_requests(pod)["cpu"] <= most_milli):
            return False
    return True


def free_milli(nodes: Sequence[Node], pods: Sequence[Pod]) -> list[int]:
    """The cpu that each node has left."""
    free = {node.metadata.name: amounts(node.status.allocatable)["cpu"] for node in nodes}
    for pod in pods:
        if pod.spec.node_name in free and not pod.is_finished:
            free[pod.spec.node_name] -= pod_requests(pod)["cpu"]
    return list(free.values())


async def knows_what_is_so(client: Client, runner: Runner) -> bool:
    """Whether a scheduler has the state and the queue that follow from what the API server has."""
    assert runner.core is not None
    fresh = Fed(SHIPPED, alone=True)
    fresh.put(*await client.list(NODES), *await client.list(PODS))
    feed = runner.core.feed
    same = picture(feed.cluster) == picture(fresh.feed.cluster) and not feed.assumed
    return same and {attempt.entity.key for attempt in feed.queue} == fresh.waiting


@asynccontextmanager
async def witness(client: Client) -> AsyncIterator[Witness]:
    seen = Witness(client)
    task = asyncio.create_task(seen.informer.run())
    await seen.informer.synced()
    try:
        yield seen
    finally:
        await ended(task)


@asynccontextmanager
async def following(
    client: Client, options: SchedulerOptions | None = None, config: SchedulerConfiguration = SHIPPED
) -> AsyncIterator[Runner]:
    """A scheduler in this process, into which tests can look."""
    ready = asyncio.Event()
    runner = Runner(client, config, options or SchedulerOptions(alone=True), SystemClock(), Metrics(process=False))
    task = asyncio.create_task(runner.run(ready.set))
    waiting = asyncio.create_task(ready.wait())
    try:
        await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED, timeout=SOON_S)
        assert ready.is_set(), "the scheduler did not become ready"
        yield runner
    finally:
        waiting.cancel()
        await ended(task)


async def ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
