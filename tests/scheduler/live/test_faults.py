"""What may go wrong while pods are bound: none is bound twice, none is lost, no node gets more than it has.

KOORD_KILLS=100 kills the scheduler so often; the usual number is small.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from koord.api.kinds import LEASES, NODES, PODS
from koord.api.pod import Pod
from koord.api.scheduler_config import SHIPPED
from koord.kube.client import Client
from koord.kube.clock import SystemClock
from koord.kube.errors import Conflict, Gone, Status, unreachable
from koord.kube.informer import Informer
from koord.kube.locate import locate
from koord.kube.metrics import Metrics
from koord.kube.store import Delta
from koord.scheduler.live.run import Options, Runner
from tests.control_plane import ControlPlane
from tests.scheduler.live.build import Fed, picture
from tests.scheduler.live.embedded import (
    make_nodes,
    node_manifest,
    over_committed,
    pod_manifest,
    scheduling,
    serving,
    until,
    until_bound,
)

pytestmark = pytest.mark.timeout(180)

KILLS = int(os.environ.get("KOORD_KILLS", "3"))
Binds = Callable[..., Awaitable[None]]


class Witness:
    """Sees every pod on every node: who has been on two was bound twice."""

    def __init__(self, client: Client) -> None:
        self.places: dict[str, set[str]] = {}
        self.informer: Informer[Pod] = Informer(client, PODS)
        self.informer.add_handler(self._see)

    def _see(self, delta: Delta[Pod]) -> None:
        if delta.new is not None and delta.new.spec.node_name:
            self.places.setdefault(delta.new.metadata.uid, set()).add(delta.new.spec.node_name)

    @property
    def bound_twice(self) -> dict[str, set[str]]:
        return {uid: places for uid, places in self.places.items() if len(places) > 1}


@asynccontextmanager
async def witness(client: Client) -> AsyncIterator[Witness]:
    seen = Witness(client)
    task = asyncio.create_task(seen.informer.run())
    await seen.informer.synced()
    try:
        yield seen
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@pytest.fixture
def binds(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Client, Binds, str, str], Awaitable[None]]], None]:
    """Has every binding go through a function of the test, which gets the real call too."""
    real = Client.bind

    def through(own: Callable[[Client, Binds, str, str], Awaitable[None]]) -> None:
        async def bind(self: Client, namespace: str, pod: str, node: str, **more: Any) -> None:
            async def call(to: str = node) -> None:
                await real(self, namespace, pod, to, **more)

            await own(self, call, pod, node)

        monkeypatch.setattr(Client, "bind", bind)

    return through


async def test_a_pod_that_somebody_else_binds_first_is_left_where_it_is(binds: Any, tmp_path: Path) -> None:
    async def snatched(client: Client, call: Binds, pod: str, node: str) -> None:
        if pod == "p0":
            await call({"node-000": "node-001", "node-001": "node-000"}[node])
        await call()

    binds(snatched)
    async with serving(tmp_path) as client, witness(client) as seen:
        await make_nodes(client, 2)
        async with scheduling(client):
            for number in range(8):
                await client.create(PODS, pod_manifest(f"p{number}"))
            await until_bound(client, *(f"p{number}" for number in range(8)))
            assert not seen.bound_twice
            assert not over_committed(await client.list(PODS), 4000)


async def test_a_conflict_that_bound_nothing_is_tried_again(binds: Any, tmp_path: Path) -> None:
    tries: list[str] = []

    async def refused(client: Client, call: Binds, pod: str, node: str) -> None:
        tries.append(pod)
        if tries.count(pod) == 1:
            raise Conflict(Status("Failure", 409, "Conflict", "try again"))
        await call()

    binds(refused)
    async with serving(tmp_path) as client:
        await make_nodes(client, 1)
        async with scheduling(client):
            await client.create(PODS, pod_manifest("p0"))
            await until_bound(client, "p0")
            assert tries == ["p0", "p0"]


async def test_a_node_deleted_between_decision_and_binding_gets_no_pod_when_that_is_known(
    binds: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from koord.scheduler.live.telling import Telling

    settled = Telling.settled
    gone = asyncio.Event()

    async def slow(self: Telling, uid: str) -> None:
        """Between decision and binding the node goes."""
        if not gone.is_set():
            await client.delete(NODES, "node-000")
            await asyncio.sleep(0.3)
            await client.create(NODES, node_manifest("other"))
            gone.set()
        await settled(self, uid)

    monkeypatch.setattr(Telling, "settled", slow)
    async with serving(tmp_path) as client:
        await make_nodes(client, 1)
        async with scheduling(client):
            await client.create(PODS, pod_manifest("p0"))
            assert (await until_bound(client, "p0"))["p0"] == "other"


@pytest.mark.parametrize("reached", [True, False])
async def test_a_lost_answer_neither_binds_twice_nor_gives_the_place_away(
    binds: Any, reached: bool, tmp_path: Path
) -> None:
    lost: set[str] = set()

    async def losing(client: Client, call: Binds, pod: str, node: str) -> None:
        if pod not in lost:
            lost.add(pod)
            if reached:
                await call()
            raise unreachable("the answer was lost", maybe_done=True)
        await call()

    binds(losing)
    async with serving(tmp_path) as client, witness(client) as seen:
        await make_nodes(client, 2)
        async with scheduling(client):
            for number in range(12):
                await client.create(PODS, pod_manifest(f"p{number}"))

            async def full() -> bool:
                return sum(1 for pod in await client.list(PODS) if pod.spec.node_name) == 8

            await until(full)
            await asyncio.sleep(0.5)
            pods = await client.list(PODS)
            assert sum(1 for pod in pods if pod.spec.node_name) == 8
            assert not over_committed(pods, 4000)
            assert not seen.bound_twice


async def test_a_server_that_restarts_while_pods_are_bound_loses_none(tmp_path: Path) -> None:
    async with serving(tmp_path) as first:
        port = int(first.config.server.rpartition(":")[2])
        await make_nodes(first, 10)
        outlives = await Client(locate(str(tmp_path / "kubeconfig"))).__aenter__()
        scheduler = scheduling(outlives)
        await scheduler.__aenter__()
        for number in range(60):
            await first.create(PODS, pod_manifest(f"p{number}", cpu="500m"))
    try:
        await asyncio.sleep(0.3)
        async with serving(tmp_path, port) as again:
            await until_bound(again, *(f"p{number}" for number in range(60)), within_s=60)
            await again.create(PODS, pod_manifest("after"))
            await until_bound(again, "after", within_s=30)
            assert not over_committed(await again.list(PODS), 4000)
            # Before the server goes: who writes to one that is gone waits for it.
            await scheduler.__aexit__(None, None, None)
    finally:
        await outlives.__aexit__(None, None, None)


async def test_a_gap_in_the_watch_hides_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, gap = Client.watch, asyncio.Event()

    async def watch(self: Client, kind: Any, **more: Any) -> AsyncIterator[Any]:
        async with aclosing(real(self, kind, **more)) as batches:
            async for batch in batches:
                if kind is PODS and gap.is_set():
                    # What this batch said is lost; the version that we know is too old.
                    gap.clear()
                    raise Gone(Status("Failure", 410, "Expired", "too old resource version"))
                yield batch

    async with serving(tmp_path) as client:
        await make_nodes(client, 2)
        monkeypatch.setattr(Client, "watch", watch)
        async with scheduling(client):
            for number in range(8):
                await client.create(PODS, pod_manifest(f"p{number}"))
            await until_bound(client, *(f"p{number}" for number in range(8)))
            gap.set()
            for number in range(4):
                await client.delete(PODS, f"p{number}", namespace="default", grace_s=0)
            for number in range(8, 13):
                await client.create(PODS, pod_manifest(f"p{number}"))

            async def full() -> bool:
                return sum(1 for pod in await client.list(PODS) if pod.spec.node_name) == 8

            await until(full)
            assert not gap.is_set()
            assert not over_committed(await client.list(PODS), 4000)


async def start(folder: Path, *args: str) -> asyncio.subprocess.Process:
    """`koord scheduler` as a process; returns when it says that it schedules."""
    kubeconfig = str(folder / "kubeconfig")
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "koord", "scheduler", "--alone", "--kubeconfig", kubeconfig, *args,
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stderr is not None
    heard = []
    while line := (await process.stderr.readline()).decode():
        heard.append(line)
        if "live.run: scheduling" in line:
            break
    else:
        raise AssertionError("".join(heard))
    asyncio.get_running_loop().create_task(_drain(process.stderr))
    return process


async def _drain(stream: asyncio.StreamReader) -> None:
    with suppress(asyncio.CancelledError):
        while await stream.read(65536):
            pass


@pytest.mark.timeout(30 + 30 * KILLS)
async def test_a_scheduler_killed_at_random_loses_no_pod_and_binds_none_twice(tmp_path: Path) -> None:
    chance = random.Random(5)
    async with serving(tmp_path) as client, witness(client) as seen:
        await make_nodes(client, 20)
        made = 0
        for _ in range(KILLS):
            process = await start(tmp_path)
            ends_s = asyncio.get_running_loop().time() + chance.uniform(0.05, 1.0)
            while asyncio.get_running_loop().time() < ends_s:
                # Now and then the cluster is full, and somebody has to go.
                if made % 100 >= 75:
                    await client.delete(PODS, f"p{made - 75}", namespace="default", grace_s=0)
                await client.create(PODS, pod_manifest(f"p{made}"))
                made += 1
            process.kill()
            await process.wait()
            pods = await client.list(PODS)
            assert not over_committed(pods, 4000)
            assert await state_is_true(client)
        async with scheduling(client):
            await until(lambda: _at_rest(client), within_s=60)
        pods = await client.list(PODS)
        assert not seen.bound_twice
        assert not over_committed(pods, 4000)
        assert sum(1 for pod in pods if pod.spec.node_name) == min(len(pods), 80)


async def _at_rest(client: Client) -> bool:
    """Whoever has no node has been told that there is none."""
    for pod in await client.list(PODS):
        scheduled = pod.status.condition("PodScheduled")
        if not pod.spec.node_name and (scheduled is None or scheduled.reason != "Unschedulable"):
            return False
    return True


async def state_is_true(client: Client) -> bool:
    """Whether a scheduler that starts now has the state that the API server tells, and the queue."""
    ready = asyncio.Event()
    runner = Runner(client, SHIPPED, Options(elect=True, alone=True), SystemClock(), Metrics(process=False))
    task = asyncio.create_task(runner.run(ready.set))
    try:
        await asyncio.wait_for(ready.wait(), 20)
        assert runner.feed is not None
        fresh = Fed(SHIPPED, alone=True)
        fresh.put(*await client.list(NODES), *await client.list(PODS))
        same = picture(runner.feed.cluster) == picture(fresh.feed.cluster)
        return same and {each.entity.key for each in runner.feed.queue} == fresh.waiting
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_a_leader_that_is_frozen_and_thawed_harms_nobody(tmp_path: Path) -> None:
    config = tmp_path / "scheduler.yaml"
    config.write_text(
        """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection:
  leaderElect: true
  leaseDuration: 2s
  renewDeadline: 1500ms
  retryPeriod: 300ms
  resourceNamespace: default
profiles:
- schedulerName: default-scheduler
"""
    )
    async with serving(tmp_path) as client, witness(client) as seen:
        await make_nodes(client, 5)
        first = await start(tmp_path, "--config", str(config))
        await until(lambda: _led_by(client, ""))
        leader = (await client.get(LEASES, "koord-scheduler", namespace="default")).spec.holder_identity
        second = await start(tmp_path, "--config", str(config))
        try:
            for number in range(10):
                await client.create(PODS, pod_manifest(f"p{number}"))
            await asyncio.sleep(0.05)
            first.send_signal(signal.SIGSTOP)
            # What was sent before it froze may still take effect; the next leader hears of it.
            await until_bound(client, *(f"p{number}" for number in range(10)), within_s=40)
            await until(lambda: _led_by(client, leader))
            for number in range(10, 16):
                await client.create(PODS, pod_manifest(f"p{number}"))
            first.send_signal(signal.SIGCONT)
            for number in range(16, 30):
                await client.create(PODS, pod_manifest(f"p{number}"))

            async def full() -> bool:
                return sum(1 for pod in await client.list(PODS) if pod.spec.node_name) == 20

            await until(full, within_s=40)
            assert await asyncio.wait_for(first.wait(), 30) == 1, "who has lost the lease ends, to begin anew"
            assert second.returncode is None
            assert not seen.bound_twice
            assert not over_committed(await client.list(PODS), 4000)
        finally:
            for process in (first, second):
                if process.returncode is None:
                    process.send_signal(signal.SIGCONT)
                    process.kill()
                    await process.wait()


async def _led_by(client: Client, other_than: str) -> bool:
    leases = await client.list(LEASES, namespace="default")
    return any(lease.spec.holder_identity not in ("", other_than) for lease in leases)


@pytest.mark.cluster
@pytest.mark.timeout(240)
async def test_on_a_real_server_restarts_and_kills_lose_no_pod_either() -> None:
    with ControlPlane("--disable-admission-plugins=TaintNodesByCondition") as plane:
        async with Client.from_config(str(plane.kubeconfig)) as client, witness(client) as seen:
            await make_nodes(client, 20)
            made = 0
            for kill in (False, True, False):
                process = await start(plane.dir)
                for _ in range(20):
                    await client.create(PODS, pod_manifest(f"p{made}"))
                    made += 1
                if kill:
                    process.kill()
                    await process.wait()
                    continue
                await asyncio.to_thread(plane.stop_apiserver, kill=True)
                await asyncio.to_thread(plane.start_apiserver)
                await until_bound(client, *(f"p{number}" for number in range(made)), within_s=60)
                process.kill()
                await process.wait()
                assert await state_is_true(client)
            for _ in range(30):
                await client.create(PODS, pod_manifest(f"p{made}"))
                made += 1
            async with scheduling(client):
                await until(lambda: _at_rest(client), within_s=60)
            pods = await client.list(PODS)
            assert not seen.bound_twice
            assert not over_committed(pods, 4000)
            assert sum(1 for pod in pods if pod.spec.node_name) == 80
