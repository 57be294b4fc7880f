"""Devices by claim from end to end: templates, hollow nodes that publish GPUs, binding, and release.

On koord's own API server, and on a real one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from koord.api.kinds import (
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
)
from koord.api.kubernetes.dynamic_resources import ResourceClaim
from koord.kube.client import Client
from koord_minicluster.controllers.live.run import run as run_controllers
from koord_minicluster.hollow.devices import DRIVER
from koord_minicluster.hollow.live.fleet import FleetOptions, run_fleet
from tests.scheduler.live.embedded import pod_manifest, scheduling, until_bound
from tests.scheduler.live.test_live import condition_of
from tests.waiting import eventually

TEMPLATE: dict[str, Any] = {
    "metadata": {"name": "one-gpu", "namespace": "default"},
    "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": DRIVER}}]}}},
}
USES: dict[str, Any] = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]}


@asynccontextmanager
async def cluster(client: Client) -> AsyncIterator[None]:
    """Controllers, a scheduler, and two nodes with two GPUs each."""
    ready = asyncio.Event()
    fleet = FleetOptions(nodes=2, gpus=2)
    tasks = [
        asyncio.create_task(run_controllers(client)),
        asyncio.create_task(run_fleet(client, fleet, on_ready=lambda _: ready.set())),
    ]
    try:
        await asyncio.wait_for(ready.wait(), 60)
        async with scheduling(client):
            yield
    finally:
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def claims_by_pod(client: Client) -> dict[str, ResourceClaim]:
    claims = await client.list(RESOURCE_CLAIMS, namespace="default")
    return {claim.metadata.controller.name: claim for claim in claims if claim.metadata.controller is not None}


async def test_pods_get_gpus_by_claims_of_a_template_and_give_them_back(anywhere: Client) -> None:
    client = anywhere
    async with cluster(client):
        await client.create(RESOURCE_CLAIM_TEMPLATES, TEMPLATE)
        names = [f"train-{i}" for i in range(4)]
        for name in names:
            await client.create(PODS, pod_manifest(name, cpu="100m", **USES))
        nodes = await until_bound(client, *names)
        claims = await claims_by_pod(client)
        given = set()
        for name in names:
            status = claims[name].status
            assert status.allocation is not None
            (result,) = status.allocation.devices.results
            assert result.pool == nodes[name]
            given.add((result.pool, result.device))
            assert [consumer.name for consumer in status.reserved_for] == [name]
            assert claims[name].metadata.finalizers == ("resource.kubernetes.io/delete-protection",)
        assert len(given) == 4
        await client.create(PODS, pod_manifest("late", cpu="100m", **USES))

        async def told() -> bool:
            status, _, message = await condition_of(client, "late")
            return status == "False" and f"too few free devices of class {DRIVER}" in message

        await eventually(told)
        # With its pod, a claim of a template goes, and with the claim its hold on the device.
        await client.delete(PODS, "train-0", namespace="default")
        assert (await until_bound(client, "late"))["late"] == nodes["train-0"]


async def test_a_claim_without_users_gives_its_devices_back_and_stays(anywhere: Client) -> None:
    client = anywhere
    async with cluster(client):
        claim = {"metadata": {"name": "shared", "namespace": "default"}, "spec": TEMPLATE["spec"]["spec"]}
        await client.create(RESOURCE_CLAIMS, claim)
        uses: dict[str, Any] = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "shared"}]}
        for name in ("a", "b"):
            await client.create(PODS, pod_manifest(name, cpu="100m", **uses))
        nodes = await until_bound(client, "a", "b")
        assert nodes["a"] == nodes["b"]
        stored = await client.get(RESOURCE_CLAIMS, "shared", namespace="default")
        assert sorted(consumer.name for consumer in stored.status.reserved_for) == ["a", "b"]
        for name in ("a", "b"):
            await client.delete(PODS, name, namespace="default")

        async def free() -> bool:
            now = await client.get(RESOURCE_CLAIMS, "shared", namespace="default")
            return now.status.allocation is None and not now.metadata.finalizers

        await eventually(free)
