"""The manager beside an API server: what nodes lend follows what they report, and nothing is lent on hearsay."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from koord.api import kinds
from koord.api.protocol.names import CONFIGMAP_SLO_CONTROLLER, NAMESPACE_KOORDINATOR
from koord.api.text.manifest import read
from koord.kube.client import Client
from koord.kube.errors import NotFound
from koord.kube.locate import locate
from koord.kube.metrics import Metrics
from koord.manager.live.run import CONTROLLERS, ControllerError, ManagerOptions, choose_controllers, run
from koord.offline.live.node_snapshot import with_node
from koord.offline.node_resources import NoSuchNode, explain_node
from koord_minicluster.up.bootstrap import definitions
from tests.control_plane import ControlPlane
from tests.manager.live.managing import (
    CPU,
    change,
    configure,
    fresh,
    lent,
    make_node,
    managing,
    node_with_metric,
    report,
    until_lent,
    until_there,
)
from tests.scheduler.live.embedded import scheduling, serving, until_bound
from tests.waiting import always, eventually


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """A control plane of these tests alone: their manager looks at every node."""
    with ControlPlane() as own:
        yield own


@pytest.fixture(params=["embedded", pytest.param("real", marks=pytest.mark.cluster)])
async def client(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Client]:
    if request.param == "embedded":
        async with serving(tmp_path) as own:
            yield own
        return
    plane: ControlPlane = request.getfixturevalue("plane")
    async with Client(locate(str(plane.kubeconfig))) as real:
        yield real


@pytest.fixture
async def embedded(tmp_path: Path) -> AsyncIterator[Client]:
    async with serving(tmp_path) as own:
        yield own


async def test_a_node_is_measured_lends_less_as_it_is_used_more_and_takes_its_objects_along(client: Client) -> None:
    await fresh(client, metricReportIntervalSeconds=20)
    async with managing(client):
        await make_node(client, "n1")
        await until_there(client, kinds.NODE_METRICS, "n1")
        await until_there(client, kinds.NODE_SLOS, "n1")
        policy = (await client.get(kinds.NODE_METRICS, "n1")).spec.metric_collect_policy
        assert policy is not None
        assert policy.report_interval_seconds == 20
        await report(client, "n1")
        # 64000 - 25600 - 2500
        await until_lent(client, "n1", 35900)
        node = await client.get(kinds.NODES, "n1")
        told = json.loads(node.metadata.annotations["node.koordinator.sh/originExtendedAllocatable"])
        assert told["resources"][CPU] == "35900"
        condition = node.status.condition("koordinator.sh/Lending")
        assert condition is not None
        assert condition.status == "True"
        await report(client, "n1", system="20")
        await until_lent(client, "n1", 18400)
        # A little more is not worth a write.
        await report(client, "n1", system="20100m")
        await always(partial(lends, client, "n1", 18400), 0.5)
        await client.delete(kinds.NODES, "n1")
        await until_there(client, kinds.NODE_METRICS, "n1", there=False)
        await until_there(client, kinds.NODE_SLOS, "n1", there=False)


async def test_a_report_that_goes_stale_takes_effect_by_itself(client: Client) -> None:
    await fresh(client, degradeTimeMinutes=1)
    await node_with_metric(client, "n1")
    async with managing(client):
        await report(client, "n1", age_s=52)
        await until_lent(client, "n1", 35900)
        await until_lent(client, "n1", None)
        node = await client.get(kinds.NODES, "n1")
        assert "kubernetes.io/mid-cpu" not in node.status.allocatable
        condition = node.status.condition("koordinator.sh/Lending")
        assert condition is not None
        assert (condition.status, condition.reason) == ("False", "StaleReport")
        # The node is back.
        await report(client, "n1")
        await until_lent(client, "n1", 35900)


async def test_what_others_have_on_a_node_is_left_alone(client: Client) -> None:
    await fresh(client)
    await node_with_metric(client, "n1", labels={"own": "x"}, annotations={"own": "y"})
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "", "lastTransitionTime": None}
    own = {"status": {"allocatable": {"example.com/card": "3"}, "conditions": [ready]}}
    await client.patch(kinds.NODES, "n1", own, type="strategic", subresource="status")
    async with managing(client):
        await report(client, "n1")
        await until_lent(client, "n1", 35900)
        node = await client.get(kinds.NODES, "n1")
        assert node.status.allocatable["example.com/card"] == "3"
        assert {condition.type for condition in node.status.conditions} == {"Ready", "koordinator.sh/Lending"}
        assert node.metadata.labels["own"] == "x"
        assert node.metadata.annotations["own"] == "y"


async def test_a_change_of_configuration_takes_effect_at_once_and_a_broken_one_not_at_all(client: Client) -> None:
    await fresh(client)
    await node_with_metric(client, "n1")
    async with managing(client):
        await report(client, "n1")
        await until_lent(client, "n1", 35900)
        await change(client, "colocation-config", '{"enable": true, "cpuReclaimThresholdPercent": 80}')
        await until_lent(client, "n1", 48700)
        await change(client, "colocation-config", "{")
        await eventually(lambda: _condition(client, "False"))
        await eventually(lambda: _event(client, "ColocationCfgUnmarshalFailed"))
        # The last good one stays in force, also for what happens afterwards.
        await report(client, "n1", system="22500m")
        await until_lent(client, "n1", 28700)
        await change(client, "colocation-config", '{"enable": true}')
        await until_lent(client, "n1", 15900)
        await eventually(lambda: _condition(client, "True"))


async def _condition(client: Client, status: str) -> bool:
    config_map = await client.get(kinds.CONFIG_MAPS, CONFIGMAP_SLO_CONTROLLER, namespace=NAMESPACE_KOORDINATOR)
    text = config_map.metadata.annotations.get("koordinator.sh/config-conditions", "[]")
    return [(each["type"], each["status"]) for each in json.loads(text)] == [("InForce", status)]


async def _event(client: Client, reason: str) -> bool:
    events = await client.list(kinds.EVENTS, namespace=NAMESPACE_KOORDINATOR)
    return any(event.reason == reason and "is not JSON" in event.note for event in events)


async def test_a_configuration_that_was_never_good_changes_nothing(embedded: Client) -> None:
    client = embedded
    await fresh(client)
    await node_with_metric(client, "n1")
    async with managing(client):
        await report(client, "n1")
        await until_lent(client, "n1", 35900)
    await configure(client, colocation="{", resource_threshold="[")
    async with managing(client):
        await report(client, "n1", system="20")
        await eventually(lambda: _condition(client, "False"))
        await always(partial(lends, client, "n1", 35900), 0.3)
        await change(client, "colocation-config", '{"enable": true}')
        await until_lent(client, "n1", 18400)


async def lends(client: Client, name: str, cpu_milli: int) -> bool:
    return await lent(client, name) == cpu_milli


@pytest.mark.parametrize("how", ["cluster", "node", "map deleted"])
async def test_switched_off_everything_is_taken_back(embedded: Client, how: str) -> None:
    client = embedded
    await fresh(client)
    await node_with_metric(client, "n1")
    async with managing(client):
        await report(client, "n1")
        await until_lent(client, "n1", 35900)
        if how == "map deleted":
            # A map that is gone says nothing; only a word switches off.
            await client.delete(kinds.CONFIG_MAPS, CONFIGMAP_SLO_CONTROLLER, namespace=NAMESPACE_KOORDINATOR)
            await always(partial(lends, client, "n1", 35900), 0.5)
            return
        if how == "cluster":
            await change(client, "colocation-config", '{"enable": false}')
        else:
            off = {"metadata": {"annotations": {"node.koordinator.sh/colocation-strategy": '{"enable":false}'}}}
            await client.patch(kinds.NODES, "n1", off)
        await until_lent(client, "n1", None)
        condition = (await client.get(kinds.NODES, "n1")).status.condition("koordinator.sh/Lending")
        assert condition is not None
        assert condition.reason == "Disabled"


async def test_pods_count_once_they_are_on_the_node(embedded: Client) -> None:
    client = embedded
    await fresh(client)
    await node_with_metric(client, "n1")
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "10", "memory": "1Gi"}}}
    spec = {"nodeName": "n1", "priorityClassName": "koord-prod", "containers": [container]}
    await client.create(kinds.PODS, {"metadata": {"name": "web", "namespace": "default"}, "spec": spec})
    async with managing(client):
        await report(client, "n1")
        # It asks for 10 cores and was not measured yet.
        await until_lent(client, "n1", 25900)
        await report(client, "n1", web="3")
        await until_lent(client, "n1", 32900)


def _zones(client: Client) -> Any:
    resources = [
        {"name": name, "capacity": amount, "allocatable": amount, "available": amount}
        for name, amount in (("cpu", "32"), ("memory", "128Gi"))
    ]
    zones = [{"name": f"node-{index}", "type": "Node", "resources": resources} for index in (0, 1)]
    return client.create(kinds.NODE_RESOURCE_TOPOLOGIES, {"metadata": {"name": "n1"}, "zones": zones})


async def test_zones_and_devices_are_published_too(client: Client) -> None:
    await fresh(client)
    await node_with_metric(client, "n1")
    async with managing(client):
        await report(client, "n1")
        await until_lent(client, "n1", 35900)
        await _zones(client)

        async def zoned() -> bool:
            zones = (await client.get(kinds.NODE_RESOURCE_TOPOLOGIES, "n1")).zones
            shown = [{resource.name: resource.available for resource in zone.resources} for zone in zones]
            # 32000 - 12800 - 1250
            return [each.get(CPU) for each in shown] == ["17950", "17950"] and all("cpu" in each for each in shown)

        await eventually(zoned)
        gpu = {"type": "gpu", "minor": 0, "health": True, "resources": {"koordinator.sh/gpu-core": "100"}}
        meta = {"name": "n1", "labels": {"node.koordinator.sh/gpu-model": "H200"}}
        await client.create(kinds.DEVICES, {"metadata": meta, "spec": {"devices": [gpu]}})

        async def has_gpu() -> bool:
            node = await client.get(kinds.NODES, "n1")
            shown = node.status.allocatable.get("koordinator.sh/gpu-core")
            return shown == "100" and node.metadata.labels.get("node.koordinator.sh/gpu-model") == "H200"

        await eventually(has_gpu)
        await client.delete(kinds.DEVICES, "n1")

        async def has_none() -> bool:
            return "koordinator.sh/gpu-core" not in (await client.get(kinds.NODES, "n1")).status.allocatable

        await eventually(has_none)


async def test_of_two_managers_one_leads_and_the_other_takes_over(embedded: Client) -> None:
    client = embedded
    await fresh(client)
    await node_with_metric(client, "n1")
    first_metrics, second_metrics = Metrics(process=False), Metrics(process=False)
    async with managing(client, options=ManagerOptions(elect=True), metrics=second_metrics):
        async with managing(client, options=ManagerOptions(elect=True), metrics=first_metrics):
            await report(client, "n1")
            await until_lent(client, "n1", 35900)
            leading = [_leads(metrics) for metrics in (first_metrics, second_metrics)]
            assert sorted(leading) == [0.0, 1.0]
        await eventually(lambda: _is(lambda: _leads(second_metrics) == 1.0))
        await report(client, "n1", system="20")
        await until_lent(client, "n1", 18400)


def _leads(metrics: Metrics) -> float:
    return metrics.registry.get_sample_value("koordinator_manager_is_leader") or 0.0


async def _is(holds: Any) -> bool:
    return bool(holds())


async def test_a_profile_keeps_its_root_quota_as_large_as_its_nodes(embedded: Client) -> None:
    client = embedded
    await fresh(client)
    await make_node(client, "n1", labels={"pool": "a"})
    spec = {"quotaName": "root-a", "nodeSelector": {"matchLabels": {"pool": "a"}}}
    await client.create(kinds.ELASTIC_QUOTA_PROFILES, {"metadata": {"name": "a", "namespace": "default"}, "spec": spec})
    async with managing(client, options=ManagerOptions(controllers=choose_controllers(["quotaprofile"]))):

        async def made() -> bool:
            try:
                quota = await client.get(kinds.ELASTIC_QUOTAS, "root-a", namespace="default")
            except NotFound:
                return False
            return quota.spec.min == {"cpu": "64", "memory": "256Gi"}

        await eventually(made)
        profile = await client.get(kinds.ELASTIC_QUOTA_PROFILES, "a", namespace="default")
        quota = await client.get(kinds.ELASTIC_QUOTAS, "root-a", namespace="default")
        key = "quota.scheduling.koordinator.sh/tree-id"
        assert profile.metadata.labels[key] == quota.metadata.labels[key]


async def test_pods_that_wait_get_what_a_managed_profile_says(embedded: Client) -> None:
    client = embedded
    await fresh(client)
    profile = {
        "metadata": {"name": "p", "labels": {"config.koordinator.sh/controller-managed": "true"}},
        "spec": {"selector": {"matchLabels": {"app": "job"}}, "labels": {"team": "x"}, "schedulerName": "other"},
    }
    await client.create(kinds.CLUSTER_COLOCATION_PROFILES, profile)
    container = {"name": "c", "image": "i"}
    for name in ("job", "web"):
        meta = {"name": name, "namespace": "default", "labels": {"app": name}}
        spec = {"schedulerName": "nobody", "containers": [container]}
        await client.create(kinds.PODS, {"metadata": meta, "spec": spec})
    async with managing(client, options=ManagerOptions(waiting_pods=True)):

        async def given() -> bool:
            job = await client.get(kinds.PODS, "job", namespace="default")
            return job.metadata.labels.get("team") == "x" and job.spec.scheduler_name == "nobody"

        await eventually(given)
        assert "team" not in (await client.get(kinds.PODS, "web", namespace="default")).metadata.labels


async def test_kinds_that_come_late_are_followed_when_they_are_there(embedded: Client) -> None:
    client = embedded
    await client.create(kinds.NAMESPACES, {"metadata": {"name": NAMESPACE_KOORDINATOR}})
    await configure(client, colocation={"enable": True})
    await make_node(client, "n1")
    needed = {kinds.NODE_METRICS.plural, kinds.NODE_SLOS.plural}
    late = [definition for definition in definitions() if definition["spec"]["names"]["plural"] not in needed]
    task = asyncio.create_task(run(client))
    for each in definitions():
        if each not in late:
            await client.create(kinds.CUSTOM_RESOURCE_DEFINITIONS, each)
    await until_there(client, kinds.NODE_METRICS, "n1")
    for each in late:
        await client.create(kinds.CUSTOM_RESOURCE_DEFINITIONS, each)
    gpu = {"type": "gpu", "health": True, "resources": {"koordinator.sh/gpu-core": "100"}}
    body = {"metadata": {"name": "n1"}, "spec": {"devices": [gpu]}}

    async def made() -> bool:
        try:
            await client.create(kinds.DEVICES, body)
        except NotFound:
            return False
        return True

    await eventually(made)

    async def has_gpu() -> bool:
        return "koordinator.sh/gpu-core" in (await client.get(kinds.NODES, "n1")).status.allocatable

    await eventually(has_gpu)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def test_a_running_node_is_explained_from_what_the_cluster_tells(embedded: Client, tmp_path: Path) -> None:
    client = embedded
    await fresh(client)
    await make_node(client, "n1", labels={"kubernetes.io/hostname": "n1"})
    await make_node(client, "n2")
    kubeconfig = str(tmp_path / "kubeconfig")

    async def told(name: str = "n1") -> tuple[Any, Any]:
        manifests, seen = await asyncio.to_thread(with_node, read([]), name, kubeconfig, None, time.time())
        explained, _ = explain_node(
            manifests,
            name,
            now_s=time.time(),
            written_s=seen.written_s,
            who=seen.manager,
            remarks=seen.remarks,
        )
        (cpu,) = [resource for resource in explained.resources if resource.resource == CPU]
        return explained, cpu

    async with managing(client, options=ManagerOptions(elect=True)):
        await until_there(client, kinds.NODE_METRICS, "n1")
        await report(client, "n1", age_s=120)
        await until_lent(client, "n1", 35900)
        explained, cpu = await told()
        assert cpu.matches
        assert explained.last_written is not None
        assert "2m behind" in explained.notes[-1]
        assert explained.report.distrusted == ""
    await report(client, "n1", system="20")
    _, cpu = await told()
    assert (cpu.published, cpu.recomputed) == (35900, 18400)
    assert "48.7%" in cpu.why_different
    assert "no manager leads" in cpu.why_different
    with pytest.raises(NoSuchNode, match="n2"):
        await told("n22")


def _batch_pod(name: str, cpu_milli: int) -> dict[str, Any]:
    amounts = {CPU: str(cpu_milli), "kubernetes.io/batch-memory": "1Gi"}
    container = {"name": "c", "image": "i", "resources": {"requests": amounts, "limits": amounts}}
    return {
        "metadata": {"name": name, "namespace": "default", "labels": {"koordinator.sh/qosClass": "BE"}},
        "spec": {"priorityClassName": "koord-batch", "containers": [container], "terminationGracePeriodSeconds": 0},
    }


async def test_batch_pods_run_on_what_is_lent_and_wait_with_a_reason_where_it_shrinks(embedded: Client) -> None:
    client = embedded
    await fresh(client)
    await node_with_metric(client, "n1")
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
    await client.patch(kinds.NODES, "n1", {"status": {"conditions": [ready]}}, type="strategic", subresource="status")
    async with managing(client), scheduling(client):
        await report(client, "n1")
        await until_lent(client, "n1", 35900)
        await client.create(kinds.PODS, _batch_pod("first", 20000))
        await until_bound(client, "first")
        # The services need the node: less is lent than batch pods hold already.
        await report(client, "n1", system="20")
        await until_lent(client, "n1", 18400)
        await client.create(kinds.PODS, _batch_pod("second", 10000))

        async def told() -> bool:
            pod = await client.get(kinds.PODS, "second", namespace="default")
            scheduled = pod.status.condition("PodScheduled")
            return scheduled is not None and "batch-cpu" in scheduled.message and not pod.spec.node_name

        await eventually(told)
        await report(client, "n1")
        await until_bound(client, "second")


def test_a_controller_that_does_not_exist_is_refused() -> None:
    assert choose_controllers(["*", "-nodeslo"]) == set(CONTROLLERS) - {"nodeslo"}
    with pytest.raises(ControllerError, match="noderesource"):
        choose_controllers(["noderesources"])
