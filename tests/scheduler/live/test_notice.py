"""A victim that asks for notice, on koord's own API server: told, waited for over a restart, gone when it is ready."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from koord.api.kinds import PODS, PRIORITY_CLASSES
from koord.api.kubernetes.pod import Pod
from koord.api.protocol.annotations.notice import EVICTION_ASKED_BY, EVICTION_DEADLINE, EVICTION_NOTICE, EVICTION_READY
from koord.kube.client import Client
from tests.scheduler.live.embedded import make_nodes, pod_manifest, scheduling, serving, until_bound
from tests.waiting import eventually


async def seen(client: Client, name: str) -> Pod:
    return await client.get(PODS, name, namespace="default")


async def test_a_victim_has_its_notice_and_the_pod_that_needs_its_room_waits_for_it(tmp_path: Path) -> None:
    async with serving(tmp_path) as client:
        await make_nodes(client, 1)
        await client.create(PRIORITY_CLASSES, {"metadata": {"name": "high"}, "value": 1000})
        async with scheduling(client):
            train: dict[str, Any] = pod_manifest("train", cpu="4")
            train["metadata"]["annotations"] = {EVICTION_NOTICE.key: "10m"}
            await client.create(PODS, train)
            await until_bound(client, "train")
            running = {"status": {"phase": "Running"}}
            await client.patch(PODS, "train", running, namespace="default", subresource="status")
            await client.create(PODS, pod_manifest("high", cpu="4", priorityClassName="high"))
            await eventually(lambda: _is_told(client))
            await eventually(lambda: _is_nominated(client))
        before = await seen(client, "train")
        async with scheduling(client):
            await eventually(lambda: _is_nominated(client))
            after = await seen(client, "train")
            assert EVICTION_ASKED_BY.read(after.metadata) == EVICTION_ASKED_BY.read(before.metadata)
            ready = {
                "metadata": {"annotations": {EVICTION_READY.key: after.metadata.annotations[EVICTION_DEADLINE.key]}}
            }
            await client.patch(PODS, "train", ready, namespace="default")
            await until_bound(client, "high")
            assert [pod.metadata.name for pod in await client.list(PODS, namespace="default")] == ["high"]


async def _is_told(client: Client) -> bool:
    train = await seen(client, "train")
    condition = train.status.condition("DisruptionTarget")
    if condition is None:
        return False
    assert (condition.status, condition.reason) == ("True", "PreemptionByScheduler")
    (entry,) = EVICTION_ASKED_BY.read(train.metadata)
    assert entry.about == "default/high"
    return True


async def _is_nominated(client: Client) -> bool:
    return (await seen(client, "high")).status.nominated_node_name == "node-000"
