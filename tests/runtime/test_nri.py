"""The NRI plugin beside a stand-in for the runtime's side of it, and the answers of a real agent's hooks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec
import pytest
from aiohttp import web

from koord.agent.adjustment import Adjustment, DeviceNode, MountPoint
from koord.agent.announced import Asking, announced, answer
from koord.agent.live import asked
from koord.agent.state import NodeState
from koord.api.configuration.features import AgentGate
from koord.api.kubernetes.cgroup import CgroupDriver
from koord.api.machinery.messages import Message
from koord.api.machinery.protobuf import MessageError
from koord.runtime import nri
from koord.runtime.live.nri import UNKNOWN_LOOKS, NriOptions, run
from koord.runtime.ttrpc import Pieces, piece
from tests.agent.states import node
from tests.runtime.nri_runtime import NriRuntime, PluginFailed, nri_runtime
from tests.waiting import always, eventually

BATCH = {"kubernetes.io/batch-cpu": "500", "kubernetes.io/batch-memory": "64Mi"}
SPEC = json.dumps({"containers": {"main": {"requests": BATCH, "limits": BATCH}}})


def pod(name: str = "job") -> nri.PodSandbox:
    return nri.PodSandbox(
        f"s-{name}",
        name,
        f"u-{name}",
        "default",
        {"koordinator.sh/qosClass": "BE"},
        {"node.koordinator.sh/extended-resource-spec": SPEC},
        nri.LinuxPodSandbox(f"/kubepods/besteffort/podu-{name}"),
    )


@dataclass
class Agent:
    """The hooks of an agent on its own socket, without a node."""

    state: NodeState = field(default_factory=lambda: node(slo={}))
    asked: list[Asking] = field(default_factory=list)
    knows: set[str] | None = None
    "Uids of pods; None: all."

    def answer(self, asking: Asking) -> Adjustment:
        self.asked.append(asking)
        if asking.is_look and self.knows is not None and asking.pod.uid not in self.knows:
            raise asked.Unknown(asking.pod.uid)
        if asking.is_over:
            return Adjustment()
        return answer(self.state, announced(asking.pod, CgroupDriver.CGROUPFS), asking)


@asynccontextmanager
async def plugged(folder: Path, agent: Agent | None = None, **options: object) -> AsyncIterator[NriRuntime]:
    serving = await asked.serve(folder / "agent.sock", agent.answer) if agent is not None else None
    settings = replace(NriOptions(str(folder / "nri.sock"), str(folder / "agent.sock"), agent_s=10), **options)  # type: ignore[arg-type]
    async with nri_runtime(folder / "nri.sock") as runtime:
        running = asyncio.create_task(run(settings))
        try:
            async with asyncio.timeout(60):
                await runtime.connected.wait()
            yield runtime
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running
            if serving is not None:
                await serving.cleanup()


async def test_a_container_is_made_with_what_the_hooks_want(tmp_path: Path) -> None:
    agent = Agent()
    async with plugged(tmp_path, agent) as runtime:
        assert runtime.registered == [("00", "koord")]
        events = (
            await runtime.call("Configure", nri.ConfigureRequest("containerd", "2.0"), nri.ConfigureResponse)
        ).events
        assert {event for event in range(1, 15) if events >> (event - 1) & 1} == {1, 3, 4, 8, 10}
        await runtime.call("Synchronize", nri.SynchronizeRequest(), nri.SynchronizeResponse)
        await runtime.call("RunPodSandbox", nri.PodAndContainer(pod()), Message)
        about = nri.PodAndContainer(pod(), nri.Container("c1", "s-job", "main"))
        given = await runtime.call("CreateContainer", about, nri.CreateContainerResponse)
        assert given.adjust is not None
        assert given.adjust.linux is not None
        assert given.adjust.linux.resources == nri.LinuxResources(
            nri.LinuxMemory(nri.Number(64 << 20)),
            nri.LinuxCPU(nri.Number(512), nri.Number(50_000), nri.Number(100_000)),
        )
        changed = await runtime.call("UpdateContainer", about, nri.UpdateContainerResponse)
        assert [container_update.container_id for container_update in changed.update] == ["c1"]
        await runtime.call("StopContainer", about, Message)
        await runtime.call("RemovePodSandbox", nri.PodAndContainer(pod()), Message)
    assert [(each.container, each.is_update, each.is_over) for each in agent.asked] == [
        ("", False, False),
        ("main", False, False),
        ("main", True, False),
        ("", False, True),
    ]
    assert {each.by for each in agent.asked} == {"nri"}


async def test_what_runs_already_is_brought_in_line_when_the_plugin_comes(tmp_path: Path) -> None:
    right = nri.LinuxResources(
        nri.LinuxMemory(nri.Number(64 << 20)), nri.LinuxCPU(nri.Number(512), nri.Number(50_000), nri.Number(100_000))
    )
    states = {"wrong": (nri.RUNNING, nri.LinuxResources()), "right": (nri.RUNNING, right), "ended": (4, None)}
    containers = [
        nri.Container(name, "s-job", "main", state, nri.LinuxContainer(has)) for name, (state, has) in states.items()
    ]
    async with plugged(tmp_path, Agent()) as runtime:
        first = nri.SynchronizeRequest([pod()], containers[:1], more=True)
        assert (await runtime.call("Synchronize", first, nri.SynchronizeResponse)).more
        rest = nri.SynchronizeRequest([], containers[1:])
        given = await runtime.call("Synchronize", rest, nri.SynchronizeResponse)
        assert [container_update.container_id for container_update in given.update] == ["wrong"]


async def test_a_decision_that_changes_reaches_what_runs(tmp_path: Path) -> None:
    agent = Agent()
    async with plugged(tmp_path, agent, look_s=0.05) as runtime:
        about = nri.PodAndContainer(pod(), nri.Container("c1", "s-job", "main"))
        await runtime.call("CreateContainer", about, nri.CreateContainerResponse)
        threshold = {"resourceUsedThresholdWithBE": {"enable": True, "cpuSuppressPolicy": "cfsQuota"}}
        agent.state = node(slo=threshold)
        async with asyncio.timeout(60):
            await runtime.updated.wait()
        (update,) = runtime.updates
        assert update.linux is not None
        assert update.linux.resources is not None
        assert update.linux.resources.cpu is not None
        assert (update.container_id, update.linux.resources.cpu.quota) == ("c1", nri.Number(-1))
        await looks(agent, 5)
        assert len(runtime.updates) == 1, "told once"


async def test_a_quota_that_follows_from_a_limit_is_told_only_when_a_container_is_made(tmp_path: Path) -> None:
    """Else a runtime that heard an older one would tell kubelet that its resize came to nothing."""
    agent = Agent(node(slo={}, annotations={"node.koordinator.sh/cpu-normalization-ratio": "2.0"}))
    agent.state = replace(agent.state, gates=dict.fromkeys(AgentGate, True))
    service, limits = pod("web"), {"containers": {"main": {"limits": {"cpu": "2"}}}}
    service.labels = {"koordinator.sh/qosClass": "LS"}
    service.annotations = {"node.koordinator.sh/extended-resource-spec": json.dumps(limits)}
    service.linux = nri.LinuxPodSandbox("/kubepods/burstable/podu-web")
    async with plugged(tmp_path, agent, look_s=0.02) as runtime:
        running = nri.Container("old", "s-web", "main", nri.RUNNING)
        said = nri.SynchronizeRequest([service], [running])
        assert (await runtime.call("Synchronize", said, nri.SynchronizeResponse)).update == []
        about = nri.PodAndContainer(service, nri.Container("c1", "s-web", "main"))
        given = await runtime.call("CreateContainer", about, nri.CreateContainerResponse)
        assert given.adjust is not None
        assert given.adjust.linux is not None
        assert given.adjust.linux.resources == nri.LinuxResources(
            None, nri.LinuxCPU(None, nri.Number(100_000), nri.Number(100_000))
        )
        await looks(agent, 10)
        resized = nri.LinuxResources(None, nri.LinuxCPU(None, nri.Number(300_000), nri.Number(100_000)))
        asked_for = nri.UpdateContainerRequest(service, about.container, resized)
        assert (await runtime.call("UpdateContainer", asked_for, nri.UpdateContainerResponse)).update == []
        await looks(agent, 10)
        assert runtime.updates == []
    assert [each.cpu_quota_us for each in agent.asked if each.is_update] == [300_000]


async def test_older_runtimes_tell_of_pods_by_state_changes(tmp_path: Path) -> None:
    agent = Agent()
    async with plugged(tmp_path, agent) as runtime:
        await runtime.call("StateChange", nri.StateChangeEvent(nri.RUN_POD_SANDBOX, pod()), Message)
        await runtime.call("StateChange", nri.StateChangeEvent(nri.REMOVE_POD_SANDBOX, pod()), Message)
        await runtime.call("StateChange", nri.StateChangeEvent(7, pod()), Message)
    assert [each.is_over for each in agent.asked] == [False, True]


@pytest.mark.parametrize("fails", [True, False])
async def test_without_an_agent_the_policy_decides(tmp_path: Path, fails: bool) -> None:
    async with plugged(tmp_path, fails=fails) as runtime:
        about = nri.PodAndContainer(pod(), nri.Container("c1", "s-job", "main"))
        if fails:
            with pytest.raises(
                PluginFailed, match=r"pod default/job, container main: the agent at .*agent.sock failed"
            ):
                await runtime.call("CreateContainer", about, nri.CreateContainerResponse)
        else:
            given = await runtime.call("CreateContainer", about, nri.CreateContainerResponse)
            assert given.adjust is None
        await runtime.call("Synchronize", nri.SynchronizeRequest(), nri.SynchronizeResponse)


@asynccontextmanager
async def hanging(folder: Path) -> AsyncIterator[asyncio.Queue[Asking]]:
    """An agent that answers, but for looks at what runs. Gives all that it was asked."""
    questions: asyncio.Queue[Asking] = asyncio.Queue()

    async def answered(request: web.Request) -> web.Response:
        asking = msgspec.json.decode(await request.read(), type=Asking)
        questions.put_nowait(asking)
        if asking.is_look:
            await asyncio.get_running_loop().create_future()
        return web.Response(body=msgspec.json.encode(Adjustment()))

    app = web.Application()
    app.router.add_post("/v1/adjustment", answered)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.UnixSite(runner, str(folder / "agent.sock")).start()
    try:
        yield questions
    finally:
        await runner.cleanup()


async def test_while_an_agent_hangs_over_what_runs_containers_are_made(tmp_path: Path) -> None:
    async with hanging(tmp_path) as questions, plugged(tmp_path, look_s=0.01, agent_s=1000) as runtime:
        for id in ("c1", "c2"):
            about = nri.PodAndContainer(pod(), nri.Container(id, "s-job", "main"))
            await runtime.call("CreateContainer", about, nri.CreateContainerResponse)
            async with asyncio.timeout(60):
                assert not (await questions.get()).is_look
                if id == "c1":
                    assert (await questions.get()).is_look, "and no agent answers"


async def test_an_agent_that_does_not_answer_is_asked_about_one_container_that_runs(tmp_path: Path) -> None:
    """The runtime gives a plugin two seconds for all of them."""
    running = [nri.Container(f"c{i}", "s-job", "main", nri.RUNNING) for i in range(20)]
    async with hanging(tmp_path) as questions, plugged(tmp_path, look_s=1000, agent_s=0.2) as runtime:
        given = await runtime.call("Synchronize", nri.SynchronizeRequest([pod()], running), nri.SynchronizeResponse)
        assert given.update == []
        assert questions.qsize() == 1


async def test_a_runtime_that_restarts_is_registered_with_again(tmp_path: Path) -> None:
    async with plugged(tmp_path, Agent()) as runtime:
        await runtime.call("Synchronize", nri.SynchronizeRequest(), nri.SynchronizeResponse)
        runtime.connected.clear()
        runtime.hang_up()
        async with asyncio.timeout(60):
            await runtime.connected.wait()
        assert len(runtime.registered) == 2
        with pytest.raises(PluginFailed, match="koord has no Dance"):
            await runtime.call("Dance", Message(), Message)
        with pytest.raises(PluginFailed, match="not UTF-8"):
            await runtime.call("CreateContainer", nri.KeyValue(unknown=b"\x0a\x03\x0a\x01\xff"), Message)


def test_wishes_for_devices_and_mounts_and_the_environment_come_along() -> None:
    wanted = Adjustment(
        env={"NVIDIA_VISIBLE_DEVICES": "0,1"},
        devices=(DeviceNode("/dev/x", "/dev/null", "rw"), DeviceNode("/dev/y", "/dev/no-such-device", "rw")),
        mounts=(MountPoint("/usr/local/vgpu/libvgpu.so", "/opt/libvgpu.so", True),),
        oom_score_adj=-5,
    )
    container_adjustment = nri.adjustment(wanted)
    assert container_adjustment.env == [nri.KeyValue("NVIDIA_VISIBLE_DEVICES", "0,1")]
    assert container_adjustment.mounts == [
        nri.Mount("/usr/local/vgpu/libvgpu.so", "bind", "/opt/libvgpu.so", ["rbind", "ro"])
    ]
    assert container_adjustment.linux is not None
    assert [
        (device.path, device.type, device.major, device.minor) for device in container_adjustment.linux.devices
    ] == [("/dev/x", "c", 1, 3)]
    assert container_adjustment.linux.oom_score_adj == nri.Number(-5)
    assert container_adjustment.linux.resources is None


def test_a_container_is_born_in_its_group_of_resctrl_and_gets_devices_by_their_names() -> None:
    container_adjustment = nri.adjustment(Adjustment(rdt_class="BE", cdi=("nvidia.com/gpu=GPU-1",)))
    assert container_adjustment.linux is not None
    assert container_adjustment.linux.resources == nri.LinuxResources(rdt_class=nri.Text("BE"))
    assert container_adjustment.cdi == [nri.CdiDevice("nvidia.com/gpu=GPU-1")]
    assert nri.update("c1", Adjustment(rdt_class="BE")) is None, "tasks that run are moved by the agent"


async def test_a_pod_whose_end_nobody_tells_of_is_forgotten(tmp_path: Path) -> None:
    """containerd says nothing of the end of pods that are older than itself."""
    here = {"u-job"}
    agent = Agent(knows=here)
    async with plugged(tmp_path, agent, look_s=0.02) as runtime:
        about = nri.PodAndContainer(pod(), nri.Container("c1", "s-job", "main"))
        await runtime.call("CreateContainer", about, nri.CreateContainerResponse)
        await looks(agent, 10)
        here.clear()
        await looks(agent, UNKNOWN_LOOKS)
        seen = len(agent.asked)
        await runtime.call("Configure", nri.ConfigureRequest(), nri.ConfigureResponse)
        await always(lambda: len(agent.asked) == seen, 0.1)
    delivered = [each for each in agent.asked if not each.is_look]
    assert [each.container for each in delivered] == ["main"], "looks are no deliveries"


async def looks(agent: Agent, more: int) -> None:
    wanted = len(agent.asked) + more
    await eventually(lambda: len(agent.asked) >= wanted, what="the plugin looks")


def test_a_piece_or_message_that_is_too_long_is_refused() -> None:
    with pytest.raises(MessageError, match="a piece of"):
        list(Pieces().feed(b"\x00\x00\x00\x01\xff\xff\xff\xff"))
    with pytest.raises(MessageError, match="a message of"):
        list(Pieces().feed(piece(1, b"\xff\xff\xff\xff\x00\x00\x00\x01\x01\x00")))


def test_gates_decide_for_the_plugin_as_for_the_agent() -> None:
    """The same hooks: what is off is off."""
    state = replace(node(slo={}), gates=dict.fromkeys(AgentGate, False))
    asking = nri.asking(pod(), "main")
    assert answer(state, announced(asking.pod, CgroupDriver.CGROUPFS), asking) == Adjustment()
