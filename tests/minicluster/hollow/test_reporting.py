"""When modelled nodes report."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, cast

from koord.api.kubernetes.pod import Pod
from koord.api.protocol.crd.node_metric import NodeMetric
from koord.api.protocol.report_policy import ReportPolicy
from koord.kube.client import Client
from koord.kube.errors import NotFound, Status
from koord.kube.events import EventRecorder
from koord.kube.informer import Informer
from koord.kube.informers import Informers
from koord_minicluster.hollow.live.guard import Guard
from koord_minicluster.hollow.live.machines import Machines
from koord_minicluster.hollow.live.reports import FIRST_WITHIN_S, Reporter
from koord_minicluster.hollow.load_model import SeededLoad
from koord_minicluster.hollow.machine import Machine
from tests.kube.manual_clock import ManualClock

BEGAN_S = 1_700_000_000.0


class Cluster:
    """Has two nodes from the start, and the kind NodeMetric from some moment on."""

    def __init__(self, kind_s: float) -> None:
        self.clock = ManualClock(BEGAN_S)
        self.kind_s = kind_s
        self.alive = [Machine(number, "hollow", 32_000, 128 << 30, 110, 3) for number in range(2)]
        self.reported_s: dict[str, float] = {}

    @property
    def registry(self) -> Cluster:
        return self

    async def leases_in_time(self) -> None:
        return None

    def limited(self, **_: Any) -> Cluster:
        return self

    def add_handler(self, handler: Any) -> None:
        return None

    def by_index(self, name: str, key: str) -> list[Pod]:
        return []

    async def list_pages(self, kind: Any, limit: int) -> AsyncIterator[list[Any]]:
        self._served()
        yield []

    async def patch(self, kind: Any, name: str, body: Any, **_: Any) -> NodeMetric:
        await asyncio.sleep(0)
        self._served()
        self.reported_s.setdefault(name, self.clock.now() - BEGAN_S)
        return NodeMetric()

    async def create(self, kind: Any, body: Any, **_: Any) -> None:
        self._served()

    def _served(self) -> None:
        if self.clock.now() < BEGAN_S + self.kind_s:
            raise NotFound(Status(code=404))


async def test_a_node_reports_soon_after_the_cluster_got_the_kind() -> None:
    kind_s = FIRST_WITHIN_S + 5
    cluster = Cluster(kind_s)
    client = cast(Client, cluster)
    guard = Guard(client, cast(Informers, None), cast(EventRecorder, None), None)
    guard.follow = lambda: None  # type: ignore[method-assign] # NodeSLOs are not what this is about
    reporter = Reporter(
        client,
        cast(Informer[Pod], cluster),
        cast(Machines, cluster),
        load=SeededLoad(),
        policy=ReportPolicy(),
        seed=0,
        clock=cluster.clock,
        guard=guard,
    )
    running = asyncio.create_task(reporter.run())
    while cluster.clock.now() < BEGAN_S + 2 * kind_s:  # noqa: ASYNC110 - sleeping advances this clock
        await asyncio.sleep(0)
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    assert cluster.reported_s.keys() == {machine.name for machine in cluster.alive}
    # It is looked for at intervals that double, from one second on.
    assert max(cluster.reported_s.values()) < 2 * kind_s
