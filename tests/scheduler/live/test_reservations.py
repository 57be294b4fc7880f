"""A reservation on an API server: placed, used and ended, by one scheduler after the other."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from koord.api.kinds import EVENTS, PODS, RESERVATIONS, Kind
from koord.api.protocol.crd.reservation import ReservationStatus
from koord.kube.client import Client
from koord_minicluster.up.bootstrap import bootstrap
from tests.scheduler.live.embedded import make_nodes, pod_manifest, scheduling, serving, until_bound
from tests.scheduler.live.test_killed_scheduler import asking, cpus_of, gpus_of, make_machine
from tests.scheduler.plugins.devices.machines import K
from tests.waiting import eventually


def reserving(name: str, cpu: str, **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    template = {"spec": {"schedulerName": "koord-scheduler", "containers": [container]}}
    owners = [{"labelSelector": {"matchLabels": {"app": "web"}}}]
    return {"metadata": {"name": name}, "spec": {"owners": owners, "template": template, **spec}}


def owner(name: str, cpu: str) -> dict[str, Any]:
    manifest = pod_manifest(name, cpu=cpu)
    manifest["metadata"]["labels"] = {"app": "web"}
    return manifest


async def status(client: Client, name: str) -> ReservationStatus:
    return (await client.get(RESERVATIONS, name)).status


async def test_a_reservation_lives_on_when_its_scheduler_is_killed_in_between(tmp_path: Path) -> None:
    async with serving(tmp_path) as client:
        await bootstrap(client)
        await make_nodes(client, 1, cpu="4")

        async def says(name: str, phase: str) -> bool:
            return (await status(client, name)).phase == phase

        async def is_told(name: str, reason: str) -> bool:
            events = [event for event in await client.list(EVENTS) if event.regarding.name == name]
            return any(event.reason == reason for event in events)

        async with scheduling(client):
            await client.create(RESERVATIONS, reserving("shared", "3", allocateOnce=False))
            await eventually(lambda: says("shared", "Available"))
            await client.create(RESERVATIONS, reserving("giant", "30"))
            await eventually(lambda: is_told("giant", "FailedScheduling"))
            await eventually(lambda: is_told("shared", "Scheduled"))
            reservation_status = await status(client, "giant")
            assert (reservation_status.phase, reservation_status.conditions[0].reason) == ("Pending", "Unschedulable")
        # No scheduler runs, and pods come in the meantime: one that may use the room, and one that may not.
        await client.create(PODS, pod_manifest("other", cpu="2"))
        await client.create(PODS, owner("web-0", "2"))
        async with scheduling(client):
            await until_bound(client, "web-0")

            async def counts() -> bool:
                reservation_status = await status(client, "shared")
                return dict(reservation_status.allocated) == {"cpu": "2"} and [
                    owner.name for owner in reservation_status.current_owners
                ] == ["web-0"]

            await eventually(counts)
            await eventually(lambda: is_told("other", "FailedScheduling"))
            pod = await client.get(PODS, "web-0", namespace="default")
            assert '"name":"shared"' in pod.metadata.annotations["scheduling.koordinator.sh/reservation-allocated"]
        # It ends while no scheduler runs: the next one finds out, and gives the rest of it to pods that wait.
        await client.patch(RESERVATIONS, "shared", {"spec": {"expires": "2020-01-01T00:00:00Z"}})
        async with scheduling(client):
            await eventually(lambda: says("shared", "Failed"))
            await until_bound(client, "other")


class Killed:
    """Has bindings go nowhere after N: a scheduler that asks for one more waits until it is killed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left, self.stuck = 0, asyncio.Event()
        real = Client.bind

        async def bind(client: Client, namespace: str, pod: str, node: str, **more: Any) -> None:
            if self.left <= 0:
                self.stuck.set()
                await asyncio.Event().wait()
            self.left -= 1
            await real(client, namespace, pod, node, **more)

        monkeypatch.setattr(Client, "bind", bind)

    async def after(self, bindings: int, client: Client) -> None:
        """A scheduler that is killed in the middle of the next binding."""
        self.left = bindings
        self.stuck.clear()
        async with scheduling(client):
            await asyncio.wait_for(self.stuck.wait(), 60)


async def test_one_owner_gets_in_and_nothing_is_given_twice_whoever_is_killed_in_between(
    anywhere: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = anywhere
    await bootstrap(client)
    await make_nodes(client, 1, cpu="6")
    killed = Killed(monkeypatch)
    named = {"scheduling.koordinator.sh/reservation-affinity": '{"name": "once"}'}
    await client.create(RESERVATIONS, reserving("once", "3"))
    async with scheduling(client):
        await eventually(lambda: says(client, "once", "Available"))
    for name in ("web-0", "web-1"):
        manifest = owner(name, "3")
        manifest["metadata"]["annotations"] = named
        await client.create(PODS, manifest)
    # Killed when the owner says where it goes, and is not there yet; then when it is there, and no scheduler knows.
    await killed.after(0, client)
    assert await inside(client) == {}
    assert (await status(client, "once")).phase == "Available"
    killed.left = 1
    await client.create(RESERVATIONS, reserving("shared", "2", allocateOnce=False, allocatePolicy="Aligned"))
    async with scheduling(client):
        await eventually(lambda: says(client, "once", "Succeeded"))
        await eventually(lambda: says(client, "shared", "Available"))
    first = await inside(client)
    assert list(first.values()) == ["once"]
    reservation_status = await status(client, "once")
    assert [owner.name for owner in reservation_status.current_owners] == list(first)
    assert dict(reservation_status.allocated) == {"cpu": "3"}
    # 3 of 6 CPUs are used, and 2 are held: others get 1.
    await client.create(PODS, pod_manifest("other", cpu="1500m"))
    await client.create(PODS, owner("web-2", "1"))
    killed.left = 1
    async with scheduling(client):
        await until_bound(client, "web-2")

        async def counts() -> bool:
            now = await status(client, "shared")
            return dict(now.allocated) == {"cpu": "1"} and [owner.name for owner in now.current_owners] == ["web-2"]

        await eventually(counts)
    assert await inside(client) == {**first, "web-2": "shared"}
    # It is deleted while its owner runs: that stays, and what no pod used is for others.
    await client.delete(RESERVATIONS, "shared")
    killed.left = 9
    async with scheduling(client):
        await until_bound(client, "other")
    pods = await client.list(PODS, namespace="default")
    waiting = {"web-0", "web-1"} - set(first)
    assert {pod.metadata.name for pod in pods if not pod.spec.node_name} == waiting
    assert (await status(client, "once")).phase == "Succeeded"


async def says(client: Client, name: str, phase: str) -> bool:
    return (await status(client, name)).phase == phase


async def inside(client: Client) -> dict[str, str]:
    """Pods on nodes that came out of a reservation, and which."""
    key = "scheduling.koordinator.sh/reservation-allocated"
    pods = await client.list(PODS, namespace="default")
    return {
        pod.metadata.name: json.loads(pod.metadata.annotations[key])["name"]
        for pod in pods
        if pod.spec.node_name and key in pod.metadata.annotations
    }


async def test_one_that_grows_has_what_it_was_given_though_its_scheduler_is_killed_in_between(
    anywhere: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = anywhere
    await bootstrap(client)
    await make_machine(client, "n0")
    asked = asking("r", "web", "2", "50")
    template = {"metadata": {"labels": asked["metadata"]["labels"]}, "spec": {**asked["spec"], "priority": 9500}}
    await client.create(RESERVATIONS, {**reserving("r", "2", allocateOnce=False, template=template)})
    async with scheduling(client):
        await eventually(lambda: says(client, "r", "Available"))
    small = (await client.get(RESERVATIONS, "r")).metadata
    await resize(client, {"cpu": "6", f"{K}/gpu-core": "100", f"{K}/gpu-memory-ratio": "100"})
    stuck, real = asyncio.Event(), Client.patch

    async def patch(self: Client, kind: Kind[Any], name: str, body: Any, **more: Any) -> Any:
        if kind is RESERVATIONS and "allocatable" in body.get("status", {}):
            stuck.set()
            await asyncio.Event().wait()
        return await real(self, kind, name, body, **more)

    monkeypatch.setattr(Client, "patch", patch)
    async with scheduling(client):
        await asyncio.wait_for(stuck.wait(), 60)
    # Killed between its two writes: what it holds is said, and what it reserves is not.
    between = await client.get(RESERVATIONS, "r")
    assert between.status.allocatable["cpu"] == "2"
    assert (cpus_of(small) < cpus_of(between.metadata), len(cpus_of(between.metadata))) == (True, 6)
    monkeypatch.setattr(Client, "patch", real)

    async def has_grown() -> bool:
        return (await status(client, "r")).allocatable["cpu"] == "6"

    async def is_deferred() -> bool:
        told = [event.reason for event in await client.list(EVENTS) if event.regarding.name == "r"]
        conditions = {condition.type: condition.message for condition in (await status(client, "r")).conditions}
        return "ResizePending" in told and "Insufficient cpu" in conditions.get("ResizePending", "")

    async with scheduling(client):
        await eventually(has_grown)
        await resize(client, {"cpu": "30"})
        await eventually(is_deferred)
    last = await client.get(RESERVATIONS, "r")
    assert cpus_of(last.metadata) == cpus_of(between.metadata)
    assert gpus_of(last.metadata) == {0: 100}
    assert last.status.allocatable["cpu"] == "6"


async def resize(client: Client, resources: dict[str, str]) -> None:
    said = {"scheduling.koordinator.sh/reservation-resize-allocatable": json.dumps({"resources": resources})}
    await client.patch(RESERVATIONS, "r", {"metadata": {"annotations": said}})
