"""Gangs on an API server: placed at once, whatever happens in between."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from koord.api.configuration.component_config import PluginConfig
from koord.api.configuration.scheduler_args import CoschedulingArgs
from koord.api.configuration.scheduler_config import SHIPPED
from koord.api.kinds import EVENTS, NODES, POD_GROUPS, PODS, PRIORITY_CLASSES
from koord.api.kubernetes.pod import Pod
from koord.kube.client import Client
from koord.kube.errors import Conflict, Status
from koord.kube.informers import Informers
from koord.kube.store import Delta
from koord.scheduler.live.telling import Telling
from koord_minicluster.up.bootstrap import bootstrap
from tests.scheduler.gangs import PREFIX
from tests.scheduler.live.embedded import (
    deletions_received,
    make_nodes,
    node_manifest,
    pod_manifest,
    scheduling,
    serving,
    until_bound,
)
from tests.waiting import eventually


def member(name: str, least: int, *, gang: str = "train", cpu: str = "1", **settings: str) -> dict[str, Any]:
    manifest = pod_manifest(name, cpu=cpu)
    said = {f"{PREFIX}{key.replace('_', '-')}": value for key, value in settings.items()}
    manifest["metadata"]["annotations"] = {f"{PREFIX}name": gang, f"{PREFIX}min-available": str(least), **said}
    return manifest


@asynccontextmanager
async def cluster(folder: Path, nodes: int, **more: Any) -> AsyncIterator[Client]:
    async with serving(folder) as client:
        await bootstrap(client)
        await make_nodes(client, nodes, **more)
        yield client


async def condition(client: Client, name: str) -> tuple[str, str]:
    pod = await client.get(PODS, name, namespace="default")
    pod_condition = pod.status.condition("PodScheduled")
    return ("", "") if pod_condition is None else (pod_condition.reason, pod_condition.message)


async def bound(client: Client) -> dict[str, str]:
    pods = await client.list(PODS, namespace="default")
    return {pod.metadata.name: pod.spec.node_name for pod in pods if pod.spec.node_name}


async def test_a_gang_says_what_it_waits_for_and_goes_at_once_when_it_is_whole(tmp_path: Path) -> None:
    async with cluster(tmp_path, 2) as client, scheduling(client):
        for name in ("a", "b"):
            await client.create(PODS, member(name, 3))

        async def says() -> bool:
            return await condition(client, "a") == (
                "SchedulingGated",
                "waiting: gang default/train has 2 of the 3 pods that it needs at least",
            )

        await eventually(says)
        assert await bound(client) == {}
        await client.create(PODS, member("c", 3))
        await until_bound(client, "a", "b", "c")
        pod = await client.get(PODS, "a", namespace="default")
        assert pod.metadata.annotations["internal.scheduling.koordinator.sh/bind-gang-member-count"] == "3"


async def test_a_gang_that_does_not_fit_holds_nothing_until_there_is_room_for_all(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, cpu="2") as client, scheduling(client):
        for name in ("a", "b", "c"):
            await client.create(PODS, member(name, 3))

        async def says() -> bool:
            reason, message = await condition(client, "b")
            return reason == "Unschedulable" and "needs 3 pods at once, 2 fit; short of 1 x (cpu 1, " in message

        await eventually(says)
        assert await bound(client) == {}
        await client.create(NODES, node_manifest("more", cpu="1"))
        await until_bound(client, "a", "b", "c")


async def test_a_scheduler_that_starts_in_the_middle_of_a_gang_goes_on(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, cpu="3") as client:
        for name in ("a", "b", "c"):
            await client.create(PODS, member(name, 3))
        # Another scheduler was ended between two bindings.
        await client.bind("default", "a", "node-000")
        async with scheduling(client):
            assert set(await until_bound(client, "a", "b", "c")) == {"a", "b", "c"}


async def test_a_scheduler_that_is_killed_in_the_middle_of_a_gang_leaves_it_to_the_next(tmp_path: Path) -> None:
    number = 150
    async with cluster(tmp_path, 3, cpu="50") as client:
        command = [sys.executable, "-m", "koord", "scheduler", "--alone", "--kubeconfig", str(tmp_path / "kubeconfig")]
        with (tmp_path / "log").open("wb") as log:
            process = await asyncio.create_subprocess_exec(*command, stdout=log, stderr=log)

        def look(change: Delta[Pod]) -> None:
            if change.new is not None and change.new.spec.node_name and process.returncode is None:
                with suppress(ProcessLookupError):
                    process.kill()

        try:
            async with Informers(client) as informers:
                informers.get(PODS).add_handler(look)
                await informers.synced()
                for i in range(number):
                    await client.create(PODS, member(f"p{i}", number))
                async with asyncio.timeout(60):
                    await process.wait()
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        # On a busy machine the news of the first may come when all are bound.
        assert await bound(client)
        async with scheduling(client):
            found = await until_bound(client, *(f"p{i}" for i in range(number)), within_s=60.0)
        assert Counter(found.values()) == {"node-000": 50, "node-001": 50, "node-002": 50}


async def test_a_member_that_is_deleted_while_others_wait_is_waited_for(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, cpu="2") as client, scheduling(client):
        for name in ("a", "b", "c"):
            await client.create(PODS, member(name, 3))
        await eventually(lambda: says_unschedulable(client, "a"))
        await client.delete(PODS, "b", namespace="default")
        # News of a pod comes after the news of this deletion, and that of a node may come before both.
        await client.create(PODS, member("later", 2, gang="other"))

        async def is_heard_of() -> bool:
            return "has 1 of the 2 pods" in (await condition(client, "later"))[1]

        await eventually(is_heard_of)
        await client.create(NODES, node_manifest("more", cpu="1"))

        async def waits() -> bool:
            return "has 2 of the 3 pods" in (await condition(client, "a"))[1]

        await eventually(waits)
        assert await bound(client) == {}
        await client.create(PODS, member("b", 3))
        await until_bound(client, "a", "b", "c")


async def says_unschedulable(client: Client, name: str) -> bool:
    return (await condition(client, name))[0] == "Unschedulable"


def failing(monkeypatch: pytest.MonkeyPatch, pods: set[str], times: int) -> list[str]:
    """Has the binding of some pods fail for a while; which bindings were asked for."""
    asked: list[str] = []
    real = Client.bind

    async def bind(self: Client, namespace: str, pod: str, node: str, **more: Any) -> None:
        asked.append(pod)
        if pod in pods and asked.count(pod) <= times:
            raise Conflict(Status(code=409, message="a pod is in the way"))
        await real(self, namespace, pod, node, **more)

    monkeypatch.setattr(Client, "bind", bind)
    return asked


async def test_once_one_is_bound_a_member_whose_binding_fails_keeps_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = failing(monkeypatch, {"b"}, 2)
    async with cluster(tmp_path, 1, cpu="3") as client, scheduling(client):
        for name in ("a", "b", "c"):
            await client.create(PODS, member(name, 3))

        async def half() -> bool:
            return set(await bound(client)) == {"a", "c"} and "b" in asked

        await eventually(half)
        # It would fit in the place that is kept, and nowhere else.
        await client.create(PODS, pod_manifest("thief"))
        await until_bound(client, "a", "b", "c")
        assert "thief" not in await bound(client)


async def test_where_no_member_can_be_bound_the_whole_gang_is_placed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = failing(monkeypatch, {"a", "b"}, 1)
    async with cluster(tmp_path, 1, cpu="2") as client, scheduling(client):
        for name in ("a", "b"):
            await client.create(PODS, member(name, 2))
        await until_bound(client, "a", "b")
        assert sorted(asked) == ["a", "a", "b", "b"]


async def test_a_node_that_is_lost_between_placing_and_binding_costs_only_its_own_members(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, deleted = Telling.settled, deletions_received(monkeypatch)
    gone = False

    async with cluster(tmp_path, 2, cpu="1") as client:

        async def slow(self: Telling, uid: str) -> None:
            nonlocal gone
            if not gone:
                gone = True
                await client.delete(NODES, "node-001")
            await eventually(lambda: "node-001" in deleted)
            await real(self, uid)

        monkeypatch.setattr(Telling, "settled", slow)
        async with scheduling(client):
            for name in ("a", "b"):
                await client.create(PODS, member(name, 2))

            async def half() -> bool:
                return list((await bound(client)).values()) == ["node-000"]

            await eventually(half)
            await client.create(NODES, node_manifest("other", cpu="1"))
            assert set((await until_bound(client, "a", "b")).values()) == {"node-000", "other"}


async def test_less_important_pods_make_room_for_a_whole_gang(tmp_path: Path) -> None:
    args = PluginConfig("Coscheduling", CoschedulingArgs(enable_preemption=True))
    config = replace(SHIPPED, profiles=(replace(SHIPPED.profiles[0], plugin_config=(args,)),))
    async with cluster(tmp_path, 2, cpu="2") as client:
        await client.create(PRIORITY_CLASSES, {"metadata": {"name": "urgent"}, "value": 1000})
        async with scheduling(client, config):
            low = [f"low{i}" for i in range(4)]
            for name in low:
                await client.create(PODS, pod_manifest(name))
            await until_bound(client, *low)
            for name in ("a", "b", "c"):
                manifest = member(name, 3)
                manifest["spec"]["priorityClassName"] = "urgent"
                await client.create(PODS, manifest)
            await until_bound(client, "a", "b", "c")
            assert len(set(await bound(client)) & set(low)) == 1, "no pod went that need not have"


async def test_a_pod_group_says_how_its_gang_fares(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1, cpu="1") as client, scheduling(client):
        group = {"metadata": {"name": "train", "namespace": "default"}, "spec": {"minMember": 2}}
        await client.create(POD_GROUPS, group)
        for name in ("a", "b"):
            manifest = pod_manifest(name, labels={"pod-group.scheduling.sigs.k8s.io": "train"})
            await client.create(PODS, manifest)

        async def says(phase: str, scheduled: int) -> bool:
            status = (await client.get(POD_GROUPS, "train", namespace="default")).status
            return (status.phase, status.scheduled) == (phase, scheduled)

        await eventually(lambda: says("Scheduling", 0))

        async def told() -> bool:
            events = await client.list(EVENTS, namespace="default")
            notes = [event.note for event in events if event.regarding.kind == "PodGroup"]
            return any(note.startswith("gang default/train needs 2 pods at once, 1 fit") for note in notes)

        await eventually(told)
        await client.create(NODES, node_manifest("more", cpu="1"))
        await until_bound(client, "a", "b")
        await eventually(lambda: says("Scheduled", 2))
        await client.patch(PODS, "a", {"status": {"phase": "Running"}}, namespace="default", subresource="status")
        await eventually(lambda: says("Scheduled", 2))
        await client.patch(PODS, "b", {"status": {"phase": "Running"}}, namespace="default", subresource="status")
        await eventually(lambda: says("Running", 2))
