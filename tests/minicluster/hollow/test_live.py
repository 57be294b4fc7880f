"""Hollow nodes on koord's own API server and on a real one: registration, leases, pods, logs, reports."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeAlias

import pytest

from koord.api.configuration.scheduler_config import SHIPPED
from koord.api.kinds import CUSTOM_RESOURCE_DEFINITIONS, LEASES, NODE_METRICS, NODES, PODS
from koord.api.kubernetes.heartbeat import is_ready
from koord.api.kubernetes.pod import Pod
from koord.kube.client import Client
from koord.kube.errors import AlreadyExists, NotFound
from koord.scheduler.live.run import SchedulerOptions
from koord.scheduler.live.run import run as run_scheduler
from koord_minicluster.hollow.live import reports
from koord_minicluster.hollow.live.fleet import FleetOptions, run_fleet
from koord_minicluster.hollow.machine import ANNOTATION_DOWN
from koord_minicluster.hollow.phases import ANNOTATION_DURATION, ANNOTATION_EXIT_CODE, Pace
from koord_minicluster.kubelet import beats
from tests.control_plane import ControlPlane, find_binary
from tests.minicluster.hollow.embedded import Embedded, embedded
from tests.waiting import WITHIN_S, eventually

NODES_COUNT = 10
QUICK = Pace(start_s=0.2, init_s=0.2, stop_s=0.2)
Plane: TypeAlias = ControlPlane | Embedded


@pytest.fixture(scope="module", params=["embedded", pytest.param("real", marks=pytest.mark.cluster)])
def plane(request: pytest.FixtureRequest) -> Iterator[Plane]:
    """The real one without the plugin that taints new nodes: no controller is here to take the taint away."""
    if request.param == "embedded":
        with embedded("--disable-admission-plugins=TaintNodesByCondition") as server:
            yield server
    else:
        with ControlPlane("--disable-admission-plugins=TaintNodesByCondition") as real:
            yield real


@asynccontextmanager
async def fleet(plane: Plane, **more: Any) -> AsyncIterator[Client]:
    """A client beside a running fleet, and a scheduler for its pods."""
    options = FleetOptions(**{"nodes": NODES_COUNT, "pace": QUICK, **more})
    ready, schedules = asyncio.Event(), asyncio.Event()
    async with Client.from_config(str(plane.kubeconfig)) as client, asyncio.TaskGroup() as tasks:
        running = tasks.create_task(run_fleet(client, options, on_ready=lambda endpoints: ready.set()))
        alone = SchedulerOptions(alone=True)
        scheduling = tasks.create_task(run_scheduler(client, SHIPPED, options=alone, on_ready=schedules.set))
        for event in (ready, schedules):
            await asyncio.wait_for(event.wait(), 60)
        try:
            yield client
        finally:
            running.cancel()
            scheduling.cancel()


def manifest(name: str, **spec: Any) -> dict[str, Any]:
    annotations = spec.pop("annotations", {})
    container = {"name": "app", "image": "app:1", "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}
    return {
        "metadata": {"name": name, "namespace": "default", "annotations": annotations},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 2, **spec},
    }


async def phase(client: Client, name: str) -> str:
    return str((await client.get(PODS, name, namespace="default")).status.phase)


async def until_phase(client: Client, name: str, wanted: str) -> Pod:
    await eventually(lambda: _is(phase(client, name), wanted))
    return await client.get(PODS, name, namespace="default")


async def _is(found: Any, wanted: object) -> bool:
    return bool(await found == wanted)


async def test_nodes_register_ready_and_renew_their_leases(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beats, "LEASE_S", 1.0)
    async with fleet(plane) as client:
        nodes = await client.list(NODES)
        assert len(nodes) == NODES_COUNT
        assert all(is_ready(node) for node in nodes)
        before = {lease.metadata.name: lease.spec.renew_time for lease in await client.list(LEASES)}

        async def renewed() -> bool:
            now = {lease.metadata.name: lease.spec.renew_time for lease in await client.list(LEASES)}
            return all(now[node.metadata.name] != before[node.metadata.name] for node in nodes)

        await eventually(renewed)


async def test_pods_are_bound_run_and_go(plane: Plane) -> None:
    async with fleet(plane) as client:
        for number in range(20):
            await client.create(PODS, manifest(f"web-{number}"))
        pods = [await until_phase(client, f"web-{number}", "Running") for number in range(20)]
        assert len({pod.status.pod_ip for pod in pods}) == 20
        assert len({pod.spec.node_name for pod in pods}) > 1
        assert all(pod.status.condition("Ready").status == "True" for pod in pods)  # type: ignore[union-attr]
        for number in range(20):
            await client.delete(PODS, f"web-{number}", namespace="default")

        async def gone() -> bool:
            return not [pod for pod in await client.list(PODS) if pod.metadata.name.startswith("web-")]

        await eventually(gone)


async def test_pods_that_name_a_full_node_fail_and_stop_counting(plane: Plane) -> None:
    async with fleet(plane, nodes=1, pods=3, cpu_milli=4000) as client:
        node = (await client.list(NODES))[0].metadata.name
        huge = {"name": "app", "image": "app:1", "resources": {"requests": {"cpu": "1000"}}}
        await client.create(PODS, manifest("huge", nodeName=node, containers=[huge]))
        failed = await until_phase(client, "huge", "Failed")
        assert failed.status.reason == "OutOfcpu"
        short = "Node didn't have enough resource: cpu, requested: 1000000, used: 0, capacity: 4000"
        assert failed.status.message == f"Pod was rejected: {short}"
        for number in range(5):
            await client.create(PODS, manifest(f"many-{number}", nodeName=node))

        async def decided() -> bool:
            pods = [pod for pod in await client.list(PODS) if pod.metadata.name.startswith("many-")]
            reasons = [pod.status.reason for pod in pods if pod.status.phase == "Failed"]
            running = [pod for pod in pods if pod.status.phase == "Running"]
            return len(running) == 3 and reasons == ["OutOfpods", "OutOfpods"]

        await eventually(decided)
        for pod in await client.list(PODS, namespace="default"):
            await client.delete(PODS, pod.metadata.name, namespace="default", grace_s=0)


async def test_a_job_pod_completes_after_its_duration_and_a_failing_one_is_restarted(plane: Plane) -> None:
    async with fleet(plane) as client:
        once = manifest("once", restartPolicy="Never", annotations={ANNOTATION_DURATION: "1s"})
        failing = {ANNOTATION_DURATION: "1s", ANNOTATION_EXIT_CODE: "2"}
        again = manifest("again", annotations=failing, restartPolicy="OnFailure")
        await client.create(PODS, once)
        await client.create(PODS, again)
        done = await until_phase(client, "once", "Succeeded")
        ended = done.status.container_statuses[0].state.terminated
        assert ended is not None
        assert (ended.exit_code, ended.reason) == (0, "Completed")

        async def restarted() -> bool:
            statuses = (await client.get(PODS, "again", namespace="default")).status.container_statuses
            return bool(statuses) and statuses[0].restart_count >= 1

        await eventually(restarted)
        for name in ("once", "again"):
            await client.delete(PODS, name, namespace="default", grace_s=0)


async def test_a_pod_that_fits_nowhere_says_why_until_there_is_room(plane: Plane) -> None:
    async with fleet(plane, nodes=1, prefix="small", cpu_milli=1000) as client:
        small = {"nodeSelector": {"hollow.koord.sh/fleet": "small"}}
        request = {"name": "app", "image": "x", "resources": {"requests": {"cpu": "800m"}}}
        await client.create(PODS, manifest("first", containers=[request], **small))
        await until_phase(client, "first", "Running")
        await client.create(PODS, manifest("second", containers=[request], **small))

        async def told() -> bool:
            condition = (await client.get(PODS, "second", namespace="default")).status.condition("PodScheduled")
            return condition is not None and "Insufficient cpu" in condition.message

        await eventually(told)
        await client.delete(PODS, "first", namespace="default")
        await until_phase(client, "second", "Running")
        await client.delete(PODS, "second", namespace="default", grace_s=0)


async def test_a_smaller_fleet_takes_the_surplus_away(plane: Plane) -> None:
    async with fleet(plane, nodes=4, prefix="shrink"):
        pass
    async with fleet(plane, nodes=2, prefix="shrink") as client:
        names = {node.metadata.name for node in await client.list(NODES, labels="hollow.koord.sh/fleet=shrink")}
        assert names == {"shrink-0001", "shrink-0002"}


async def test_a_node_that_is_switched_off_falls_silent(plane: Plane) -> None:
    async with fleet(plane, nodes=2, prefix="dark") as client:
        await client.patch(NODES, "dark-0001", {"metadata": {"annotations": {ANNOTATION_DOWN: "true"}}})
        # Pods that were created later on another node run, and tell that its own would run by then.
        for number in range(2):
            await client.create(PODS, manifest(f"awake-{number}", nodeName="dark-0002"))
            await until_phase(client, f"awake-{number}", "Running")
            if not number:
                await client.create(PODS, manifest("asleep", nodeName="dark-0001"))
        assert await phase(client, "asleep") == "Pending"
        await client.patch(NODES, "dark-0001", {"metadata": {"annotations": {ANNOTATION_DOWN: None}}})
        await until_phase(client, "asleep", "Running")
        for name in ("asleep", "awake-0", "awake-1"):
            await client.delete(PODS, name, namespace="default", grace_s=0)


async def test_usage_is_reported_once_the_cluster_has_the_kind(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports, "FIRST_WITHIN_S", 1.0)
    from koord.api.protocol.crd.definitions import find
    from koord.api.protocol.crd.definitions import manifest as definition_of

    definition = find("NodeMetric")
    assert definition is not None
    async with fleet(plane, nodes=2, prefix="told") as client:
        with suppress(AlreadyExists):
            await client.create(CUSTOM_RESOURCE_DEFINITIONS, definition_of(definition))

        async def reported() -> bool:
            try:
                metric = await client.get(NODE_METRICS, "told-0001")
            except NotFound:
                return False
            return metric.status.node_metric is not None

        await eventually(reported)
        metric = await client.get(NODE_METRICS, "told-0001")
        assert metric.status.update_time
        assert metric.status.node_metric is not None
        assert metric.status.node_metric.node_usage.resources["cpu"] != "0"


@pytest.mark.kubectl
async def test_kubectl_reads_and_follows_logs(plane: Plane) -> None:
    async with fleet(plane, nodes=1, prefix="talks") as client:
        await client.create(PODS, manifest("talker", nodeName="talks-0001"))
        await until_phase(client, "talker", "Running")

        async def says() -> bool:
            read = await asyncio.to_thread(plane.kubectl, "logs", "talker", "--timestamps")
            return "nothing really runs here" in read.stdout

        await eventually(says)
        tail = await asyncio.to_thread(plane.kubectl, "logs", "talker", "--tail=1")
        assert len(tail.stdout.splitlines()) == 1
        following = await asyncio.create_subprocess_exec(
            *(str(find_binary("kubectl")), "--kubeconfig", str(plane.kubeconfig), "logs", "-f", "talker"),
            stdout=asyncio.subprocess.PIPE,
        )
        assert following.stdout is not None
        async with asyncio.timeout(WITHIN_S):
            for _ in range(2):
                assert await following.stdout.readline()
            await client.delete(PODS, "talker", namespace="default", grace_s=0)
            await following.communicate()
        assert following.returncode == 0
