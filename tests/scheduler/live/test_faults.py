"""What may go wrong while pods are bound, on koord's own API server and on a real one.

None is bound twice, none is lost, no node gets more than it has, and in the end the scheduler knows what the API says.
KOORD_KILLS=100 kills the scheduler so often; the usual number is small.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from koord.api.kinds import LEASES, NODES, PODS
from koord.kube import informer
from koord.kube.client import Client
from koord.kube.errors import Conflict, Status, unreachable
from koord.scheduler.live.telling import Telling
from tests.scheduler.live.embedded import deletions_received, make_nodes, node_manifest, pod_manifest, until_bound
from tests.scheduler.live.servers import Line, Server, restart
from tests.scheduler.live.witness import Witness, following
from tests.waiting import eventually

KILLS = int(os.environ.get("KOORD_KILLS", "2"))
Binds = Callable[..., Awaitable[None]]


@pytest.fixture
def binds(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Binds, str, str], Awaitable[None]]], None]:
    """Has every binding go through a function of the test, which gets the real call too."""
    real = Client.bind

    def through(own: Callable[[Binds, str, str], Awaitable[None]]) -> None:
        async def bind(self: Client, namespace: str, pod: str, node: str, **more: Any) -> None:
            async def call(to: str = node) -> None:
                await real(self, namespace, pod, to, **more)

            await own(call, pod, node)

        monkeypatch.setattr(Client, "bind", bind)

    return through


async def make_pods(client: Client, numbers: range, **more: Any) -> list[str]:
    names = [f"p{number}" for number in numbers]
    for name in names:
        await client.create(PODS, pod_manifest(name, **more))
    return names


async def test_a_pod_that_somebody_else_binds_first_is_left_where_it_is(
    binds: Any, client: Client, seen: Witness
) -> None:
    async def snatched(call: Binds, pod: str, node: str) -> None:
        if pod in ("p0", "p1", "p2"):
            await call({"node-000": "node-001", "node-001": "node-000"}[node])
        await call()

    binds(snatched)
    # Room for all of them, wherever the other one puts his.
    await make_nodes(client, 2, cpu="8")
    async with following(client) as runner:
        await seen.all_is_well(await make_pods(client, range(8)), runner)


async def test_a_conflict_that_bound_nothing_is_tried_again(binds: Any, client: Client, seen: Witness) -> None:
    tries: list[str] = []

    async def refused(call: Binds, pod: str, node: str) -> None:
        tries.append(pod)
        if tries.count(pod) == 1:
            raise Conflict(Status("Failure", 409, "Conflict", "try again"))
        await call()

    binds(refused)
    await make_nodes(client, 2)
    async with following(client) as runner:
        names = await make_pods(client, range(8))
        await until_bound(client, *names)
        await seen.all_is_well(names, runner)
        assert sorted(tries) == sorted([*names, *names])


async def test_a_node_deleted_between_decision_and_binding_gets_no_pod_when_that_is_known(
    client: Client, seen: Witness, monkeypatch: pytest.MonkeyPatch
) -> None:
    settled, deleted = Telling.settled, deletions_received(monkeypatch)
    gone = asyncio.Event()

    async def slow(self: Telling, uid: str) -> None:
        """Between decision and binding the node goes."""
        if not gone.is_set():
            gone.set()
            await client.delete(NODES, "node-000")
            await eventually(lambda: "node-000" in deleted)
            await client.create(NODES, node_manifest("other"))
        await settled(self, uid)

    monkeypatch.setattr(Telling, "settled", slow)
    await make_nodes(client, 1)
    async with following(client) as runner:
        names = await make_pods(client, range(1))
        assert (await until_bound(client, *names))["p0"] == "other"
        await seen.all_is_well(names, runner)


async def test_a_node_that_goes_while_the_call_is_under_way_takes_its_pod_along(
    binds: Any, client: Client, seen: Witness, monkeypatch: pytest.MonkeyPatch
) -> None:
    deleted = deletions_received(monkeypatch)
    deletion: list[asyncio.Task[None]] = []

    async def too_late(call: Binds, pod: str, node: str) -> None:
        if not deletion:
            deletion.append(asyncio.create_task(client.delete(NODES, "node-000")))
        await deletion[0]
        await eventually(lambda: "node-000" in deleted)
        await call()

    binds(too_late)
    await make_nodes(client, 1)
    # They are there before the scheduler is, so that all of them are decided before the first is bound.
    names = await make_pods(client, range(3))
    async with following(client) as runner:
        await until_bound(client, *names)
        await make_nodes(client, 1)
        # The API let them be bound to what is gone; when a node of that name comes, they are on it.
        await seen.all_is_well([*names, *await make_pods(client, range(3, 6))], runner)
        pods = await client.list(PODS)
        assert sum(1 for pod in pods if pod.spec.node_name) == 4


@pytest.mark.parametrize("reached", [True, False], ids=["bound", "not bound"])
async def test_a_lost_answer_neither_binds_twice_nor_gives_the_place_away(
    binds: Any, reached: bool, client: Client, seen: Witness
) -> None:
    lost: set[str] = set()

    async def losing(call: Binds, pod: str, node: str) -> None:
        if pod not in lost:
            lost.add(pod)
            if reached:
                await call()
            raise unreachable("the answer was lost", maybe_done=True)
        await call()

    binds(losing)
    await make_nodes(client, 2)
    async with following(client) as runner:
        await seen.all_is_well(await make_pods(client, range(12)), runner)


async def test_a_server_that_restarts_while_pods_are_bound_loses_none(
    server: Server, client: Client, seen: Witness
) -> None:
    await make_nodes(client, 10)
    async with following(client) as runner:
        names = await make_pods(client, range(60), cpu="500m")
        await restart(server)
        names += await make_pods(client, range(60, 90), cpu="500m")
        await seen.all_is_well(names, runner)


async def test_a_gap_in_the_watch_hides_nothing(
    server: Server, client: Client, seen: Witness, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Else, after a second or two, the client does not ask whether the history is still there.
    monkeypatch.setattr(informer, "RESUME_WITHIN_S", 600.0)
    line = Line(server)
    await make_nodes(client, 2)
    async with line.client() as far, following(far) as runner:
        names = await make_pods(client, range(8))
        await until_bound(client, *names)
        line.cut()
        # One of the same name is another pod; nodes and others come and go.
        for name in names[:4]:
            await client.delete(PODS, name, namespace="default", grace_s=0)
        names = names[2:] + await make_pods(client, range(8, 13))
        await make_pods(client, range(2, 4))
        await client.create(NODES, node_manifest("other", cpu="2"))
        await restart(server, history=False)
        with caplog.at_level(logging.INFO, "koord.kube.informer"):
            line.fixes()
            await seen.all_is_well(names, runner)
        assert "must list again" in caplog.text, "the server answered 410"


async def start(server: Server, *args: str) -> asyncio.subprocess.Process:
    """`koord scheduler` as a process; returns when it says that it schedules."""
    kubeconfig = str(server.kubeconfig)
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


@pytest.mark.timeout(300 + 30 * KILLS)
async def test_a_scheduler_killed_at_random_loses_no_pod_and_binds_none_twice(
    server: Server, client: Client, seen: Witness
) -> None:
    chance, loop = random.Random(5), asyncio.get_running_loop()
    await make_nodes(client, 20)
    made, names = 0, set[str]()
    for _ in range(KILLS):
        process = await start(server)
        ends_s = loop.time() + chance.uniform(0.05, 1.0)
        while loop.time() < ends_s:
            # Now and then the cluster is full, and some pod has to go.
            if made % 100 >= 75:
                await client.delete(PODS, f"p{made - 75}", namespace="default", grace_s=0)
                names.discard(f"p{made - 75}")
            names.update(await make_pods(client, range(made, made + 1)))
            made += 1
        process.kill()
        await process.wait()
        await seen.nothing_is_wrong(names)
    async with following(client) as runner:
        await seen.all_is_well(names, runner)


LEADING = """
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


async def test_a_leader_that_is_frozen_and_thawed_harms_nobody(
    server: Server, client: Client, seen: Witness, tmp_path: Path
) -> None:
    config = tmp_path / "scheduler.yaml"
    config.write_text(LEADING)
    await make_nodes(client, 5)
    first = await start(server, "--config", str(config))
    await eventually(lambda: _led_by(client, ""))
    leader = (await client.get(LEASES, "koord-scheduler", namespace="default")).spec.holder_identity
    second = await start(server, "--config", str(config))
    try:
        names = await make_pods(client, range(10))
        first.send_signal(signal.SIGSTOP)
        # What was sent before it froze may still take effect; the next leader hears of it.
        await until_bound(client, *names, within_s=40)
        await eventually(lambda: _led_by(client, leader))
        names += await make_pods(client, range(10, 16))
        first.send_signal(signal.SIGCONT)
        names += await make_pods(client, range(16, 30))
        assert await asyncio.wait_for(first.wait(), 60) == 1, "a scheduler that lost its lease ends, and starts again"
        assert second.returncode is None
        await seen.all_is_well(names)
        assert sum(1 for pod in await client.list(PODS) if pod.spec.node_name) == 20
    finally:
        for process in (first, second):
            if process.returncode is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
                await process.wait()


async def _led_by(client: Client, other_than: str) -> bool:
    leases = await client.list(LEASES, namespace="default", fields="metadata.name=koord-scheduler")
    return any(lease.spec.holder_identity not in ("", other_than) for lease in leases)
