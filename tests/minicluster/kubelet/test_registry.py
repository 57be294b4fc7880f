"""Leases come before all that a kubelet writes besides."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from koord.api.kinds import LEASES
from koord.api.kubernetes.node import Node
from koord.kube.client import Client
from koord_minicluster.hollow.machine import Machine, own_node
from koord_minicluster.kubelet.beats import STATUS_S
from koord_minicluster.kubelet.live.registry import AT_ONCE, LATE_S, NodeRegistry
from tests.kube.manual_clock import ManualClock
from tests.minicluster.hollow.builders import node
from tests.waiting import eventually

MACHINES = [Machine(number, "hollow", 32_000, 128 << 30, 110) for number in range(2 * AT_ONCE)]


class SlowServer:
    """Answers writes of statuses never, and those of leases once `leases` is set."""

    def __init__(self) -> None:
        self.clock = ManualClock(0.0)
        self.leases = asyncio.Event()
        self.asked = 0
        self.renewed_s: dict[str, float] = {}

    def limited(self, **_: Any) -> SlowServer:
        return self

    async def create(self, kind: Any, body: Any, **_: Any) -> Node | None:
        return None if kind is LEASES else node(body["metadata"]["name"], labels=body["metadata"]["labels"])

    async def patch(self, kind: Any, name: str, body: Any, **_: Any) -> None:
        if kind is not LEASES:
            await asyncio.Event().wait()
        self.asked += 1
        await self.leases.wait()
        self.renewed_s[name] = self.clock.now()


async def registered(server: SlowServer) -> NodeRegistry:
    registry = NodeRegistry(
        cast(Client, server),
        [own_node(machine, "1") for machine in MACHINES],
        kubelet_port=1,
        field_manager="test",
        clock=server.clock,
        share=lambda name: 0.0,
    )
    await registry.register({})
    return registry


async def test_leases_are_renewed_while_no_status_can_be_written() -> None:
    server = SlowServer()
    server.leases.set()
    registry = await registered(server)
    running = asyncio.create_task(registry.keep_alive())
    await eventually(lambda: len(server.renewed_s) == len(MACHINES))
    server.clock.advance(STATUS_S)
    await eventually(lambda: all(time_s >= STATUS_S for time_s in server.renewed_s.values()))
    running.cancel()


async def test_other_work_waits_until_late_leases_are_renewed() -> None:
    server = SlowServer()
    registry = await registered(server)
    await registry.leases_in_time()
    server.clock.advance(LATE_S + 1)
    running = asyncio.create_task(registry.keep_alive())
    await eventually(lambda: server.asked == AT_ONCE)
    other = asyncio.create_task(registry.leases_in_time())
    await asyncio.sleep(0)
    assert not other.done()
    server.leases.set()
    await other
    assert len(server.renewed_s) == len(MACHINES)
    running.cancel()
