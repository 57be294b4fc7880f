"""Managers that are restarted one after the other, while pods are created that need one: no request fails.

The managers are processes behind one address, as behind a Service: it leads new connections to replicas that are ready,
hears of a change a while after it happened, and does not try another replica if one refuses.
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from koord.api.kinds import PODS
from koord.kube.client import Client
from koord.kube.errors import ApiError
from koord.kube.locate import locate
from koord.kube.program import own_program
from tests.control_plane import ControlPlane, free_port
from tests.manager.live.webhooks import forget, pod, prepare
from tests.minicluster.apiserver.server_process import ServerProcess
from tests.scheduler.live.servers import carry
from tests.waiting import eventually

LAG_S = 0.5
"""How late nodes hear that a replica is not ready any more."""
DELAY_S = 2
CREATORS = 4
QOS = "koordinator.sh/qosClass"


@dataclass
class Manager:
    """One replica. All listen on the same port, and each on an address of its own, like pods."""

    host: str
    port: int
    kubeconfig: Path
    log: Path
    health: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        options = (
            f"--kubeconfig={self.kubeconfig}",
            f"--webhook-address={self.host}:{self.port}",
            "--webhook-host=127.0.0.1",
            f"--metrics-address=127.0.0.1:{self.health}",
            f"--shutdown-delay={DELAY_S}",
        )
        with self.log.open("ab") as log:
            self.process = subprocess.Popen([*own_program(), "manager", *options], stdout=log, stderr=log)

    async def ready(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.log.read_text()[-4000:]
        return await asyncio.to_thread(self.is_ready)

    def is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.health}/readyz", timeout=5):
                return True
        except (OSError, urllib.error.URLError):
            return False

    async def end(self) -> int:
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return await asyncio.to_thread(self.process.wait, 60)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait(timeout=60)


@dataclass
class Service:
    managers: list[Manager]
    endpoints: list[Manager] = field(default_factory=list)
    turn: count[int] = field(default_factory=count)

    async def follow(self) -> None:
        """Readiness, as nodes hear of it."""
        while True:
            ready = [manager for manager in self.managers if await asyncio.to_thread(manager.is_ready)]
            await asyncio.sleep(LAG_S)
            self.endpoints = ready

    def endpoints_have(self, manager: Manager) -> bool:
        return manager in self.endpoints

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            target = self.endpoints[next(self.turn) % len(self.endpoints)]
            far_reader, far_writer = await asyncio.open_connection(target.host, target.port)
        except (OSError, ZeroDivisionError):
            writer.transport.abort()
            return
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(carry(reader, far_writer))
            tasks.create_task(carry(far_reader, writer))


@asynccontextmanager
async def replicas(kubeconfig: Path, folder: Path) -> AsyncIterator[Service]:
    port = free_port()
    managers = [Manager(f"127.0.1.{n + 1}", port, kubeconfig, folder / f"manager-{n}.log") for n in range(2)]
    service = Service(managers)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(await asyncio.start_server(service.connected, "127.0.0.1", port))
        for manager in managers:
            stack.callback(manager.kill)
            manager.start()
        for manager in managers:
            await eventually(manager.ready)
        following = asyncio.create_task(service.follow())
        stack.callback(following.cancel)
        await eventually(lambda: len(service.endpoints) == len(managers))
        yield service


@pytest.fixture(params=["embedded", pytest.param("real", marks=pytest.mark.cluster)])
def kubeconfig(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    if request.param == "real":
        plane: ControlPlane = request.getfixturevalue("own_control_plane")
        yield plane.kubeconfig
        return
    with ServerProcess(tmp_path / "data", "--durability", "fast"):
        yield tmp_path / "data" / "kubeconfig"


async def test_no_request_fails_while_managers_restart_under_load(kubeconfig: Path, tmp_path: Path) -> None:
    failures: list[str] = []
    admitted = 0

    async def create(client: Client, creator: int) -> None:
        nonlocal admitted
        for number in count():
            # A pod that uses koord waits for a manager; without one it is refused.
            batch = pod(f"p-{creator}-{number}", "shop", labels={QOS: "LS"})
            try:
                await client.create(PODS, batch)
                admitted += 1
            except ApiError as error:
                failures.append(str(error))
            await asyncio.sleep(0.01)

    async def more(pods: int) -> None:
        before = admitted
        await eventually(lambda: admitted > before + pods)

    async with Client(locate(str(kubeconfig))) as client:
        await prepare(client, "shop")
        async with replicas(kubeconfig, tmp_path) as service:
            creating = [asyncio.create_task(create(client.limited(attempts=1), n)) for n in range(CREATORS)]
            await more(20)
            for manager in service.managers:
                assert await manager.end() == 0, manager.log.read_text()[-2000:]
                await more(20)
                manager.start()
                await eventually(manager.ready)
                await eventually(partial(service.endpoints_have, manager))
            for task in creating:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
        await forget(client)
    assert failures == []
