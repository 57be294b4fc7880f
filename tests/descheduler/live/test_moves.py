"""Moves on an API server, from the job that asks to the pod that took the place."""

from __future__ import annotations

from pathlib import Path

from koord.api.kinds import NODES
from koord.api.protocol.annotations.load import LAST_EVICTIONS
from tests.descheduler.live.cluster import (
    all_ready,
    ask,
    cluster,
    deploy,
    descheduling,
    ends,
    events_of,
    job,
    pods_of,
)
from tests.waiting import eventually


async def test_a_user_moves_pods_with_room_first_and_directly(tmp_path: Path) -> None:
    async with cluster(tmp_path) as client:
        pods = await deploy(client, "web", 3)
        async with descheduling(client):
            old = pods[0]
            await ask(client, old, mode="ReservationFirst")
            done = await ends(client)
            assert (done.status.phase, done.status.status) == ("Succeeded", "Complete"), done.status
            assert done.status.node_name != old.spec.node_name
            new = {pod.metadata.name: pod for pod in await pods_of(client, "web")}
            assert old.metadata.name not in new
            assert done.status.pod_ref is not None
            assert new[done.status.pod_ref.name].spec.node_name == done.status.node_name
            steps = ["ReservationCreated", "ReservationScheduled", "Eviction", "PodBoundReservation"]
            assert [condition.type for condition in done.status.conditions if condition.type in steps] == steps
            await eventually(lambda: all_ready(client, "web", 3))

            apis = await deploy(client, "api", 3)
            other = apis[0]
            await ask(client, other, "at-once", mode="EvictDirectly")
            assert (await ends(client, "at-once")).status.phase == "Succeeded"
            assert other.metadata.name not in {pod.metadata.name for pod in await pods_of(client, "api")}
            left = await client.get(NODES, other.spec.node_name)
            assert other.metadata.controller is not None
            assert f"owner/{other.metadata.controller.uid}" in LAST_EVICTIONS.read(left.metadata, "Node")
            await eventually(lambda: all_ready(client, "api", 3))
            back = [pod for pod in await pods_of(client, "api") if pod.spec.node_name == left.metadata.name]
            assert all(pod.metadata.name in {api.metadata.name for api in apis} for pod in back), "no pod went back"

            await ask(client, pods[1], "too-soon", mode="EvictDirectly")

            async def is_held_back() -> bool:
                found = (await job(client, "too-soon")).status
                return found.reason == "Waiting" and "objectLimiters" in found.message

            await eventually(is_held_back)

            async def is_told() -> bool:
                return "Complete" in await events_of(client, "at-once")

            await eventually(is_told)
            told = await events_of(client, "move")
            assert {"ReservationCreated", "ReservationScheduled", "Evicting", "EvictComplete", "Complete"} <= set(told)
            assert "Descheduled" in await events_of(client, old.metadata.name)
