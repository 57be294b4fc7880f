"""What goes wrong: a manager that dies between two writes, and a whole cluster that reports at once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Generic, TypeVar

import pytest
from msgspec.structs import replace

from koord.api import kinds
from koord.kube.client import Client
from koord.kube.clock import SystemClock
from koord.kube.errors import Conflict, Status
from koord.kube.metrics import Metrics
from koord.kube.store import Delta
from koord.manager import node_state as rows
from koord.manager.live.metrics import ManagerMetrics
from koord.manager.live.node_resource import WORKERS, NodeResourceLoop
from koord.manager.live.records import MetricRecord, NodeRecord
from koord.manager.node_resource.plugins import choose
from koord.manager.quota_profile import node_part
from tests.manager.builders import NOW_S, config, metric, node
from tests.manager.live.managing import CPU, fresh, lent, make_node, managing, node_with_metric, report
from tests.scheduler.live.embedded import serving
from tests.waiting import eventually

R = TypeVar("R")


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    async with serving(tmp_path) as own:
        yield own


class Dead(Exception):
    """The process is gone: nothing is sent any more."""


def dying(client: Client, after: int) -> tuple[Client, list[int]]:
    """A client whose writes end after N."""
    writes = [0]

    def check() -> None:
        writes[0] += 1
        if writes[0] > after:
            raise Dead

    return client.fenced(check), writes


@pytest.mark.parametrize("after", range(5))
async def test_killed_after_any_write_the_next_one_goes_on(client: Client, after: int) -> None:
    await fresh(client)
    names = ("n1", "n2")
    await node_with_metric(client, names[0])
    await make_node(client, names[1])
    mortal, writes = dying(client, after)
    await report(client, names[0])
    async with managing(mortal):
        await eventually(lambda: _true(writes[0] > after))
    async with managing(client):

        async def in_step() -> bool:
            metrics = {node_metric.metadata.name: node_metric for node_metric in await client.list(kinds.NODE_METRICS)}
            slos = {node_slo.metadata.name for node_slo in await client.list(kinds.NODE_SLOS)}
            specs = [metric.spec.metric_collect_policy is not None for metric in metrics.values()]
            return set(metrics) == slos == set(names) and all(specs) and await lent(client, names[0]) == 35900

        await eventually(in_step)
        origin = (await client.get(kinds.NODES, names[0])).metadata.annotations
        assert "35900" in origin["node.koordinator.sh/originExtendedAllocatable"]


async def _true(value: bool) -> bool:
    return value


class ManualInformer(Generic[R]):
    """An informer whose objects are put in by hand."""

    has_synced = True

    def __init__(self) -> None:
        self._records: dict[str, R] = {}
        self._handlers: list[Callable[[Delta[R]], None]] = []

    async def synced(self) -> None: ...

    def add_handler(self, handler: Callable[[Delta[R]], None], /) -> object:
        self._handlers.append(handler)
        return None

    def put(self, key: str, record: R) -> None:
        delta = Delta(key, self._records.get(key), record)
        self._records[key] = record
        for handler in self._handlers:
            handler(delta)

    def get(self, key: str) -> R | None:
        return self._records.get(key)

    def list(self) -> list[R]:
        return list(self._records.values())

    def by_index(self, _name: str, _key: str) -> Iterable[R]:
        return ()


class Crowd:
    """Many nodes that report at the same moment, and an API server that takes its time."""

    def __init__(self, number: int, answer: Callable[[str], Awaitable[None]]) -> None:
        self.nodes: ManualInformer[NodeRecord] = ManualInformer()
        self.metrics: ManualInformer[MetricRecord] = ManualInformer()
        self.at_once = self.most_at_once = self.patches = 0
        self._answer = answer
        self.names = [f"n{index}" for index in range(number)]
        sources = SimpleNamespace(
            nodes=self.nodes,
            metrics=self.metrics,
            pods=ManualInformer[Any](),
            topologies=None,
            devices=None,
            node_names=self.names,
            when_there=lambda name, connect: None,
        )
        configuration = SimpleNamespace(current=config(), unusable=frozenset(), add_handler=lambda handler: None)
        self.registry = Metrics(process=False)
        client: Any = SimpleNamespace(patch=self.patch)
        clock = SystemClock()
        clock.now = lambda: NOW_S  # type: ignore[method-assign]
        self.loop = NodeResourceLoop(
            client,
            sources,  # type: ignore[arg-type]
            configuration,  # type: ignore[arg-type]
            choose(),
            clock,
            ManagerMetrics(self.registry),
        )
        for name in self.names:
            self.nodes.put(name, _record(name))

    async def patch(self, _kind: object, name: str, _patch: object, **_options: object) -> Any:
        self.patches += 1
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await self._answer(name)
        finally:
            self.at_once -= 1
        changed = node(name, published={CPU: "26700"})
        self.nodes.put(name, NodeRecord(rows.node_facts(changed), node_part(changed)))
        return changed

    def report(self, version: str, system: str = "2.5") -> None:
        for name in self.names:
            node_metric = metric(name=name, system=(system, "6Gi"))
            row = rows.metric_row(node_metric)
            self.metrics.put(name, MetricRecord(replace(row, version=version, updated_s=NOW_S), node_metric.spec))


def _record(name: str) -> NodeRecord:
    made = node(name)
    return NodeRecord(rows.node_facts(made), node_part(made))


async def test_a_cluster_that_reports_at_once_is_written_a_few_at_a_time() -> None:
    async def slow(_name: str) -> None:
        await asyncio.sleep(0.001)

    crowd = Crowd(600, slow)
    for version in ("1", "2", "3"):
        # Three reports of every node before the first is looked at are one cause to look.
        crowd.report(version)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(crowd.loop.controller.run())
        await eventually(lambda: _true(crowd.loop.controller.queue.state.idle and crowd.patches >= 600))
        running.cancel()
    assert crowd.most_at_once <= WORKERS
    assert crowd.patches <= 2 * 600


async def test_a_node_that_cannot_be_written_does_not_keep_the_others_waiting() -> None:
    done: set[str] = set()

    async def refusing(name: str) -> None:
        if name == "n3":
            raise Conflict(Status(), verb="patch", what="Node n3")
        done.add(name)

    crowd = Crowd(20, refusing)
    crowd.report("1")
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(crowd.loop.controller.run())
        await eventually(lambda: _true(len(done) == 19))
        running.cancel()


async def test_while_thousands_are_looked_at_others_have_their_turn() -> None:
    async def never(_name: str) -> None: ...

    crowd = Crowd(1000, never)
    crowd.report("1")
    # By the thread's own time: others of the machine may have theirs in between.
    longest_s, last_s = 0.0, time.thread_time()
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(crowd.loop.controller.run())
        while not (crowd.loop.controller.queue.state.idle and crowd.patches >= 1000):
            await asyncio.sleep(0)
            now_s = time.thread_time()
            longest_s, last_s = max(longest_s, now_s - last_s), now_s
        running.cancel()
    # 1,000 nodes take 0.1 s and more in one piece; a turn is as long as a round of the workers.
    assert longest_s < 0.5
