"""An API server that does not answer costs a node's services nothing: rounds go on, and emergencies are met first."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from koord.agent.host.knobs import CPU_QUOTA
from koord.agent.live.api_requests import ApiRequests
from koord.agent.live.run import AgentOptions, Daemon, run
from koord.agent.pods import BATCH_CPU, BATCH_MEMORY
from koord.agent.qos.strategy import Sight, Strategy, Turn
from koord.agent.state import DEFAULT_GATES
from koord.api.configuration.features import AgentGate
from koord.api.kinds import NODE_METRICS, NODE_SLOS, NODES
from koord.api.kubernetes.access import MASTERS, UserInfo
from koord.api.kubernetes.cgroup import pod_dir, qos_dir
from koord.api.kubernetes.words import KubeQoS
from koord.kube.client import Client
from koord.kube.clock import Clock, SystemClock
from koord.kube.cluster_config import ClusterConfig
from koord_minicluster.apiserver.server import ApiServer, ServeOptions
from koord_minicluster.up.bootstrap import bootstrap
from tests.agent.live.test_daemon import DRIVER, NODE, FakeKubelet, ready_node, working
from tests.agent.trees import GIB, Tree
from tests.scheduler.live.embedded import NO_TAINTS, node_manifest, serving
from tests.waiting import LONGEST_S, eventually, turns

ROUND_S = 0.1
A_SECOND = 10
"In rounds."
MANNERS = ["hangs", "refuses", "answers 429", "answers after 20 s"]
TOKEN = "test"
CORES = 8
BEST_EFFORT = qos_dir(KubeQoS.BEST_EFFORT, DRIVER)


@dataclass
class Proxy:
    """In front of a real API server; it answers as a test says."""

    upstream: str
    manner: str = "passes"
    asked: list[str] = field(default_factory=list)
    "While it does not pass requests on."
    _runner: web.ServerRunner | None = None
    _site: web.TCPSite | None = None

    async def behave(self, manner: str) -> None:
        self.manner = manner
        if manner == "refuses":
            assert self._site is not None
            assert self._runner is not None
            assert self._runner.server is not None
            await self._site.stop()
            for connection in self._runner.server.connections:
                connection.force_close()

    def _holds_back(self, until_s: float) -> bool:
        return self.manner == "hangs" or (self.manner == "answers after 20 s" and time.monotonic() < until_s)

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        if self.manner != "passes":
            self.asked.append(f"{request.method} {request.path}")
        if self.manner == "answers 429":
            return web.Response(status=429, headers={"Retry-After": "1"}, text="later")
        until_s = time.monotonic() + 20
        await eventually(lambda: not self._holds_back(until_s), LONGEST_S)
        headers = {name: value for name, value in request.headers.items() if name not in ("Host", "Content-Length")}
        headers["Authorization"] = f"Bearer {TOKEN}"
        body, url = await request.read(), f"{self.upstream}{request.path_qs}"
        async with (
            aiohttp.ClientSession() as session,
            session.request(request.method, url, headers=headers, data=body, ssl=False) as response,
        ):
            said = web.StreamResponse(status=response.status, headers={"Content-Type": response.content_type})
            await said.prepare(request)
            with suppress(ConnectionError):
                async for part in response.content.iter_any():
                    await said.write(part)
                await said.write_eof()
            return said

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        self._runner = web.ServerRunner(web.Server(self.answer), shutdown_timeout=0.1)
        await self._runner.setup()
        self._site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await self._site.start()
        try:
            yield f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        finally:
            self.manner = "passes"
            await self._runner.cleanup()


@dataclass
class Machine:
    """A composed host on which time passes: its counters grow by what pods use."""

    tree: Tree
    web_cores: float = 0.5
    memory: int = 4 * GIB
    rounds: int = 0
    _used_s: float = 0.0

    @property
    def quota_us(self) -> int:
        quota = self.tree.cgroups.get(CPU_QUOTA, BEST_EFFORT)
        assert isinstance(quota, int)
        return quota

    def pass_time(self, seconds: float) -> None:
        self._used_s += seconds * self.web_cores
        self.tree.node_usage(busy_ticks=int(self._used_s * 100), memory_used_bytes=self.memory)
        self.tree.used(pod_dir("web", KubeQoS.BURSTABLE, DRIVER), cpu_ns=int(self._used_s * 1e9))

    async def run(self) -> None:
        before_s = time.monotonic()
        while True:
            await asyncio.sleep(0.02)
            now_s = time.monotonic()
            self.pass_time(now_s - before_s)
            before_s = now_s

    def has_rounds(self, number: int) -> bool:
        return self.rounds >= number

    def count_rounds(self, daemon: Daemon) -> None:
        """By one strategy more, which wants nothing."""

        def count(sight: Sight, held: None, memory: None) -> Turn[None]:
            self.rounds += 1
            return Turn(None, None)

        counting: Strategy[None, None] = Strategy("counting", (AgentGate.BE_CPU_SUPPRESS,), None, count)
        daemon.agent.strategies = (*daemon.agent.strategies, counting)


def pod(name: str, labels: dict[str, str], priority: int, resources: dict[str, Any]) -> dict[str, Any]:
    running = [{"name": "main", "containerID": f"containerd://{name}-main", "state": {"running": {}}}]
    return {
        "metadata": {"namespace": "ns", "name": name, "uid": name, "labels": labels},
        "spec": {"containers": [{"name": "main", "resources": resources}], "priority": priority},
        "status": {"phase": "Running", "containerStatuses": running},
    }


BATCH = {BATCH_CPU: "1000", BATCH_MEMORY: str(GIB)}
WEB = pod("web", {"koordinator.sh/qosClass": "LS"}, 9500, {"requests": {"cpu": "4"}})
JOB = pod("job", {"koordinator.sh/qosClass": "BE"}, 5500, {"requests": BATCH, "limits": BATCH})
SLO = {
    "resourceUsedThresholdWithBE": {
        "enable": True,
        "cpuSuppressPolicy": "cfsQuota",
        "cpuSuppressThresholdPercent": 65,
        "memoryEvictThresholdPercent": 70,
    }
}


class LateClock(SystemClock):
    """The machine's, ahead by as much as a test says."""

    later_s = 0.0

    def now(self) -> float:
        return super().now() + self.later_s

    def monotonic(self) -> float:
        return super().monotonic() + self.later_s


@contextmanager
def ended(task: asyncio.Task[None]) -> Iterator[None]:
    try:
        yield
    finally:
        task.cancel()


@asynccontextmanager
async def story(folder: Path, clock: Clock | None = None) -> AsyncIterator[tuple[Machine, Proxy]]:
    """A node with a service and a job, looked after by an agent that reaches its API server through a proxy."""
    tree = Tree(folder / "host", driver=DRIVER, cores=CORES, threads=1)
    tree.pod("web", KubeQoS.BURSTABLE, "web-main")
    tree.pod("job", KubeQoS.BEST_EFFORT, "job-main")
    machine = Machine(tree)
    tokens = {TOKEN: UserInfo("admin", groups=(MASTERS,))}
    served = ServeOptions(folder / "api", durability="fast", disabled_admission=NO_TAINTS, tokens=tokens)
    gates = {**DEFAULT_GATES, AgentGate.BE_MEMORY_EVICT: True}
    async with ApiServer(served) as api:
        proxy = Proxy(api.url)
        async with (
            proxy.serving() as address,
            FakeKubelet([WEB, JOB]).serving() as kubelet,
            Client(ClusterConfig(server=address)) as client,
        ):
            await bootstrap(client)
            await client.create(NODES, node_manifest(NODE, cpu=str(CORES)))
            await client.create(NODE_SLOS, {"metadata": {"name": NODE}, "spec": SLO})
            await client.create(NODE_METRICS, {"metadata": {"name": NODE}, "spec": {}})
            options = AgentOptions(NODE, str(tree.root), "", folder / "state", kubelet, round_s=ROUND_S, kubelet_s=1.0)
            options = replace(options, gates=gates)
            with ended(asyncio.create_task(machine.run())):
                async with working(client, options, machine.count_rounds, clock):
                    # 65% of eight cores, less what the service uses.
                    await eventually(lambda: 300_000 < machine.quota_us <= 520_000)
                    yield machine, proxy


@pytest.mark.parametrize("manner", MANNERS)
async def test_a_service_has_its_cpus_back_within_a_second_whatever_the_api_server_does(
    tmp_path: Path, manner: str
) -> None:
    async with story(tmp_path) as (machine, proxy):
        await proxy.behave(manner)
        # Memory is short: the agent asks the API server to evict the job.
        machine.memory = 12 * GIB
        before = machine.rounds
        await eventually(lambda: machine.rounds > before + A_SECOND, 20)
        assert manner == "refuses" or any("eviction" in each or "nodes/" in each for each in proxy.asked)
        machine.web_cores, before = 4.0, machine.rounds
        # 5.2 cores less 4, as well as a busy machine keeps time.
        await eventually(lambda: machine.quota_us <= 200_000, 20)
        assert machine.rounds - before <= A_SECOND


async def test_after_an_hour_without_the_api_server_services_still_have_their_cpus_back(tmp_path: Path) -> None:
    clock = LateClock()
    async with story(tmp_path, clock) as (machine, proxy):
        await proxy.behave("hangs")
        for _ in range(360):
            seen = machine.rounds
            clock.later_s += 10.0
            machine.pass_time(10.0)
            await eventually(partial(machine.has_rounds, seen + 1), 20)
        machine.web_cores, before = 4.0, machine.rounds
        await eventually(lambda: machine.quota_us <= 200_000, 20)
        assert machine.rounds - before <= A_SECOND


@pytest.mark.parametrize("manner", MANNERS)
async def test_an_emergency_is_met_before_the_api_server_is_asked(tmp_path: Path, manner: str) -> None:
    victim = await asyncio.create_subprocess_exec("sleep", "60")
    try:
        async with story(tmp_path) as (machine, proxy):
            container = f"{pod_dir('job', KubeQoS.BEST_EFFORT, DRIVER)}/job-main"
            machine.tree.write(f"sys/fs/cgroup/{container}/cgroup.procs", f"{victim.pid}\n")
            await proxy.behave(manner)
            before = machine.rounds
            machine.memory = int(15.7 * GIB)
            assert await asyncio.wait_for(victim.wait(), 60) == -9
            assert machine.rounds - before <= A_SECOND
    finally:
        with suppress(ProcessLookupError):
            victim.kill()


async def test_requests_are_made_a_few_at_a_time_and_of_one_key_one_after_the_other() -> None:
    requests, begun, ends = ApiRequests(at_once=2), list[str](), asyncio.Event()

    async def request(name: str) -> None:
        begun.append(name)
        await ends.wait()

    with ended(asyncio.create_task(requests.run())):
        for key in ("a", "b", "c"):
            assert requests.put((key,), partial(request, key))
        await eventually(lambda: len(begun) == 2)
        assert requests.put(("a",), partial(request, "a, older"))
        assert requests.put(("a",), partial(request, "a, newer"))
        assert ("a",) in requests
        await turns()
        assert begun == ["a", "b"]
        ends.set()
        await eventually(lambda: begun == ["a", "b", "c", "a, newer"])
        await eventually(lambda: ("a",) not in requests)


async def test_a_request_that_fails_unexpectedly_ends_the_agent_which_says_why(tmp_path: Path) -> None:
    async def request() -> None:
        raise RuntimeError("a defect")

    def ask(daemon: Daemon) -> None:
        daemon.requests.put(("a",), request)

    tree = Tree(tmp_path / "host", driver=DRIVER)
    async with serving(tmp_path / "api") as client:
        await ready_node(client)
        options = AgentOptions(NODE, str(tree.root), "", tmp_path / "state", "http://127.0.0.1:9")
        with pytest.raises(RuntimeError, match="a defect"):
            await asyncio.wait_for(run(client, options, on_start=ask), 60)
