"""Quotas on an API server: teams wait for their shares, and objects say how they do, across a restart."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from koord.api.kinds import ELASTIC_QUOTAS, PODS
from koord.api.protocol import names
from koord.kube.client import Client
from koord_minicluster.up.bootstrap import bootstrap
from tests.scheduler.live.embedded import make_nodes, pod_manifest, scheduling, serving, until_bound
from tests.scheduler.quotas import PREFIX, configured
from tests.waiting import eventually


def quota_manifest(name: str, least: str, most: str, **labels: str) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": {"name": name, "namespace": "default", "labels": {f"{PREFIX}{k}": v for k, v in labels.items()}},
        "spec": {"min": {"cpu": least}, "max": {"cpu": most}},
    }


def of_team(name: str, team: str, cpu: str) -> dict[str, Any]:
    return pod_manifest(name, cpu=cpu, labels={names.LABEL_QUOTA_NAME: team})


async def said(client: Client, name: str, namespace: str = "default") -> tuple[str, str, str]:
    """What a quota's object says of cpu: used, requested, its share."""
    quota = await client.get(ELASTIC_QUOTAS, name, namespace=namespace)
    noted = quota.metadata.annotations
    cpu = [json.loads(noted.get(f"{PREFIX}{key}", "{}")).get("cpu", "0") for key in ("request", "runtime")]
    return str(quota.status.used.get("cpu", "0")), cpu[0], cpu[1]


async def test_teams_share_a_cluster_across_a_restart(tmp_path: Path) -> None:
    async with serving(tmp_path) as client:
        await bootstrap(client)
        await make_nodes(client, 1, cpu="10")
        for name in ("a", "b"):
            await client.create(ELASTIC_QUOTAS, quota_manifest(name, "5", "10"))
        await client.create(ELASTIC_QUOTAS, quota_manifest("lost", "1", "1", parent="nobody"))
        async with scheduling(client):
            for i in range(4):
                await client.create(PODS, of_team(f"a{i}", "a", "2"))
            await until_bound(client, *(f"a{i}" for i in range(4)))
            await eventually(lambda: _says(client, "a", ("8", "8", "8")))
            await client.create(PODS, of_team("b0", "b", "4"))
            await client.create(PODS, of_team("a4", "a", "1"))

            async def waits() -> bool:
                pod = await client.get(PODS, "a4", namespace="default")
                pod_condition = pod.status.condition("PodScheduled")
                return pod_condition is not None and pod_condition.message.startswith(
                    "0/1 nodes are available: Insufficient quotas: quota a may use cpu 6 and uses 8; "
                )

            await eventually(waits)
            # What is always there has objects too, and what is malformed says so.
            always = {names.QUOTA_ROOT, names.QUOTA_DEFAULT, names.QUOTA_SYSTEM}

            async def built_in() -> bool:
                quotas = await client.list(ELASTIC_QUOTAS, namespace=names.NAMESPACE_KOORDINATOR)
                return {quota.metadata.name for quota in quotas} == always

            async def malformed() -> bool:
                lost = await client.get(ELASTIC_QUOTAS, "lost", namespace="default")
                usable = [
                    (condition.status, condition.message)
                    for condition in lost.status.conditions
                    if condition.type == "Usable"
                ]
                return usable == [("False", "its parent nobody does not exist")]

            await eventually(built_in)
            await eventually(malformed)
        async with scheduling(client):
            await client.delete(PODS, "a0", namespace="default")
            await client.delete(PODS, "a1", namespace="default")
            await until_bound(client, "a4", "b0")
            await eventually(lambda: _says(client, "a", ("5", "5", "5")))
            await eventually(lambda: _says(client, "b", ("4", "4", "4")))


async def _says(client: Client, name: str, expected: tuple[str, str, str]) -> bool:
    return await said(client, name) == expected


async def test_what_was_lent_comes_back_where_that_is_on(tmp_path: Path) -> None:
    config = configured(monitor_all_quotas=True, delay_evict_time="1s", revoke_pod_interval="200ms")
    async with serving(tmp_path) as client:
        await bootstrap(client)
        await make_nodes(client, 1, cpu="10")
        for name in ("a", "b"):
            await client.create(ELASTIC_QUOTAS, quota_manifest(name, "5", "10"))
        async with scheduling(client, config):
            for i in range(4):
                await client.create(PODS, of_team(f"a{i}", "a", "2"))
            await until_bound(client, *(f"a{i}" for i in range(4)))
            await client.create(PODS, of_team("b0", "b", "5"))
            await until_bound(client, "b0")
            left = [pod.metadata.name for pod in await client.list(PODS, namespace="default")]
            assert len(left) == 3
