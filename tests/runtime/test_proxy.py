"""The proxy in front of a real containerd, with hook servers of both protocols behind it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import grpc
import grpc.aio
import pytest

from koord.agent.adjustment import Adjustment, DeviceNode, MountPoint
from koord.agent.announced import Asking, announced, answer
from koord.agent.live import asked
from koord.api.kubernetes.cgroup import CgroupDriver
from koord.api.machinery.messages import decode, encode
from koord.api.machinery.protobuf import varint
from koord.runtime.cri import Containers, LinuxContainerResources, PodSandboxes
from koord.runtime.hook_service import (
    ContainerResourceHookRequest,
    ContainerResourceHookResponse,
    PodSandboxHookRequest,
)
from koord.runtime.live.run import ProxyOptions, run
from tests.agent.states import node
from tests.runtime.containerd import Containerd, containerd
from tests.runtime.cri_client import CriClient, client, printed, sandbox_config
from tests.runtime.hook_server import hook_server, register
from tests.waiting import eventually

pytestmark = pytest.mark.runtime

SAYS = "cat /sys/fs/cgroup/cpu/cpu.cfs_quota_us /sys/fs/cgroup/cpu/cpu.shares; echo $WISH; sleep 1000"
BATCH = '{"containers": {"main": {"limits": {"kubernetes.io/batch-cpu": "500", "kubernetes.io/batch-memory": "64Mi"}}}}'


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Containerd]:
    with containerd(tmp_path_factory.mktemp("containerd")) as found:
        yield found


@asynccontextmanager
async def proxied(runtime: Containerd, folder: Path) -> AsyncIterator[CriClient]:
    options = ProxyOptions(folder / "proxy.sock", runtime.socket, folder / "hooks", folder / "state", 1.0)
    ready = asyncio.Event()
    running = asyncio.create_task(run(options, on_ready=ready.set))
    await asyncio.wait([running, asyncio.create_task(ready.wait())], return_when=asyncio.FIRST_COMPLETED)
    try:
        async with client(options.listen) as cri_client:
            yield cri_client
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


async def test_a_hook_server_of_koordinators_sees_each_stage_and_changes_what_is_made(
    runtime: Containerd, tmp_path: Path
) -> None:
    async def wants(method: str, request: bytes) -> bytes:
        if method == "PreCreateContainerHook":
            resources = LinuxContainerResources(cpu_period=100_000, cpu_quota=30_000, cpu_shares=77)
            return encode(ContainerResourceHookResponse({}, resources, container_envs={"WISH": "granted"}))
        if method == "PreUpdateContainerResourcesHook":
            return encode(ContainerResourceHookResponse(container_resources=LinuxContainerResources(cpu_quota=40_000)))
        return b""

    register(tmp_path / "hooks", tmp_path / "hook.sock")
    async with hook_server(tmp_path / "hook.sock", wants) as server, proxied(runtime, tmp_path) as cri:
        pod = await cri.run_sandbox("a", runtime.parent, tmp_path, {"app": "web"}, {"note": "x"})
        container = await cri.create(pod, "main", ["/bin/sh", "-c", SAYS])
        await cri.start(container)
        assert await printed(tmp_path / "main.log", 3) == ["30000", "77", "granted"], "at its first instruction"
        await cri.update(container, LinuxContainerResources(cpu_shares=99))
        own = Path(f"/sys/fs/cgroup/cpu{runtime.parent}/besteffort/poduid-a/{container}")
        assert [(own / name).read_text().strip() for name in ("cpu.shares", "cpu.cfs_quota_us")] == ["99", "40000"]
        await cri.call("StopContainer", encode_id(container))
        await cri.end(pod[0])
    assert [method for method, _ in server.asked] == [
        "PreRunPodSandboxHook", "PreCreateContainerHook", "PreStartContainerHook", "PostStartContainerHook",
        "PreUpdateContainerResourcesHook", "PostStopContainerHook", "PostStopPodSandboxHook",
    ]  # fmt: skip
    sandbox = decode(PodSandboxHookRequest, server.asked[0][1])
    assert sandbox.pod_meta is not None
    assert (sandbox.pod_meta.name, sandbox.labels, sandbox.annotations) == ("a", {"app": "web"}, {"note": "x"})
    update = decode(ContainerResourceHookRequest, server.asked[4][1])
    assert update.container_resources is not None
    assert update.container_resources.cpu_shares == 99, "what kubelet wants now"
    assert (update.pod_labels, update.container_envs) == ({"app": "web"}, {"WISH": "granted"})


def encode_id(container: str) -> bytes:
    return b"\x0a" + varint(len(container)) + container.encode()


async def test_koords_agent_sets_a_batch_container_up_before_its_first_instruction(
    runtime: Containerd, tmp_path: Path
) -> None:
    state = node(slo={})

    def wants(asking: Asking) -> Adjustment:
        return answer(state, announced(asking.pod, CgroupDriver.CGROUPFS), asking)

    serving = await asked.serve(tmp_path / "agent.sock", wants)
    register(tmp_path / "hooks", tmp_path / "agent.sock", protocol="koord")
    async with proxied(runtime, tmp_path) as cri:
        labels = {"koordinator.sh/qosClass": "BE"}
        annotations = {"node.koordinator.sh/extended-resource-spec": BATCH}
        pod = await cri.run_sandbox("b", runtime.parent, tmp_path, labels, annotations)
        container = await cri.create(pod, "main", ["/bin/sh", "-c", SAYS])
        await cri.start(container)
        assert (await printed(tmp_path / "main.log", 2))[0] == "50000"
        await cri.end(pod[0])
    await serving.cleanup()


async def test_environment_devices_and_mounts_are_there_when_a_container_starts(
    runtime: Containerd, tmp_path: Path
) -> None:
    """As GPUs and RDMA cards come into a container."""
    library = tmp_path / "library"
    library.write_text("of the host\n")

    def wants(asking: Asking) -> Adjustment:
        return Adjustment(
            env={"NVIDIA_VISIBLE_DEVICES": "0,1"},
            devices=(DeviceNode("/dev/card0", "/dev/zero", "rw"),),
            mounts=(MountPoint("/usr/lib/library", str(library), True),),
        )

    serving = await asked.serve(tmp_path / "agent.sock", wants)
    register(tmp_path / "hooks", tmp_path / "agent.sock", protocol="koord")
    count = "busybox head -c 4 /dev/card0 | busybox wc -c"
    says = f"echo $NVIDIA_VISIBLE_DEVICES; cat /usr/lib/library; {count}; sleep 1000"
    async with proxied(runtime, tmp_path) as cri:
        pod = await cri.run_sandbox("gpu", runtime.parent, tmp_path)
        await cri.start(await cri.create(pod, "main", ["/bin/sh", "-c", says]))
        assert await printed(tmp_path / "main.log", 3) == ["0,1", "of the host", "4"]
        await cri.end(pod[0])
    await serving.cleanup()


async def test_what_fails_at_the_runtime_fails_alike_through_the_proxy(runtime: Containerd, tmp_path: Path) -> None:
    async with proxied(runtime, tmp_path) as cri, client(runtime.socket) as direct:
        for method, request in (
            ("StartContainer", encode_id("nobody")),
            ("CreateContainer", encode_id("nobody")),
            ("RunPodSandbox", b""),
            ("RunPodSandbox", b"\xff\xff\xff"),
            ("NoSuchMethod", b""),
            ("ContainerStatus", encode_id("nobody")),
        ):
            said = []
            for cri_client in (direct, cri):
                with pytest.raises(grpc.aio.AioRpcError) as failed:
                    await cri_client.call(method, request)
                said.append((failed.value.code(), failed.value.details()))
            assert said[0][0] == said[1][0], (method, said)
            if method != "RunPodSandbox" or request:
                assert said[0] == said[1]


async def test_a_proxy_that_is_killed_comes_back_and_knows_what_it_knew(runtime: Containerd, tmp_path: Path) -> None:
    register(tmp_path / "hooks", tmp_path / "hook.sock")
    command = [
        sys.executable, "-m", "koord", "runtime-proxy", "--listen", str(tmp_path / "proxy.sock"), "--runtime-endpoint",
        f"unix://{runtime.socket}", "--hooks-dir", str(tmp_path / "hooks"), "--state-dir", str(tmp_path / "state"),
    ]  # fmt: skip

    async def nothing(method: str, request: bytes) -> bytes:
        return b""

    async with hook_server(tmp_path / "hook.sock", nothing) as server, client(tmp_path / "proxy.sock") as cri:
        process = await asyncio.create_subprocess_exec(*command)
        try:
            await answering(cri)
            assert os.stat(tmp_path / "proxy.sock").st_mode & 0o077 == 0, "root's alone"
            pod = await cri.run_sandbox("c", runtime.parent, tmp_path, {"app": "kept"})
            container = await cri.create(pod, "main", ["/bin/sleep", "1000"])
            process.send_signal(signal.SIGKILL)
            await process.wait()
            process = await asyncio.create_subprocess_exec(*command)
            await answering(cri)
            await cri.start(container)
            assert (await cri.sandboxes()).count(pod[0]) == 1
            assert (await cri.containers()).count(container) == 1
            await cri.end(pod[0])
            assert pod[0] not in await cri.sandboxes()
        finally:
            process.terminate()
            await process.wait()
    last = decode(ContainerResourceHookRequest, dict(server.asked)["PreStartContainerHook"])
    assert (last.pod_labels, last.pod_cgroup_parent) == ({"app": "kept"}, f"{runtime.parent}/besteffort/poduid-c")


async def answering(cri: CriClient) -> None:
    async def is_there() -> bool:
        await cri.call("Version", timeout=5)
        return True

    await eventually(is_there, retry_on=grpc.aio.AioRpcError, what="the proxy answers")


@pytest.mark.parametrize("killed", ["runtime-proxy", "runtime-hooks"])
async def test_killed_under_load_it_loses_and_doubles_nothing(runtime: Containerd, tmp_path: Path, killed: str) -> None:
    """The proxy, or koord's hooks behind it, while a client lists pods and goes on, as kubelet does."""
    commands = {
        "runtime-hooks": [
            "runtime-hooks", "--listen", str(tmp_path / "hook.sock"), "--agent-socket", str(tmp_path / "agent.sock"),
            "--register-in", str(tmp_path / "hooks"),
        ],
        "runtime-proxy": [
            "runtime-proxy", "--listen", str(tmp_path / "proxy.sock"), "--runtime-endpoint", str(runtime.socket),
            "--hooks-dir", str(tmp_path / "hooks"), "--state-dir", str(tmp_path / "state"),
        ],
    }  # fmt: skip
    async with Processes() as processes, client(tmp_path / "proxy.sock") as cri, client(runtime.socket) as direct:
        for name, command in commands.items():
            await processes.start(name, *command)
        await answering(cri)
        made = await under_load(cri, direct, runtime.parent, tmp_path, lambda: processes.kill_and_start(killed))
        for each in made:
            await direct.end(each)


class Processes:
    """koord's commands as processes; they end with the block."""

    def __init__(self) -> None:
        self._running: dict[str, tuple[asyncio.subprocess.Process, tuple[str, ...]]] = {}

    async def __aenter__(self) -> Processes:
        return self

    async def __aexit__(self, *error: object) -> None:
        for process, _ in self._running.values():
            process.kill()
            await process.wait()

    async def start(self, name: str, *command: str) -> None:
        process = await asyncio.create_subprocess_exec(sys.executable, "-m", "koord", *command)
        self._running[name] = process, command

    async def kill_and_start(self, name: str) -> None:
        process, command = self._running[name]
        process.send_signal(signal.SIGKILL)
        await process.wait()
        await self.start(name, *command)


async def under_load(
    cri: CriClient,
    direct: CriClient,
    parent: str,
    folder: Path,
    kill: Callable[[], Awaitable[None]],
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Eight pods come about while a process is killed three times: one container each. By sandbox, the containers."""

    async def ensure(name: str) -> None:
        for _ in range(300):
            with suppress(grpc.aio.AioRpcError):
                there = decode(PodSandboxes, await cri.call("ListPodSandbox", timeout=20)).items
                ids = [
                    pod_sandbox.id
                    for pod_sandbox in there
                    if pod_sandbox.metadata is not None and pod_sandbox.metadata.name == name
                ]
                pod = (ids[0], sandbox_config(name, parent, folder, labels, annotations)) if ids else None
                pod = pod or await cri.run_sandbox(name, parent, folder, labels, annotations)
                made = decode(Containers, await cri.call("ListContainers", timeout=20)).containers
                own = [container.id for container in made if container.pod_sandbox_id == pod[0]]
                container = own[0] if own else await cri.create(pod, "main", ["/bin/sleep", "1000"])
                with suppress(grpc.aio.AioRpcError):
                    await cri.start(container)
                return
            await asyncio.sleep(0.1)
        raise AssertionError(f"{name} never came about")

    before = set(await direct.sandboxes())
    work = [asyncio.create_task(ensure(f"load-{i}")) for i in range(8)]
    for _ in range(3):
        await asyncio.sleep(0.4)
        await kill()
    async with asyncio.timeout(90):
        await asyncio.gather(*work)
    sandboxes = set(await direct.sandboxes()) - before
    made = decode(Containers, await direct.call("ListContainers")).containers
    own = [container for container in made if container.pod_sandbox_id in sandboxes]
    assert len(sandboxes) == 8
    assert sorted(container.pod_sandbox_id for container in own) == sorted(sandboxes), "one each"
    return {container.pod_sandbox_id: container.id for container in own}
