"""Services on this machine's kernel while what the agent relies on fails: API server, kubelet, disk, itself."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner

from koord.agent.host import usage
from koord.agent.host.cgroups import Cgroups
from koord.agent.host.convert import MOST_SHARES, PERIOD_US
from koord.agent.host.knobs import CPU_QUOTA, CPU_SHARES, CPUSET_CPUS, MEMORY_LIMIT
from koord.agent.live.run import AgentOptions
from koord.agent.pods import BATCH_CPU, BATCH_MEMORY
from koord.api.kinds import NODE_METRICS, NODE_SLOS, NODES
from koord.api.kubernetes.access import MASTERS, UserInfo
from koord.api.kubernetes.cgroup import CgroupDriver, pod_dir, qos_dir
from koord.api.kubernetes.words import KubeQoS
from koord.api.text.cpuset import CPUSet
from koord.cli.agent import agent as command
from koord.kube.client import Client
from koord.kube.cluster_config import ClusterConfig
from koord_chaos.faults.live.small_disk import SmallDisk, small_disk
from koord_minicluster.apiserver.server import ApiServer, ServeOptions
from koord_minicluster.up.bootstrap import bootstrap
from tests.agent.agent_process import agent_process
from tests.agent.live.test_daemon import NODE
from tests.agent.live.test_hung_api import TOKEN, Proxy
from tests.agent.loads import Level, Process, burn, cores
from tests.agent.real import limit_cpu, make, real_cgroups
from tests.agent.real_node import settings_below, suppressed
from tests.agent.test_real_restart import OWN, WEB, Kubelet, kubelet_pod, same
from tests.crowd import crowd
from tests.scheduler.live.embedded import NO_TAINTS, node_manifest
from tests.waiting import eventually

pytestmark = pytest.mark.root

DRIVER = CgroupDriver.CGROUPFS
MIB = 1 << 20
CALM, BUSY = 0.15, 0.45
"What the service uses, in cores of a node of one."
HELD_CORES = 0.3
"What best effort has at most beside a busy service: 65% of the node, less 0.45 and what its agent's kernel takes."
WITHIN_S = 1.0
ROUND_S = 0.25
DISK_SIZE = "256k"
JOB = kubelet_pod("job", "BE", same({BATCH_CPU: "2000", BATCH_MEMORY: str(64 * MIB)}))
PODS_HERE = {"own": KubeQoS.GUARANTEED, "web": KubeQoS.BURSTABLE, "job": KubeQoS.BEST_EFFORT}
SLO = {**suppressed("cfsQuota"), "resourceQOSStrategy": {"beClass": {"cpuQOS": {"enable": True}}}}


def main(name: str) -> str:
    return f"{pod_dir(name, PODS_HERE[name], DRIVER)}/{name}-main"


@dataclass
class Story:
    cgroups: Cgroups
    demand: Level
    proxy: Proxy
    kubelet: Kubelet
    options: AgentOptions
    disk: SmallDisk
    "With what the agent keeps."
    kubeconfig: Path
    untouched: dict[str, str]
    "As the node was before any agent."

    @property
    def best_effort_cores(self) -> float:
        quota = self.cgroups.get(CPU_QUOTA, qos_dir(KubeQoS.BEST_EFFORT, DRIVER))
        assert isinstance(quota, int)
        return quota / PERIOD_US if quota > 0 else float("inf")

    def used_s(self) -> float:
        return usage.cpu_ns(self.cgroups, main("web")) / 1e9

    def is_looked_after(self) -> bool:
        return self.are_pinned() and self.best_effort_cores <= 0.65

    def are_pinned(self) -> bool:
        """Own CPUs and limits of memory."""
        cpus, limit = self.cgroups.get(CPUSET_CPUS, main("own")), self.cgroups.get(MEMORY_LIMIT, main("job"))
        others = self.cgroups.get(CPUSET_CPUS, main("web"))
        return cpus == CPUSet([1]) and limit == 64 * MIB and isinstance(others, CPUSet) and 1 not in others

    async def stay_pinned(self) -> None:
        while True:
            assert self.are_pinned()
            await asyncio.sleep(0.01)

    async def rises(self, within_s: float = WITHIN_S) -> None:
        """The service needs three times as much, and has it within that time; then best effort has what is left."""
        self.demand.set(BUSY)
        began_s = time.monotonic()
        await eventually(lambda: self.best_effort_cores <= HELD_CORES)
        took_s = time.monotonic() - began_s
        assert took_s <= within_s * crowd(), "best effort was held back too late"
        at_s, used_s = time.monotonic(), self.used_s()
        await asyncio.sleep(1.0)
        assert (self.used_s() - used_s) / (time.monotonic() - at_s) >= 0.9 * BUSY
        self.demand.set(CALM)

    async def is_calm(self) -> None:
        await eventually(lambda: self.best_effort_cores > HELD_CORES)

    def restored(self) -> dict[str, str]:
        arguments = ["--cgroup-root", self.cgroups.root, "--state-dir", str(self.options.state_dir), "restore"]
        result = CliRunner().invoke(command, arguments, standalone_mode=False)
        assert result.return_value == 0, result.output
        return settings_below(self.cgroups, "")


@contextmanager
def machine() -> Iterator[tuple[Cgroups, Level]]:
    """A node of one core. The largest weight makes its own processes all that matters on a busy machine."""
    with real_cgroups(DRIVER) as cgroups, ExitStack() as running:
        if len(CPUSet.parse(Path("/sys/devices/system/cpu/online").read_text())) < 2:
            pytest.skip("needs two CPUs")
        cgroups.set(CPU_SHARES, "", MOST_SHARES)
        limit_cpu(cgroups, "", 1000)
        for name, qos in PODS_HERE.items():
            make(cgroups, pod_dir(name, qos, DRIVER))
            make(cgroups, main(name))
        demand = Level(CALM)
        running.enter_context(Process(cgroups, main("web"), cores(demand)))
        running.enter_context(Process(cgroups, main("job"), burn))
        yield cgroups, demand


@asynccontextmanager
async def story(folder: Path) -> AsyncIterator[Story]:
    tokens = {TOKEN: UserInfo("admin", groups=(MASTERS,))}
    served = ServeOptions(folder / "api", durability="fast", disabled_admission=NO_TAINTS, tokens=tokens)
    kubelet = Kubelet([OWN, WEB, JOB])
    async with AsyncExitStack() as stack:
        disk = stack.enter_context(small_disk(folder / "disk", DISK_SIZE))
        cgroups, demand = stack.enter_context(machine())
        untouched = settings_below(cgroups, "")
        api = await stack.enter_async_context(ApiServer(served))
        proxy = Proxy(api.url)
        address = await stack.enter_async_context(proxy.serving())
        kubelet_address = await stack.enter_async_context(kubelet.serving())
        async with Client(ClusterConfig(server=address)) as client:
            await bootstrap(client)
            await client.create(NODES, node_manifest(NODE, cpu="1"))
            await client.create(NODE_SLOS, {"metadata": {"name": NODE}, "spec": SLO})
            await client.create(NODE_METRICS, {"metadata": {"name": NODE}, "spec": {}})
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_text(
            f"clusters: [{{name: c, cluster: {{server: '{address}'}}}}]\n"
            "contexts: [{name: c, context: {cluster: c, user: u}}]\nusers: [{name: u, user: {}}]\ncurrent-context: c\n"
        )
        options = AgentOptions(
            NODE, "/", cgroups.root, disk.path / "agent", kubelet_address, round_s=ROUND_S, kubelet_s=0.5
        )
        try:
            yield Story(cgroups, demand, proxy, kubelet, options, disk, kubeconfig, untouched)
        finally:
            # Its server ends when all requests have an answer.
            kubelet.manner = "answers"


async def test_services_have_their_cpus_back_within_a_second_whatever_fails(tmp_path: Path) -> None:
    async with story(tmp_path) as node, agent_process(node.kubeconfig, node.options):
        await eventually(node.is_looked_after)
        pinned = asyncio.create_task(node.stay_pinned())
        await node.proxy.behave("hangs")
        await node.rises()
        await node.is_calm()
        node.kubelet.manner = "hangs"
        node.disk.fill()
        await node.proxy.behave("refuses")
        await node.rises()
        assert not pinned.done(), pinned.exception()
        pinned.cancel()


async def test_an_agent_that_starts_while_all_else_fails_goes_on_where_the_last_one_ended(tmp_path: Path) -> None:
    async with story(tmp_path) as node:
        async with agent_process(node.kubeconfig, node.options):
            await eventually(node.is_looked_after)
            await node.rises()
            await node.is_calm()
        pinned = asyncio.create_task(node.stay_pinned())
        await node.proxy.behave("hangs")
        node.kubelet.manner = "hangs"
        node.disk.fill()
        for demand in (BUSY, CALM):
            async with agent_process(node.kubeconfig, node.options, until_ready=False):
                node.demand.set(demand)
                await eventually(lambda: (node.best_effort_cores <= HELD_CORES) == (node.demand.get() == BUSY))
        async with agent_process(node.kubeconfig, node.options, until_ready=False):
            await node.rises()
        assert not pinned.done(), pinned.exception()
        pinned.cancel()
        node.disk.make_room()
        assert node.restored() == node.untouched
