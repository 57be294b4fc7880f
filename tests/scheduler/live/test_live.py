"""The scheduler on koord's own API server and on a real one: what users see of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from koord.api.configuration.scheduler_config import SHIPPED, parse
from koord.api.kinds import EVENTS, LEASES, NAMESPACES, NODES, PODS, PRIORITY_CLASSES
from koord.api.kubernetes.pod import Pod
from koord.kube import reload
from koord.kube.client import Client
from koord.kube.metrics import Metrics
from koord.scheduler.live.run import SchedulerOptions
from tests.control_plane import ControlPlane
from tests.scheduler.live.embedded import make_nodes, node_manifest, pod_manifest, scheduling, serving, until_bound
from tests.waiting import eventually


@pytest.fixture(scope="module", params=["embedded", pytest.param("real", marks=pytest.mark.cluster)])
def plane(request: pytest.FixtureRequest) -> Iterator[ControlPlane | None]:
    if request.param == "embedded":
        yield None
        return
    with ControlPlane("--disable-admission-plugins=TaintNodesByCondition") as real:
        yield real


@pytest.fixture
async def client(plane: ControlPlane | None, tmp_path: Path) -> AsyncIterator[Client]:
    """A client of a server without nodes or pods."""
    async with AsyncExitStack() as stack:
        if plane is None:
            yield await stack.enter_async_context(serving(tmp_path))
            return
        client = await stack.enter_async_context(Client.from_config(str(plane.kubeconfig)))
        try:
            yield client
        finally:
            await client.delete_collection(PODS, namespace="default", grace_s=0)
            await client.delete_collection(NODES)
            await client.delete_collection(EVENTS, namespace="default")


async def events_of(client: Client, name: str, reason: str) -> list[tuple[str, int]]:
    """The texts of a pod's events, and how often each was seen."""
    return [
        (event.note, event.series.count if event.series is not None else 1)
        for event in await client.list(EVENTS, namespace="default")
        if event.regarding.name == name and event.reason == reason
    ]


async def condition_of(client: Client, name: str) -> tuple[str, str, str]:
    pod_condition = (await client.get(PODS, name, namespace="default")).status.condition("PodScheduled")
    return (
        ("", "", "") if pod_condition is None else (pod_condition.status, pod_condition.reason, pod_condition.message)
    )


async def test_pods_are_bound_and_told_so(client: Client) -> None:
    await make_nodes(client, 3)
    async with scheduling(client):
        for number in range(6):
            await client.create(PODS, pod_manifest(f"p{number}", cpu="2"))
        found = await until_bound(client, *(f"p{number}" for number in range(6)))
        assert sorted(found.values()) == sorted([f"node-{index:03}" for index in range(3)] * 2)

        async def told() -> bool:
            wanted = [(f"Successfully assigned default/p0 to {found['p0']}", 1)]
            return await events_of(client, "p0", "Scheduled") == wanted

        await eventually(told)
        assert (await condition_of(client, "p0"))[0] == "True"


async def test_a_pod_that_fits_nowhere_has_one_series_of_events_and_a_condition_until_it_fits(client: Client) -> None:
    await make_nodes(client, 2)
    async with scheduling(client):
        await client.create(PODS, pod_manifest("giant", cpu="8"))

        async def told() -> bool:
            return (await condition_of(client, "giant"))[0] == "False"

        await eventually(told)
        status, reason, message = await condition_of(client, "giant")
        assert (status, reason) == ("False", "Unschedulable")
        assert message.startswith("0/2 nodes are available: 2 Insufficient cpu.")
        await eventually(lambda: _some(events_of(client, "giant", "FailedScheduling")))
        await client.create(NODES, node_manifest("big", cpu="16"))
        assert (await until_bound(client, "giant"))["giant"] == "big"
        assert (await condition_of(client, "giant"))[0] == "True", "an old word never comes after the new one"
        assert len(await events_of(client, "giant", "FailedScheduling")) == 1


async def _some(found: object) -> bool:
    return bool(await found)  # type: ignore[misc]


async def test_pods_wait_for_room_and_take_it_when_others_go(client: Client) -> None:
    await make_nodes(client, 1)
    async with scheduling(client):
        await client.create(PODS, pod_manifest("first", cpu="3"))
        await until_bound(client, "first")
        await client.create(PODS, pod_manifest("second", cpu="3"))
        await eventually(lambda: _is_unschedulable(client, "second"))
        await client.delete(PODS, "first", namespace="default", grace_s=0)
        await until_bound(client, "second")


async def _is_unschedulable(client: Client, name: str) -> bool:
    return (await condition_of(client, name))[1] == "Unschedulable"


async def test_gates_and_other_schedulers_are_respected(client: Client) -> None:
    await make_nodes(client, 1)
    async with scheduling(client, options=SchedulerOptions()):
        await client.create(
            PODS, pod_manifest("gated", schedulerName="koord-scheduler", schedulingGates=[{"name": "g"}])
        )
        await client.create(PODS, pod_manifest("others"))
        await client.create(PODS, pod_manifest("ours", schedulerName="koord-scheduler"))
        await until_bound(client, "ours")
        pods = {pod.metadata.name: pod.spec.node_name for pod in await client.list(PODS, namespace="default")}
        assert (pods["gated"], pods["others"]) == ("", "")
        await client.patch(PODS, "gated", {"spec": {"schedulingGates": None}}, namespace="default")
        await until_bound(client, "gated")


async def test_several_profiles_decide_each_in_its_own_way(client: Client) -> None:
    strategies = {"packs": "MostAllocated", "spreads": "LeastAllocated"}
    off = [{"name": "NodeResourcesBalancedAllocation"}, {"name": "ImageLocality"}]
    config = parse(
        {
            "profiles": [
                {
                    "schedulerName": name,
                    "pluginConfig": [{"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": strategy}}}],
                    "plugins": {"multiPoint": {"disabled": off}},
                }
                for name, strategy in strategies.items()
            ]
        }
    )
    await make_nodes(client, 2, cpu="8")
    async with scheduling(client, config):
        await client.create(PODS, pod_manifest("seed", cpu="2", schedulerName="packs"))
        taken = (await until_bound(client, "seed"))["seed"]
        await client.create(PODS, pod_manifest("near", cpu="1", schedulerName="packs"))
        assert (await until_bound(client, "near"))["near"] == taken
        await client.create(PODS, pod_manifest("far", cpu="1", schedulerName="spreads"))
        assert (await until_bound(client, "far"))["far"] != taken


async def test_what_it_finds_at_its_start_counts(client: Client) -> None:
    await make_nodes(client, 2)
    async with scheduling(client):
        for number in range(4):
            await client.create(PODS, pod_manifest(f"p{number}", cpu="2"))
        await until_bound(client, *(f"p{number}" for number in range(4)))
    await client.create(PODS, pod_manifest("late", cpu="1"))
    async with scheduling(client):
        await eventually(lambda: _is_unschedulable(client, "late"))
        await client.delete(PODS, "p0", namespace="default", grace_s=0)
        await until_bound(client, "late")


async def test_metrics_have_the_names_that_dashboards_know(client: Client) -> None:
    metrics = Metrics(process=False)
    await make_nodes(client, 1)
    async with scheduling(client, metrics=metrics):
        await client.create(PODS, pod_manifest("fits"))
        await client.create(PODS, pod_manifest("giant", cpu="100"))
        await until_bound(client, "fits")
        wanted = {
            'scheduler_schedule_attempts_total{profile="koord-scheduler",result="scheduled"} 1.0',
            'scheduler_schedule_attempts_total{profile="koord-scheduler",result="unschedulable"} 1.0',
            'scheduler_pod_scheduling_sli_duration_seconds_count{attempts="1"} 1.0',
            "scheduler_pod_scheduling_attempts_count 1.0",
            'scheduler_queue_incoming_pods_total{event="UnschedulablePodAdd",queue="active"} 2.0',
            'scheduler_pending_pods{queue="unschedulable"} 1.0',
            'scheduler_unschedulable_pods{plugin="NodeResourcesFit",profile="koord-scheduler"} 1.0',
            'scheduler_cache_size{type="nodes"} 1.0',
        }

        async def measured() -> bool:
            return wanted <= set(metrics.render().decode().splitlines())

        await eventually(measured)


async def test_a_new_configuration_takes_effect_and_a_faulty_one_does_not(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reload, "LOOK_EVERY_S", 0.05)
    said = {"config": parse({"profiles": [{"schedulerName": "first"}]})}
    faulty = {"yes": False}

    faulty_reads = 0

    def read():  # type: ignore[no-untyped-def]
        nonlocal faulty_reads
        if faulty["yes"]:
            faulty_reads += 1
            return parse({"profiles": [{"schedulerName": "a"}, {"schedulerName": "a"}]})
        return said["config"]

    await make_nodes(client, 1)
    async with scheduling(client, said["config"], options=SchedulerOptions(reload=read)):
        await client.create(PODS, pod_manifest("one", schedulerName="first"))
        await client.create(PODS, pod_manifest("two", schedulerName="second"))
        assert set(await until_bound(client, "one")) == {"one"}
        faulty["yes"] = True
        await eventually(lambda: faulty_reads >= 2)
        await client.create(PODS, pod_manifest("three", schedulerName="first"))
        await until_bound(client, "three")
        faulty["yes"], said["config"] = False, parse({"profiles": [{"schedulerName": "second"}]})
        await until_bound(client, "two")
        await client.create(PODS, pod_manifest("four", cpu="4", schedulerName="second"))
        await eventually(lambda: _is_unschedulable(client, "four"))


@asynccontextmanager
async def candidate(client: Client) -> AsyncIterator[None]:
    from msgspec.structs import replace

    quick = replace(
        SHIPPED.leader_election,
        lease_duration="2s",
        renew_deadline="1s",
        retry_period="200ms",
        resource_namespace="default",
    )
    async with scheduling(
        client, replace(SHIPPED, leader_election=quick), options=SchedulerOptions(elect=True, alone=True)
    ):
        yield


async def test_only_the_leader_schedules_and_the_next_one_goes_on_at_once(client: Client) -> None:
    await make_nodes(client, 1)
    async with AsyncExitStack() as second:
        async with candidate(client):
            await client.create(PODS, pod_manifest("one"))
            await until_bound(client, "one")
            held = (await client.get(LEASES, "koord-scheduler", namespace="default")).spec.holder_identity
            await second.enter_async_context(candidate(client))
            assert (await client.get(LEASES, "koord-scheduler", namespace="default")).spec.holder_identity == held
        await client.create(PODS, pod_manifest("two"))
        await until_bound(client, "two")
        assert (await client.get(LEASES, "koord-scheduler", namespace="default")).spec.holder_identity != held


async def test_less_important_pods_make_room_and_are_told_why(client: Client) -> None:
    await make_nodes(client, 2)
    for name, value in (("low", 10), ("high", 1000)):
        await client.create(PRIORITY_CLASSES, {"metadata": {"name": name}, "value": value})
    try:
        async with scheduling(client):
            for number in range(4):
                await client.create(PODS, pod_manifest(f"low-{number}", cpu="2", priorityClassName="low"))
            await until_bound(client, *(f"low-{number}" for number in range(4)))
            await client.create(PODS, pod_manifest("high", cpu="3", priorityClassName="high"))
            where = (await until_bound(client, "high"))["high"]
            left = [pod for pod in await client.list(PODS, namespace="default") if pod.metadata.name != "high"]
            assert [pod.spec.node_name for pod in left] == [next(n for n in ("node-000", "node-001") if n != where)] * 2
            await eventually(lambda: _some(preempted(client)))
            uid = (await client.get(PODS, "high", namespace="default")).metadata.uid
            assert await preempted(client) == {f"Preempted by pod {uid} on node {where}"}
    finally:
        for name in ("low", "high"):
            await client.delete(PRIORITY_CLASSES, name)


async def preempted(client: Client) -> set[str]:
    events = await client.list(EVENTS, namespace="default")
    return {event.note for event in events if event.reason == "Preempted"}


async def test_pods_of_all_namespaces_are_seen(client: Client) -> None:
    await make_nodes(client, 1)
    await client.create(NAMESPACES, {"metadata": {"name": "bank"}})
    async with scheduling(client):
        await client.create(PODS, pod_manifest("one", namespace="bank"))

        async def bound() -> bool:
            pod: Pod = await client.get(PODS, "one", namespace="bank")
            return bool(pod.spec.node_name)

        await eventually(bound)
        await client.delete(PODS, "one", namespace="bank", grace_s=0)
