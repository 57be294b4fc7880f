"""Moves that meet a budget, a webhook, an impatient user, a namespace that goes away, or the end of the process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from koord.api.kinds import (
    NAMESPACES,
    NODES,
    POD_DISRUPTION_BUDGETS,
    POD_MIGRATION_JOBS,
    PODS,
    RESERVATIONS,
    VALIDATING_WEBHOOK_CONFIGURATIONS,
)
from koord.api.kubernetes.pod import Pod
from koord.kube.client import Client
from tests.descheduler.live.cluster import (
    all_ready,
    ask,
    cluster,
    deploy,
    descheduling,
    ends,
    job,
    no_reservations,
    pods_of,
)
from tests.waiting import eventually

PATIENT = """
deschedulingInterval: 0s
profiles:
- name: p
  pluginConfig:
  - name: MigrationController
    args:
      objectLimiters: {workload: {duration: 1ms}}
      evictQPS: 100
      maxMigratingPerNode: 0
      skipEvictionGates: [MaxMigratingPerWorkload, MaxUnavailablePerWorkload]
"""


async def says(client: Client, name: str, reason: str) -> bool:
    return (await job(client, name)).status.reason == reason


async def test_a_budget_and_a_webhook_hold_evictions_back_until_they_let_go(tmp_path: Path) -> None:
    async with cluster(tmp_path) as client:
        guarded, hooked = [await deploy(client, name, 2) for name in ("guarded", "hooked")]
        selector = {"matchLabels": {"app": "guarded"}}
        budget = {
            "metadata": {"name": "all", "namespace": "default"},
            "spec": {"minAvailable": 2, "selector": selector},
        }
        await client.create(POD_DISRUPTION_BUDGETS, budget)
        async with descheduling(client, PATIENT):
            kept = guarded[0]
            await ask(client, kept, "budgeted")
            await eventually(lambda: says(client, "budgeted", "FailedEvict"))
            assert "disruption budget" in (await job(client, "budgeted")).status.message
            await a_budget_never_lets_go(client, guarded[1])
            await client.create(VALIDATING_WEBHOOK_CONFIGURATIONS, refusing_evictions())
            await ask(client, hooked[0], "refused", mode="EvictDirectly")
            await eventually(lambda: says(client, "refused", "FailedEvict"))
            assert kept.metadata.name in {pod.metadata.name for pod in await pods_of(client, "guarded")}
            await client.delete(VALIDATING_WEBHOOK_CONFIGURATIONS, "no-evictions")
            await client.delete(POD_DISRUPTION_BUDGETS, "all", namespace="default")
            for name in ("budgeted", "refused"):
                assert (await ends(client, name)).status.phase == "Succeeded"


async def a_budget_never_lets_go(client: Client, pod: Pod) -> None:
    """The job ends when its time is over, says what it waited for, and leaves the pod unchanged."""
    await ask(client, pod, "never", ttl="10m")
    await eventually(lambda: says(client, "never", "FailedEvict"))
    await client.patch(POD_MIGRATION_JOBS, "never", {"spec": {"ttl": "1s"}})
    ended = (await ends(client, "never")).status
    assert (ended.phase, ended.reason) == ("Failed", "Timeout")
    assert "disruption budget" in ended.message
    after = await client.get(PODS, pod.metadata.name, namespace="default")
    assert (after.metadata.uid, after.metadata.deletion_timestamp) == (pod.metadata.uid, None)
    await eventually(lambda: has_reservations(client, 1))


def refusing_evictions() -> dict[str, Any]:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods/eviction"]}
    return {
        "metadata": {"name": "no-evictions"},
        "webhooks": [
            {
                "name": "no.evictions.test",
                # Nobody answers there, and that counts as a refusal.
                "clientConfig": {"url": "https://127.0.0.1:1/", "caBundle": ""},
                "rules": [rule],
                "failurePolicy": "Fail",
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
            }
        ],
    }


async def test_jobs_go_on_with_another_process_and_end_with_their_cause(tmp_path: Path) -> None:
    async with cluster(tmp_path) as client:
        names = [node.metadata.name for node in await client.list(NODES)]
        # Each of a workload of its own: a pod may use any room that is held for its workload.
        names_of_jobs = ("moves", "vanishes", "taken-back", "too-late", "stops")
        pods = {name: (await deploy(client, name, 2, cpu="500m"))[0] for name in names_of_jobs}
        await client.create(NAMESPACES, {"metadata": {"name": "away"}})
        await deploy(client, "away", 2, namespace="away")
        for name in names:
            await client.patch(NODES, name, {"spec": {"unschedulable": True}})
        async with descheduling(client, PATIENT):
            for name, pod in pods.items():
                await ask(client, pod, name, ttl="4s" if name == "too-late" else "10m")
            await eventually(lambda: says(client, "too-late", "Unschedulable"))
            await eventually(lambda: has_reservations(client, 5))
            await client.patch(POD_MIGRATION_JOBS, "stops", {"spec": {"paused": True}})
            await client.delete(POD_MIGRATION_JOBS, "taken-back")
            assert (await ends(client, "too-late")).status.reason == "Timeout"
            await eventually(lambda: has_reservations(client, 3))
            await a_namespace_goes_away(client)
        # No descheduler runs while a pod ends and room comes.
        await client.delete(PODS, pods["vanishes"].metadata.name, namespace="default", grace_s=0)
        for name in names:
            await client.patch(NODES, name, {"spec": {"unschedulable": None}})
        async with descheduling(client, PATIENT):
            assert (await ends(client, "moves")).status.phase == "Succeeded"
            assert (await ends(client, "vanishes")).status.reason == "MissingPod"
            assert (await job(client, "stops")).status.phase == "Running"
            await client.patch(POD_MIGRATION_JOBS, "stops", {"spec": {"paused": False}})
            assert (await ends(client, "stops")).status.phase == "Succeeded"
            await eventually(lambda: all_ready(client, "moves", 2))
            for each in ("moves", "stops", "vanishes", "too-late"):
                await client.delete(POD_MIGRATION_JOBS, each)
            await eventually(lambda: no_reservations(client))


async def a_namespace_goes_away(client: Client) -> None:
    pod = next(iter(await client.list(PODS, namespace="away")))
    await ask(client, pod, "goes-away")
    await eventually(lambda: has_reservations(client, 4))
    await client.delete(NAMESPACES, "away")
    assert (await ends(client, "goes-away")).status.reason == "MissingPod"
    await eventually(lambda: has_reservations(client, 3))
    await client.delete(POD_MIGRATION_JOBS, "goes-away")


async def has_reservations(client: Client, number: int) -> bool:
    return len(await client.list(RESERVATIONS)) == number
