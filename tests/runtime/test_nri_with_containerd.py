"""The NRI plugin with a containerd that has NRI, where one is: 2.x beside the control plane's binaries."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from koord.agent.live import asked
from koord.runtime.cri import LinuxContainerResources
from koord.runtime.live.nri import NriOptions, run
from tests.control_plane import find_binary
from tests.runtime.containerd import Containerd, containerd
from tests.runtime.cri_client import client, printed
from tests.runtime.test_nri import SPEC, Agent
from tests.runtime.test_proxy import SAYS

pytestmark = [pytest.mark.runtime, pytest.mark.timeout(120)]
NEWER = Path(find_binary("containerd") or "containerd")


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[Containerd]:
    if NEWER.parent == Path("/usr/bin") or not NEWER.is_absolute():
        pytest.skip("put a containerd 2.x where $KUBEBUILDER_ASSETS points")
    with containerd(tmp_path, NEWER) as found:
        yield found


def said(file: Path) -> str:
    return file.read_text().strip()


async def test_a_batch_container_has_its_quota_at_its_first_instruction_and_one_that_runs_is_brought_in_line(
    runtime: Containerd, tmp_path: Path
) -> None:
    labels, annotations = {"koordinator.sh/qosClass": "BE"}, {"node.koordinator.sh/extended-resource-spec": SPEC}
    async with client(runtime.socket) as cri:
        before = await cri.run_sandbox("before", runtime.parent, tmp_path, labels, annotations)
        running = await cri.create(before, "main", ["/bin/sleep", "1000"])
        await cri.start(running)
        quota = Path(f"/sys/fs/cgroup/cpu{runtime.parent}/besteffort/poduid-before/{running}/cpu.cfs_quota_us")
        assert said(quota) == "-1"
        agent = Agent()
        serving = await asked.serve(tmp_path / "agent.sock", agent.answer)
        ready = asyncio.Event()
        options = NriOptions(str(runtime.nri), str(tmp_path / "agent.sock"))
        plugin = asyncio.create_task(run(options, on_ready=ready.set))
        try:
            async with asyncio.timeout(30):
                await ready.wait()
            for _ in range(300):
                if said(quota) == "50000":
                    break
                await asyncio.sleep(0.1)
            assert said(quota) == "50000", "it runs, and was brought in line"
            pod = await cri.run_sandbox("job", runtime.parent, tmp_path, labels, annotations)
            made = await cri.create(pod, "main", ["/bin/sh", "-c", SAYS])
            await cri.start(made)
            assert (await printed(tmp_path / "main.log", 3))[:2] == ["50000", "512"]
            await cri.update(made, LinuxContainerResources(cpu_shares=99, cpu_quota=80_000, cpu_period=100_000))
            own = Path(f"/sys/fs/cgroup/cpu{runtime.parent}/besteffort/poduid-job/{made}")
            assert said(own / "cpu.cfs_quota_us") == "50000", "kubelet's wish comes after the pod's"
            await cri.end(pod[0])
            await cri.end(before[0])
            assert agent.asked[-1].is_over
        finally:
            plugin.cancel()
            with suppress(asyncio.CancelledError):
                await plugin
            await serving.cleanup()
