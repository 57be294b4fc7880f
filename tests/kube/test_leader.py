"""Leader election against a real API server: candidates are processes that are killed, frozen and thawed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from koord.api.kinds import CONFIG_MAPS, LEASES, NAMESPACES
from koord.api.kubernetes.core import ConfigMap
from koord.kube.client import Client
from koord.kube.election import NotLeader, Timing
from koord.kube.errors import AlreadyExists, NotFound
from koord.kube.leader import LeaderElection, run_as_leader
from tests.control_plane import ControlPlane
from tests.crowd import crowd
from tests.waiting import eventually, forever

pytestmark = pytest.mark.cluster

NAMESPACE = "leader-test"
SHORT = Timing(lease_duration_s=3, renew_deadline_s=2.0, retry_period_s=0.3)

CALM = Timing(lease_duration_s=8, renew_deadline_s=6.0, retry_period_s=0.3)
"""Of candidates that are processes: an API server that shares its cores with other tests may take seconds to answer."""

CANDIDATE = """
import asyncio, signal, sys
from koord.api.kinds import CONFIG_MAPS
from koord.kube.client import Client
from koord.kube.election import NotLeader, Timing
from koord.kube.leader import run_as_leader

kubeconfig, namespace, name, identity, lease_s, deadline_s, retry_s = sys.argv[1:]

async def work(leader):
    number = 0
    while True:
        number += 1
        try:
            await leader.client.patch(
                CONFIG_MAPS, name, {"data": {"writer": identity, "number": str(number)}}, namespace=namespace
            )
        except NotLeader:
            print("fenced", flush=True)
            await asyncio.sleep(60)
        await asyncio.sleep(0.01)

async def main():
    me = asyncio.current_task()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, me.cancel)
    timing = Timing(int(lease_s), float(deadline_s), float(retry_s))
    async with Client.from_config(kubeconfig) as client:
        await run_as_leader(
            client, work, name=name, namespace=namespace, identity=identity, timing=timing,
            on_change=lambda leads: print("leads:", leads, flush=True),
        )

asyncio.run(main())
"""


@pytest.fixture
async def client(control_plane: ControlPlane) -> AsyncIterator[Client]:
    async with Client.from_config(str(control_plane.kubeconfig)) as client:
        with contextlib.suppress(AlreadyExists):
            await client.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
        yield client


class Candidates:
    """Processes that stand for one lease and, leading, write their name and a number into a ConfigMap."""

    def __init__(self, kubeconfig: Path, name: str) -> None:
        self.kubeconfig, self.name = kubeconfig, name
        self.processes: dict[str, asyncio.subprocess.Process] = {}
        self.history: list[tuple[str, int]] = []

    async def start(self, identity: str) -> None:
        self.processes[identity] = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            CANDIDATE,
            str(self.kubeconfig),
            NAMESPACE,
            self.name,
            identity,
            *map(str, (CALM.lease_duration_s, CALM.renew_deadline_s, CALM.retry_period_s)),
            stdout=asyncio.subprocess.PIPE,
        )

    async def stands(self, identity: str) -> None:
        """The candidate runs, and does not lead."""
        output = self.processes[identity].stdout
        assert output is not None
        assert await asyncio.wait_for(output.readline(), 60) == b"leads: False\n"

    def signal(self, identity: str, number: signal.Signals) -> None:
        self.processes[identity].send_signal(number)

    async def record(self, client: Client, since: str) -> None:
        """Every write that the server took, in its order."""
        async with contextlib.aclosing(
            client.watch(CONFIG_MAPS, namespace=NAMESPACE, fields=f"metadata.name={self.name}", resource_version=since)
        ) as batches:
            async for batch in batches:
                for event in batch:
                    data = json.loads(bytes(event.object)).get("data", {})
                    if data.get("writer"):
                        self.history.append((data["writer"], int(data["number"])))

    def writers(self) -> list[str]:
        """The writers, in order, without repetitions: two names each at most once means never two writers."""
        found: list[str] = []
        for writer, _ in self.history:
            if not found or found[-1] != writer:
                found.append(writer)
        return found

    async def goes_on(self, identity: str, writes: int, within_s: float = 60.0) -> None:
        """N more writes come. A candidate that a slow server cost its lease is started again, as it would be."""
        before = len(self.history)

        async def has_written() -> bool:
            if self.processes[identity].returncode is not None:
                await self.start(identity)
            return len(self.history) > before + writes

        await eventually(has_written, within_s)

    async def writes(self, identity: str, within_s: float = 60.0) -> None:
        await eventually(lambda: bool(self.history) and self.history[-1][0] == identity, within_s)

    async def end(self) -> None:
        for process in self.processes.values():
            if process.returncode is None:
                process.kill()
            await process.wait()


@contextlib.asynccontextmanager
async def candidates(client: Client, plane: ControlPlane, name: str) -> AsyncIterator[Candidates]:
    created = await client.create(CONFIG_MAPS, {"metadata": {"name": name, "namespace": NAMESPACE}})
    group = Candidates(plane.kubeconfig, name)
    watching = asyncio.create_task(group.record(client, created.metadata.resource_version))
    try:
        await group.start("first")
        await group.writes("first")
        await group.start("second")
        await group.stands("second")
        await group.goes_on("first", 50)
        assert group.writers() == ["first"]
        yield group
    finally:
        watching.cancel()
        await asyncio.wait([watching])
        await group.end()


async def test_a_killed_leader_is_followed_by_the_other(client: Client, control_plane: ControlPlane) -> None:
    async with candidates(client, control_plane, "killed") as group:
        group.signal("first", signal.SIGKILL)
        await group.writes("second")
        assert group.writers() == ["first", "second"]
    lease = await client.get(LEASES, "killed", namespace=NAMESPACE)
    assert lease.spec.lease_transitions == 1
    assert lease.spec.holder_identity == "second"
    assert lease.spec.lease_duration_seconds == CALM.lease_duration_s


async def test_a_frozen_leader_never_writes_after_it_thaws(client: Client, control_plane: ControlPlane) -> None:
    async with candidates(client, control_plane, "frozen") as group:
        group.signal("first", signal.SIGSTOP)
        await group.writes("second")
        group.signal("first", signal.SIGCONT)
        await group.goes_on("second", 50)
        assert group.writers() == ["first", "second"]


async def test_a_leader_frozen_shorter_than_the_lease_but_past_its_deadline_stays_fenced(
    client: Client, control_plane: ControlPlane
) -> None:
    async with candidates(client, control_plane, "nearly") as group:
        group.signal("first", signal.SIGSTOP)
        await asyncio.sleep((CALM.renew_deadline_s + CALM.lease_duration_s) / 2)
        group.signal("first", signal.SIGCONT)
        await group.writes("second")
        assert group.writers() == ["first", "second"]


async def test_a_terminated_leader_hands_over_within_three_seconds(client: Client, control_plane: ControlPlane) -> None:
    async with candidates(client, control_plane, "terminated") as group:
        started = time.monotonic()
        group.signal("first", signal.SIGTERM)
        await group.writes("second")
        assert time.monotonic() - started < 3.0 * crowd()
        assert group.writers() == ["first", "second"]


async def test_leaving_releases_the_lease_as_client_go_does(client: Client) -> None:
    async with LeaderElection(client, name="released", namespace=NAMESPACE, identity="me", timing=CALM) as leader:
        await asyncio.wait_for(leader.acquired(), 60)
        assert leader.leading
        held = await client.get(LEASES, "released", namespace=NAMESPACE)
        assert held.spec.holder_identity == leader.holder == "me"
        assert held.spec.lease_transitions == 0
    freed = await client.get(LEASES, "released", namespace=NAMESPACE)
    assert freed.spec.holder_identity == ""
    assert freed.spec.lease_duration_seconds == 1
    assert leader.lost.is_set()
    with pytest.raises(NotLeader):
        await leader.client.patch(CONFIG_MAPS, "any", {}, namespace=NAMESPACE)


async def test_a_stolen_lease_ends_the_work_and_is_not_released(client: Client) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def work(leader: LeaderElection) -> None:
        begun.set()
        try:
            await forever()
        finally:
            ended.set()

    run = asyncio.create_task(
        run_as_leader(client, work, name="stolen", namespace=NAMESPACE, identity="me", timing=CALM)
    )
    await asyncio.wait_for(begun.wait(), 60)
    thief = {"spec": {"holderIdentity": "thief", "renewTime": "2026-11-01T00:00:00.000000Z"}}
    await client.patch(LEASES, "stolen", thief, namespace=NAMESPACE)
    with pytest.raises(NotLeader):
        await asyncio.wait_for(run, 60)
    assert ended.is_set()
    lease = await client.get(LEASES, "stolen", namespace=NAMESPACE)
    assert lease.spec.holder_identity == "thief"


async def test_a_leader_whose_lease_is_deleted_makes_it_again_and_leads_on(client: Client) -> None:
    async with LeaderElection(client, name="lost", namespace=NAMESPACE, timing=SHORT) as leader:
        await leader.acquired()
        await client.delete(LEASES, "lost", namespace=NAMESPACE)
        lease = await eventually(lambda: client.get(LEASES, "lost", namespace=NAMESPACE), retry_on=NotFound)
        assert lease.spec.holder_identity == leader.identity
        assert leader.leading


class Answers:
    """What the server answered to a client."""

    def __init__(self) -> None:
        self.codes: list[int | None] = []

    def answered(self, method: str, code: int | None, took_s: float) -> None:
        self.codes.append(code)

    def retried(self, method: str, code: int | None) -> None: ...


async def test_koords_own_namespace_is_made_and_another_is_asked_for(
    own_control_plane: ControlPlane, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    async def nothing(leader: LeaderElection) -> str:
        return "done"

    nobody = own_control_plane.write_kubeconfig(tmp_path / "nobody", {"token": "nobody-token"})
    own_control_plane.kubectl("create", "clusterrole", "leads", "--resource=leases", "--verb=get,create,patch")
    own_control_plane.kubectl("create", "clusterrolebinding", "leads", "--clusterrole=leads", "--user=nobody")
    answers = Answers()
    async with Client.from_config(str(nobody)) as stranger:
        stranger.observe(answers)
        for namespace in ("koordinator-system", "koordinator-sytem"):
            answers.codes.clear()
            async with LeaderElection(stranger, name="n", namespace=namespace, timing=CALM):
                await eventually(lambda: len(answers.codes) >= 6)
    said = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert len(said) == 2, "each once, however often it was tried"
    assert "no namespace koordinator-system, and it could not be created" in said[0]
    assert "kubectl create namespace koordinator-system" in said[0]
    assert "no namespace koordinator-sytem: make it (kubectl create namespace koordinator-sytem)" in said[1]
    async with Client.from_config(str(own_control_plane.kubeconfig)) as client:
        assert await run_as_leader(client, nothing, name="n", timing=CALM) == "done"
        await client.get(NAMESPACES, "koordinator-system")


async def test_the_result_of_the_work_comes_back(client: Client) -> None:
    async def work(leader: LeaderElection) -> str:
        made = await leader.client.create(CONFIG_MAPS, {"metadata": {"name": "made-by-leader", "namespace": NAMESPACE}})
        assert isinstance(made, ConfigMap)
        return "done"

    told: list[bool] = []
    result = await asyncio.wait_for(
        run_as_leader(client, work, name="result", namespace=NAMESPACE, timing=CALM, on_change=told.append), 30
    )
    assert result == "done"
    assert told == [False, True, False]


async def test_leadership_ends_at_the_deadline_when_the_server_is_away(own_control_plane: ControlPlane) -> None:
    plane = own_control_plane
    async with (
        Client.from_config(str(plane.kubeconfig)) as client,
        LeaderElection(client, name="away", namespace="default", timing=SHORT) as leader,
    ):
        await asyncio.wait_for(leader.acquired(), 60)
        os.kill(plane.pid(), signal.SIGSTOP)
        stopped = time.monotonic()
        try:
            await asyncio.wait_for(leader.lost.wait(), 60)
            assert time.monotonic() - stopped <= SHORT.renew_deadline_s + 0.5 * crowd()
            with pytest.raises(NotLeader):
                leader.check()
        finally:
            os.kill(plane.pid(), signal.SIGCONT)
