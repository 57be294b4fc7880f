"""Several schedulers on one cluster by node pool: whatever they do at once, no room is given twice."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from koord.api.kinds import LEASES, NODES, PODS
from koord.api.protocol.names import NAMESPACE_KOORDINATOR
from koord.kube.client import Client
from koord.scheduler.live import dividing
from koord.scheduler.live.run import SchedulerOptions
from koord.scheduler.shards import Shard
from koord_chaos.faults.live.checks import objects
from koord_chaos.faults.live.places import watching
from koord_chaos.invariants.invariant import violations
from koord_chaos.invariants.moment import Moment
from koord_chaos.invariants.placing import PLACING
from koord_minicluster.up.bootstrap import bootstrap
from tests.scheduler.live.embedded import node_manifest, pod_manifest, scheduling, serving, until_bound
from tests.waiting import eventually

SHARDS, NODES_A_POOL, POOLS = 3, 2, 4
LABEL = "pool"
CPU = 4


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    async with serving(tmp_path) as own:
        await bootstrap(own)
        for pool in range(POOLS):
            for number in range(NODES_A_POOL):
                node = node_manifest(f"n-{pool}-{number}", cpu=str(CPU), labels={LABEL: f"pool-{pool}"})
                await own.create(NODES, node)
        yield own


def options(number: int) -> SchedulerOptions:
    return SchedulerOptions(alone=True, elect=True, shard=Shard(number, SHARDS, LABEL))


async def test_schedulers_fill_a_cluster_together_and_give_no_room_twice(client: Client) -> None:
    """The pods fill all nodes to the last core, so most have to find the shard that has room left."""
    pods = [f"p-{number}" for number in range(POOLS * NODES_A_POOL * CPU)]
    async with watching(client) as places, AsyncExitStack() as stack:
        for number in range(1, SHARDS):
            await stack.enter_async_context(scheduling(client, options=options(number)))
        async with scheduling(client, options=options(SHARDS)):
            for name in pods[: len(pods) // 2]:
                await client.create(PODS, pod_manifest(name))
            await until_bound(client, *pods[: len(pods) // 4])
        # That one is gone, and its successor goes on with its nodes and pods.
        await stack.enter_async_context(scheduling(client, options=options(SHARDS)))
        for name in pods[len(pods) // 2 :]:
            await client.create(PODS, pod_manifest(name))
        where = await until_bound(client, *pods)
        assert {sum(node == other for other in where.values()) for node in where.values()} == {CPU}
        assert list(violations(PLACING, Moment(await objects(client)))) == []
        assert places.bound_twice() == []


async def test_a_cluster_is_divided_in_one_way_at_a_time(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dividing, "ENDS_S", (600.0, 600.0))
    leases = [f"koord-scheduler-{number}-of-{SHARDS}" for number in range(1, SHARDS + 1)]

    async def are_held() -> bool:
        held = {lease.metadata.name for lease in await client.list(LEASES, namespace=NAMESPACE_KOORDINATOR)}
        return held >= {*leases}

    pods = [f"p-{number}" for number in range(POOLS * NODES_A_POOL * CPU)]
    async with watching(client) as places, AsyncExitStack() as stack:
        async with scheduling(client, options=SchedulerOptions(alone=True, elect=True)):
            await client.create(PODS, pod_manifest("first"))
            await until_bound(client, "first")
            for number in range(1, SHARDS + 1):
                await stack.enter_async_context(scheduling(client, options=options(number)))
            await eventually(are_held)
            for name in pods[1 : len(pods) // 2]:
                await client.create(PODS, pod_manifest(name))
            await until_bound(client, *pods[1 : len(pods) // 2])
        for name in pods[len(pods) // 2 :]:
            await client.create(PODS, pod_manifest(name))
        await until_bound(client, *pods[1:])
        assert list(violations(PLACING, Moment(await objects(client)))) == []
        assert places.bound_twice() == []


async def test_a_pod_with_room_in_no_shard_is_told_and_placed_when_there_is_some(client: Client) -> None:
    async with AsyncExitStack() as stack:
        for number in range(1, SHARDS + 1):
            await stack.enter_async_context(scheduling(client, options=options(number)))
        await client.create(PODS, pod_manifest("large", cpu="8", nodeSelector={LABEL: "pool-new"}))
        await client.create(PODS, pod_manifest("plain"))
        await until_bound(client, "plain")
        await client.create(NODES, node_manifest("n-new", cpu="16", labels={LABEL: "pool-new"}))
        assert (await until_bound(client, "large"))["large"] == "n-new"
