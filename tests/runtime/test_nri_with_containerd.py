"""The NRI plugin with a containerd that has NRI, where one is: 1.7 or later, as `newer_containerd` finds it."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Iterator
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from koord.agent.adjustment import Adjustment, DeviceNode, MountPoint
from koord.agent.announced import Asking
from koord.agent.live import asked
from koord.api.configuration.features import AgentGate
from koord.runtime.cri import LinuxContainerResources
from koord.runtime.live.nri import NriOptions, run
from tests.agent.states import node
from tests.runtime.containerd import Containerd, containerd, newer_containerd
from tests.runtime.cri_client import client, printed
from tests.runtime.hook_server import register
from tests.runtime.test_nri import SPEC, Agent
from tests.runtime.test_proxy import SAYS, Processes, proxied, under_load
from tests.waiting import eventually

pytestmark = pytest.mark.runtime
NEWER = newer_containerd()


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[Containerd]:
    if NEWER is None:
        pytest.skip("put a containerd 2.x where $KUBEBUILDER_ASSETS points")
    with containerd(tmp_path, NEWER) as found:
        yield found


def said(file: Path) -> str:
    return file.read_text().strip()


def cgroups(parent: str, *containers: str) -> list[Path]:
    return [found for container in containers for found in Path(f"/sys/fs/cgroup/cpu{parent}").rglob(container)]


async def test_the_plugin_on_a_real_containerd(runtime: Containerd, tmp_path: Path) -> None:
    """Quota at the first instruction; one that runs is brought in line; beside another plugin; over a restart."""
    labels, annotations = {"koordinator.sh/qosClass": "BE"}, {"node.koordinator.sh/extended-resource-spec": SPEC}
    agents = {"koord": Agent(), "other": Agent(replace(node(slo={}), gates=dict.fromkeys(AgentGate, False)))}
    async with AsyncExitStack() as stack:
        cri = await stack.enter_async_context(client(runtime.socket))
        before = await cri.run_sandbox("before", runtime.parent, tmp_path, labels, annotations)
        running = await cri.create(before, "main", ["/bin/sleep", "1000"])
        await cri.start(running)
        quota = Path(f"/sys/fs/cgroup/cpu{runtime.parent}/besteffort/poduid-before/{running}/cpu.cfs_quota_us")
        assert said(quota) == "-1"
        in_line: list[str] = []
        for index, (name, agent) in enumerate(agents.items()):
            serving = await asked.serve(tmp_path / f"{name}.sock", agent.answer)
            stack.push_async_callback(serving.cleanup)
            options = NriOptions(str(runtime.nri), str(tmp_path / f"{name}.sock"), name, f"{index}0")
            plugin = asyncio.create_task(run(options, on_ready=partial(in_line.append, name)))
            stack.push_async_callback(ended, plugin)
        await eventually(lambda: said(quota) == "50000", what="it runs, and was not brought in line")
        await eventually(lambda: set(in_line) == set(agents), what="two plugins beside each other")
        pod = await cri.run_sandbox("job", runtime.parent, tmp_path, labels, annotations)
        made = await cri.create(pod, "main", ["/bin/sh", "-c", SAYS])
        await cri.start(made)
        assert (await printed(tmp_path / "main.log", 3))[:2] == ["50000", "512"]
        assert {"", "main"} <= {each.container for each in agents["other"].asked}
        await cri.update(made, LinuxContainerResources(cpu_shares=99, cpu_quota=80_000, cpu_period=100_000))
        own = Path(f"/sys/fs/cgroup/cpu{runtime.parent}/besteffort/poduid-job/{made}")
        assert said(own / "cpu.cfs_quota_us") == "50000", "kubelet's wish comes after the pod's"

        await cri.end(pod[0])
        told = agents["koord"].asked
        await eventually(
            lambda: {each.pod.name for each in told if each.is_over} == {"job"}, what="a pod that has ended"
        )

        in_line.clear()
        await asyncio.to_thread(runtime.stop, signal.SIGKILL)
        await asyncio.to_thread(runtime.start)
        await eventually(lambda: set(in_line) == set(agents), what="plugins that are back after a restart")
        assert said(quota) == "50000"
        await cri.end(before[0])


async def test_a_plugin_that_is_killed_under_load_brings_all_in_line_when_it_is_back(
    runtime: Containerd, tmp_path: Path
) -> None:
    labels, annotations = {"koordinator.sh/qosClass": "BE"}, {"node.koordinator.sh/extended-resource-spec": SPEC}
    async with AsyncExitStack() as stack:
        serving = await asked.serve(tmp_path / "agent.sock", Agent().answer)
        stack.push_async_callback(serving.cleanup)
        cri = await stack.enter_async_context(client(runtime.socket))
        processes = await stack.enter_async_context(Processes())
        await processes.start(
            "nri", "nri", "--socket", str(runtime.nri), "--agent-socket", str(tmp_path / "agent.sock")
        )
        made = await under_load(
            cri, cri, runtime.parent, tmp_path, lambda: processes.kill_and_start("nri"), labels, annotations
        )
        quotas = [cgroup / "cpu.cfs_quota_us" for cgroup in cgroups(runtime.parent, *made.values())]
        assert len(quotas) == 8
        await eventually(lambda: {said(quota) for quota in quotas} == {"50000"}, what="all are in line")


SPECIFICATION = {
    "cdiVersion": "0.5.0",
    "kind": "example.com/gpu",
    "devices": [
        {
            "name": "GPU-1",
            "containerEdits": {
                "env": ["SPECIFIED=yes"],
                "deviceNodes": [{"path": "/dev/card1", "hostPath": "/dev/zero"}],
            },
        }
    ],
}
SEES = """
echo $NVIDIA_VISIBLE_DEVICES $SPECIFIED; cat /usr/lib/library
for card in 0 1; do busybox head -c 4 /dev/card$card | busybox wc -c; done; sleep 1000
"""


@pytest.mark.parametrize("way", ["nri", "proxy"])
async def test_devices_come_into_a_container_by_all_ways(runtime: Containerd, tmp_path: Path, way: str) -> None:
    """By its environment, a device node, a mount, and the name that a specification on the node gives a device."""
    (tmp_path / "cdi").mkdir()
    (tmp_path / "cdi" / "example.json").write_text(json.dumps(SPECIFICATION))
    (tmp_path / "library").write_text("of the host\n")

    def wants(asking: Asking) -> Adjustment:
        return Adjustment(
            env={"NVIDIA_VISIBLE_DEVICES": "0,1"},
            devices=(DeviceNode("/dev/card0", "/dev/zero", "rw"),),
            mounts=(MountPoint("/usr/lib/library", str(tmp_path / "library"), True),),
            cdi=("example.com/gpu=GPU-1",),
            rdt_class="BE",
        )

    async with AsyncExitStack() as stack:
        serving = await asked.serve(tmp_path / "agent.sock", wants)
        stack.push_async_callback(serving.cleanup)
        ready = asyncio.Event()
        if way == "nri":
            running = run(NriOptions(str(runtime.nri), str(tmp_path / "agent.sock")), on_ready=ready.set)
            cri = await stack.enter_async_context(client(runtime.socket))
            plugin = asyncio.create_task(running)
            stack.push_async_callback(ended, plugin)
            await asyncio.wait([plugin, asyncio.create_task(ready.wait())], return_when=asyncio.FIRST_COMPLETED)
        else:
            register(tmp_path / "hooks", tmp_path / "agent.sock", protocol="koord")
            cri = await stack.enter_async_context(proxied(runtime, tmp_path))
        pod = await cri.run_sandbox("gpu", runtime.parent, tmp_path)
        await cri.start(await cri.create(pod, "main", ["/bin/sh", "-c", SEES]))
        assert await printed(tmp_path / "main.log", 4) == ["0,1 yes", "of the host", "4", "4"]
        await cri.end(pod[0])


async def test_where_both_ways_are_on_one_node_the_nearer_one_counts(runtime: Containerd, tmp_path: Path) -> None:
    agents = {"proxy": 30_000, "nri": 50_000}
    async with AsyncExitStack() as stack:
        for name, quota in agents.items():
            serving = await asked.serve(tmp_path / f"{name}-agent.sock", partial(always, name, quota))
            stack.push_async_callback(serving.cleanup)
        (tmp_path / "cri").mkdir()
        register(tmp_path / "cri" / "hooks", tmp_path / "proxy-agent.sock", protocol="koord")
        ready = asyncio.Event()
        plugin = asyncio.create_task(
            run(NriOptions(str(runtime.nri), str(tmp_path / "nri-agent.sock")), on_ready=ready.set)
        )
        stack.push_async_callback(ended, plugin)
        await asyncio.wait([plugin, asyncio.create_task(ready.wait())], return_when=asyncio.FIRST_COMPLETED)
        cri = await stack.enter_async_context(proxied(runtime, tmp_path / "cri"))
        pod = await cri.run_sandbox("job", runtime.parent, tmp_path)
        await cri.start(await cri.create(pod, "main", ["/bin/sh", "-c", SAYS]))
        first = await printed(tmp_path / "main.log", 3)
        assert (first[0], first[2]) == ("50000", "nri")
        await cri.end(pod[0])


def always(name: str, quota_us: int, asking: Asking) -> Adjustment:
    return Adjustment(cpu_quota_us=quota_us, cpu_period_us=100_000, env={"WISH": name})


async def ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
