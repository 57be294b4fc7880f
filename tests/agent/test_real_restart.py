"""An agent that starts on a node where another was killed: what it does not know yet changes nothing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from koord.agent.host.cgroups import Cgroups
from koord.agent.host.knobs import CPUSET_CPUS, MEMORY_LIMIT
from koord.agent.host.time_slices import LONG, absence, slice_reader
from koord.agent.live.run import AgentOptions
from koord.agent.pods import BATCH_CPU, BATCH_MEMORY
from koord.api.kinds import NODE_SLOS, NODES
from koord.api.kubernetes.cgroup import CgroupDriver, pod_dir
from koord.api.kubernetes.words import KubeQoS
from koord.api.text.cpuset import CPUSet
from koord.kube.client import Client
from tests.agent.agent_process import agent_process
from tests.agent.live.test_daemon import NODE, FakeKubelet, ready_node, working
from tests.agent.loads import Process, nap
from tests.agent.real import limit_cpu, make, real_cgroups
from tests.agent.real_node import settings_below
from tests.scheduler.live.embedded import serving
from tests.waiting import LONGEST_S, eventually

pytestmark = pytest.mark.root

DRIVER = CgroupDriver.CGROUPFS
MIB = 1 << 20
SLO = {
    "resourceQOSStrategy": {each: {"cpuQOS": {"enable": True}} for each in ("lsrClass", "lsClass", "beClass")},
    "cpuBurstStrategy": {"policy": "cpuBurstOnly"},
    "resourceUsedThresholdWithBE": {"enable": False},
}


class Kubelet(FakeKubelet):
    """One that answers, hangs or fails, as a test says."""

    manner = "answers"

    async def answer(self, request: web.BaseRequest) -> web.Response:
        if self.manner == "answers":
            return await super().answer(request)
        self.asked += 1
        if self.manner == "fails":
            return web.Response(status=500, text="not now")
        await eventually(lambda: self.manner != "hangs", LONGEST_S)
        return web.Response(status=500, text="too late")


def kubelet_pod(name: str, qos: str, resources: dict[str, Any], **annotations: str) -> dict[str, Any]:
    running = [{"name": "main", "containerID": f"containerd://{name}-main", "state": {"running": {}}}]
    labels = {"koordinator.sh/qosClass": qos}
    return {
        "metadata": {"namespace": "ns", "name": name, "uid": name, "labels": labels, "annotations": annotations},
        "spec": {"containers": [{"name": "main", "resources": resources}]},
        "status": {"phase": "Running", "containerStatuses": running},
    }


def same(amounts: dict[str, str]) -> dict[str, Any]:
    return {"requests": amounts, "limits": amounts}


OWN = kubelet_pod(
    "own",
    "LSE",
    same({"cpu": "1", "memory": "64Mi"}),
    **{"scheduling.koordinator.sh/resource-status": json.dumps({"cpuset": "1"})},
)
WEB = kubelet_pod("web", "LS", {"requests": {"cpu": "500m"}, "limits": {"cpu": "1"}})
JOB = kubelet_pod("job", "BE", same({BATCH_CPU: "500", BATCH_MEMORY: str(64 * MIB)}))
PODS_HERE = {"own": KubeQoS.GUARANTEED, "web": KubeQoS.BURSTABLE, "job": KubeQoS.BEST_EFFORT}


@dataclass
class Machine:
    cgroups: Cgroups
    job: ExitStack
    "Ends the process of the job."
    job_process: int

    def main(self, name: str) -> str:
        return f"{pod_dir(name, PODS_HERE[name], DRIVER)}/{name}-main"

    def settings(self) -> dict[str, str]:
        """All that can be set in the node's cgroups, and the time slice of what runs in the job."""
        return {**settings_below(self.cgroups, ""), "job's time slice": slice_reader()(self.job_process) or ""}

    def is_looked_after(self) -> bool:
        """By an agent that has set everything that the pods and the NodeSLO ask for."""
        cgroups = self.cgroups
        return (
            cgroups.get(CPUSET_CPUS, self.main("own")) == CPUSet([1])
            and cgroups.get(MEMORY_LIMIT, self.main("job")) == 64 * MIB
            and slice_reader()(self.job_process) == str(LONG)
        )


@contextmanager
def machine() -> Iterator[Machine]:
    with real_cgroups(DRIVER) as cgroups, ExitStack() as running:
        if missing := absence(cgroups.files):
            pytest.skip(missing)
        for name, qos in PODS_HERE.items():
            make(cgroups, pod_dir(name, qos, DRIVER))
            make(cgroups, f"{pod_dir(name, qos, DRIVER)}/{name}-main")
        limit_cpu(cgroups, pod_dir("web", KubeQoS.BURSTABLE, DRIVER), 1000)
        limit_cpu(cgroups, f"{pod_dir('web', KubeQoS.BURSTABLE, DRIVER)}/web-main", 1000)
        job = f"{pod_dir('job', KubeQoS.BEST_EFFORT, DRIVER)}/job-main"
        yield Machine(cgroups, running, running.enter_context(Process(cgroups, job, nap)).pid)


@dataclass
class Story:
    machine: Machine
    client: Client
    kubelet: Kubelet
    options: AgentOptions
    untouched: dict[str, str]
    "As the node was before any agent."
    left: dict[str, str]
    "As the killed agent left it."

    async def still(self, asked: int = 8) -> None:
        """Nothing changes, until kubelet has been asked so often."""
        until = self.kubelet.asked + asked
        while self.kubelet.asked < until:
            assert self.machine.settings() == self.left
            await asyncio.sleep(0.02)


@asynccontextmanager
async def after_a_killed_agent(folder: Path) -> AsyncIterator[Story]:
    kubelet = Kubelet([OWN, WEB, JOB])
    with machine() as node:
        untouched = node.settings()
        async with serving(folder / "api") as client, kubelet.serving() as address:
            await ready_node(client)
            await client.patch(NODE_SLOS, NODE, {"spec": SLO})
            options = AgentOptions(NODE, "/", node.cgroups.root, folder / "state", address, round_s=0.1, kubelet_s=0.1)
            async with agent_process(folder / "api/kubeconfig", options):
                await eventually(node.is_looked_after)
                before = kubelet.asked
                await eventually(lambda: kubelet.asked > before + 5)
            yield Story(node, client, kubelet, options, untouched, node.settings())


@pytest.mark.parametrize(("manner", "asked"), [("hangs", 2), ("fails", 10)])
async def test_a_silent_kubelet_changes_nothing_and_its_answer_does(tmp_path: Path, manner: str, asked: int) -> None:
    async with after_a_killed_agent(tmp_path) as story:
        story.kubelet.manner = manner
        async with working(story.client, story.options):
            await story.still(asked)
            story.kubelet.manner = "answers"
            await story.still(10)
            story.kubelet.manner = manner
            await story.still(asked // 2)
            story.kubelet.manner, story.kubelet.pods = "answers", []
            await eventually(lambda: story.machine.settings() == _without_bands(story))


def _without_bands(story: Story) -> dict[str, str]:
    """As the node was, but for best effort's weight, which the NodeSLO asks for whatever pods there are."""
    bands = {key: value for key, value in story.left.items() if key == "kubepods/besteffort: cpu.shares"}
    return {**story.untouched, **bands}


async def test_the_first_answer_may_be_that_there_are_no_pods(tmp_path: Path) -> None:
    """Nothing runs in their directories any more, so kubelet has not merely forgotten them."""
    async with after_a_killed_agent(tmp_path) as story:
        story.kubelet.pods = []
        story.machine.job.close()
        async with working(story.client, story.options):
            await eventually(lambda: story.machine.settings() == {**_without_bands(story), "job's time slice": ""})


async def test_without_a_node_slo_or_a_node_nothing_changes(tmp_path: Path) -> None:
    """Both before the agent has seen one and after it is lost."""
    async with after_a_killed_agent(tmp_path) as story:
        await story.client.delete(NODE_SLOS, NODE)
        async with working(story.client, story.options):
            await story.still(10)
            await story.client.create(NODE_SLOS, {"metadata": {"name": NODE}, "spec": SLO})
            await story.still(10)
            await story.client.delete(NODE_SLOS, NODE)
            await story.still(5)
            await story.client.delete(NODES, NODE)
            await story.still(5)
        async with working(story.client, story.options):
            await story.still(5)
