"""A reservation on an API server: placed, used and ended, by one scheduler after the other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from koord.api.kinds import EVENTS, PODS, RESERVATIONS
from koord.api.protocol.crd.reservation import ReservationStatus
from koord.kube.client import Client
from koord.minicluster.up.bootstrap import bootstrap
from tests.scheduler.live.embedded import make_nodes, pod_manifest, scheduling, serving, until, until_bound


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
            found = [each for each in await client.list(EVENTS) if each.regarding.name == name]
            return any(each.reason == reason for each in found)

        async with scheduling(client):
            await client.create(RESERVATIONS, reserving("shared", "3", allocateOnce=False))
            await until(lambda: says("shared", "Available"))
            await client.create(RESERVATIONS, reserving("giant", "30"))
            await until(lambda: is_told("giant", "FailedScheduling"))
            await until(lambda: is_told("shared", "Scheduled"))
            found = await status(client, "giant")
            assert (found.phase, found.conditions[0].reason) == ("Pending", "Unschedulable")
        # Nobody schedules, and pods come meanwhile: one that may use the room, and one that may not.
        await client.create(PODS, pod_manifest("other", cpu="2"))
        await client.create(PODS, owner("web-0", "2"))
        async with scheduling(client):
            await until_bound(client, "web-0")

            async def counts() -> bool:
                found = await status(client, "shared")
                return dict(found.allocated) == {"cpu": "2"} and [each.name for each in found.current_owners] == [
                    "web-0"
                ]

            await until(counts)
            await until(lambda: is_told("other", "FailedScheduling"))
            pod = await client.get(PODS, "web-0", namespace="default")
            assert '"name":"shared"' in pod.metadata.annotations["scheduling.koordinator.sh/reservation-allocated"]
        # It ends while nobody schedules: the next one finds out, and gives the rest of it to whoever waits.
        await client.patch(RESERVATIONS, "shared", {"spec": {"expires": "2020-01-01T00:00:00Z"}})
        async with scheduling(client):
            await until(lambda: says("shared", "Failed"))
            await until_bound(client, "other")
