"""Hook servers that hang, answer nonsense, are gone or belong to another user: the failure policy decides, soon."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import grpc
import grpc.aio
import pytest

from koord.agent.live import asked as agent_socket
from koord.api.machinery.messages import decode, encode
from koord.kube.clock import SystemClock
from koord.runtime.cri import LinuxContainerResources, SandboxId
from koord.runtime.hook_files import FailurePolicy, HookFile, HookFileError, by_stage, parse
from koord.runtime.hook_service import PodSandboxHookResponse
from koord.runtime.intercept import Question
from koord.runtime.live import hook_service
from koord.runtime.live.hook_servers import NOTHING, HookFailed, HookServers
from koord.runtime.live.hook_service import HookServiceOptions
from koord.runtime.live.run import ProxyOptions, run
from koord.runtime.records import ContainerRecord, SandboxRecord
from koord.runtime.stages import Stage
from tests.runtime.cri_client import CriClient, client
from tests.runtime.hook_server import hang, hook_server, register
from tests.runtime.test_nri import SPEC, Agent

POD = SandboxRecord("", "web", "u1", "shop")
EVENTS = "/runtime.v1.RuntimeService/GetContainerEvents"


@asynccontextmanager
async def servers(folder: Path, timeout_s: float = 0.3) -> AsyncIterator[HookServers]:
    hook_servers = HookServers(folder / "hooks", SystemClock(), timeout_s)
    hook_servers.look()
    try:
        yield hook_servers
    finally:
        await hook_servers.close()


async def garbage(method: str, request: bytes) -> bytes:
    return b"\xff" * 100


async def breaks(method: str, request: bytes) -> bytes:
    raise RuntimeError("boom")


@pytest.mark.parametrize("policy", list(FailurePolicy))
@pytest.mark.parametrize("how", [hang, garbage, breaks, None])
async def test_a_failure_is_over_soon_and_the_policy_decides(
    tmp_path: Path, how: Callable[[str, bytes], Awaitable[bytes]] | None, policy: FailurePolicy
) -> None:
    socket = tmp_path / "hook.sock"
    register(tmp_path / "hooks", socket, policy)
    question = Question(Stage.PRE_RUN_POD_SANDBOX, POD)
    async with servers(tmp_path) as asked:
        began = time.monotonic()

        async def outcome() -> None:
            if policy is FailurePolicy.FAIL:
                with pytest.raises(
                    HookFailed, match=r"PreRunPodSandbox of pod shop/web: the hook server at .*hook.sock"
                ):
                    await asked.ask(question)
            else:
                assert await asked.ask(question) == NOTHING

        if how is None:
            await outcome()
        else:
            async with hook_server(socket, how):
                await outcome()
        assert time.monotonic() - began < 30
        assert asked.failures == 1


async def test_one_that_comes_back_is_asked_again(tmp_path: Path) -> None:
    socket = tmp_path / "hook.sock"
    register(tmp_path / "hooks", socket)

    async def wants(method: str, request: bytes) -> bytes:
        return encode(PodSandboxHookResponse(labels={"a": "b"}))

    async with servers(tmp_path, 20) as asked:
        for _ in range(2):
            async with hook_server(socket, wants):
                assert (await asked.ask(Question(Stage.PRE_RUN_POD_SANDBOX, POD))).labels == {"a": "b"}
            assert await asked.ask(Question(Stage.PRE_RUN_POD_SANDBOX, POD)) == NOTHING


async def test_a_pod_with_an_annotation_of_a_megabyte_is_asked_about_like_any_other(tmp_path: Path) -> None:
    seen: list[int] = []

    async def wants(method: str, request: bytes) -> bytes:
        seen.append(len(request))
        return b""

    register(tmp_path / "hooks", tmp_path / "hook.sock", "Fail")
    pod = SandboxRecord("", "web", "u1", "shop", annotations={"big": "x" * (1 << 20)})
    async with servers(tmp_path, 20) as asked, hook_server(tmp_path / "hook.sock", wants):
        await asked.ask(Question(Stage.PRE_CREATE_CONTAINER, pod, ContainerRecord(name="main")))
    assert seen[0] > 1 << 20


@pytest.mark.root
async def test_a_socket_of_another_user_is_not_asked(tmp_path: Path) -> None:
    socket = tmp_path / "hook.sock"
    register(tmp_path / "hooks", socket, "Fail")

    async def wants(method: str, request: bytes) -> bytes:
        return encode(PodSandboxHookResponse(resources=LinuxContainerResources(cpu_quota=1000)))

    async with servers(tmp_path) as asked, hook_server(socket, wants) as server:
        os.chown(socket, 1234, 1234)
        with pytest.raises(HookFailed, match="belongs to user 1234, not to root"):
            await asked.ask(Question(Stage.PRE_RUN_POD_SANDBOX, POD))
        assert server.asked == []


async def test_a_pod_may_ask_to_be_left_alone(tmp_path: Path) -> None:
    register(tmp_path / "hooks", tmp_path / "nobody.sock", "Fail")
    pod = SandboxRecord("", "web", "u1", "shop", labels={"runtimeproxy.koordinator.sh/skip-hookserver": "true"})
    async with servers(tmp_path) as asked:
        assert await asked.ask(Question(Stage.PRE_RUN_POD_SANDBOX, pod)) == NOTHING


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"", "truncated"),
        (b"[]", "Expected `object`"),
        (b'{"runtime-hooks": []}', "remote-endpoint"),
        (b'{"remote-endpoint": "/a.sock", "runtime-hooks": ["PreEverything"]}', "PreEverything"),
        (b'{"remote-endpoint": "tcp://1.2.3.4:5", "runtime-hooks": []}', "must be the path of a unix socket"),
        (b'{"remote-endpoint": "/a", "failure-policy": "Perhaps", "runtime-hooks": []}', "Perhaps"),
    ],
)
def test_a_file_that_registers_nobody_says_why(text: bytes, says: str) -> None:
    with pytest.raises(HookFileError, match=says):
        parse(text)


def test_of_several_the_first_by_name_is_asked_for_a_stage() -> None:
    first = HookFile("/a.sock", (Stage.PRE_CREATE_CONTAINER,))
    second = HookFile("unix:///b.sock", (Stage.PRE_CREATE_CONTAINER, Stage.PRE_RUN_POD_SANDBOX))
    found = by_stage({"20-b.json": second, "10-a.json": first})
    assert {stage: hook_file.socket for stage, hook_file in found.items()} == {
        Stage.PRE_CREATE_CONTAINER: "/a.sock",
        Stage.PRE_RUN_POD_SANDBOX: "/b.sock",
    }


async def test_files_that_come_change_and_go_are_followed(tmp_path: Path) -> None:
    async def one(method: str, request: bytes) -> bytes:
        return encode(PodSandboxHookResponse(labels={"by": "one"}))

    question = Question(Stage.PRE_RUN_POD_SANDBOX, POD)
    async with servers(tmp_path, 20) as asked, hook_server(tmp_path / "one.sock", one):
        assert await asked.ask(question) == NOTHING
        register(tmp_path / "hooks", tmp_path / "one.sock")
        (tmp_path / "hooks" / "broken.json").write_text("{")
        asked.look()
        assert (await asked.ask(question)).labels == {"by": "one"}
        (tmp_path / "hooks" / "koordlet.json").write_text("not any more")
        asked.look()
        assert await asked.ask(question) == NOTHING
        await asyncio.sleep(0)


async def test_what_is_no_file_of_a_hook_server_is_named_once_and_keeps_nobody_from_the_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def one(method: str, request: bytes) -> bytes:
        return encode(PodSandboxHookResponse(labels={"by": "one"}))

    hooks = tmp_path / "hooks"
    register(hooks, tmp_path / "one.sock")
    (hooks / "a-folder.json").mkdir()
    os.mkfifo(hooks / "b-pipe.json")
    (hooks / "c-nowhere.json").symlink_to(tmp_path / "nowhere")
    (hooks / "d-itself.json").symlink_to(hooks / "d-itself.json")
    (hooks / "e-huge.json").write_bytes(b" " * (1 << 20))
    (hooks / "f-bytes.json").write_bytes(b"\xff\xfe")
    (hooks / "g-twice.json").write_text('{"remote-endpoint": "/a", "remote-endpoint": "b", "runtime-hooks": []}')
    (hooks / "h-deep.json").write_text("[" * 50_000)
    (hooks / "i-link.json").symlink_to(hooks / "koordlet.json")
    (hooks / "koordlet.json.bak").write_text("{")
    async with servers(tmp_path, 20) as asked, hook_server(tmp_path / "one.sock", one):
        for _ in range(3):
            asked.look()
        assert (await asked.ask(Question(Stage.PRE_RUN_POD_SANDBOX, POD))).labels == {"by": "one"}
    told = [Path(record.getMessage().split(" ")[0]).name[0] for record in caplog.records]
    assert sorted(told) == list("abcdefgh")


async def test_koords_hooks_answer_in_koordinators_protocol(tmp_path: Path) -> None:
    """What Koordinator's proxy would be told, asked by koord's own."""
    agent = Agent()
    serving = await agent_socket.serve(tmp_path / "agent.sock", agent.answer)
    options = HookServiceOptions(tmp_path / "koordlet.sock", str(tmp_path / "agent.sock"), tmp_path / "hooks", "Fail")
    ready = asyncio.Event()
    running = asyncio.create_task(hook_service.run(options, on_ready=ready.set))
    labels, annotations = {"koordinator.sh/qosClass": "BE"}, {"node.koordinator.sh/extended-resource-spec": SPEC}
    pod = SandboxRecord("", "job", "u1", "ns", 0, "", labels, annotations, "/kubepods/besteffort/podu1")
    try:
        await asyncio.wait([running, asyncio.create_task(ready.wait())], return_when=asyncio.FIRST_COMPLETED)
        async with servers(tmp_path, 20) as asked:
            answer = await asked.ask(Question(Stage.PRE_CREATE_CONTAINER, pod, ContainerRecord(name="main")))
            assert answer.resources is not None
            assert (answer.resources.cpu_quota, answer.resources.cpu_shares) == (50_000, 512)
            assert await asked.ask(Question(Stage.PRE_START_CONTAINER, pod, ContainerRecord(name="main"))) == NOTHING
            await serving.cleanup()
            with pytest.raises(HookFailed, match=r"koord's agent at .*agent.sock"):
                await asked.ask(Question(Stage.PRE_RUN_POD_SANDBOX, pod))
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


async def test_a_proxy_that_is_ended_answers_the_calls_under_way(tmp_path: Path) -> None:
    asked, may_answer, ready = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def slow(method: str, request: bytes) -> bytes:
        asked.set()
        await may_answer.wait()
        return b""

    register(tmp_path / "hooks", tmp_path / "hook.sock", "Fail")
    options = ProxyOptions(tmp_path / "proxy.sock", tmp_path / "hook.sock", tmp_path / "hooks", tmp_path / "state", 30)
    async with hook_server(tmp_path / "hook.sock", slow):
        running = asyncio.create_task(run(options, on_ready=ready.set))
        await asyncio.wait([running, asyncio.create_task(ready.wait())], return_when=asyncio.FIRST_COMPLETED)
        async with client(options.listen) as cri:
            call = asyncio.create_task(cri.call("RunPodSandbox"))
            await asyncio.wait([call, asyncio.create_task(asked.wait())], return_when=asyncio.FIRST_COMPLETED)
            running.cancel()
            await asyncio.sleep(0)
            may_answer.set()
            with pytest.raises(grpc.aio.AioRpcError) as failed:
                await call
            assert failed.value.code() is grpc.StatusCode.UNIMPLEMENTED, "as this runtime, which is none, says it"
        with pytest.raises(asyncio.CancelledError):
            await running


async def test_a_stream_of_container_events_passes_and_ends_with_its_client(tmp_path: Path) -> None:
    ended, ready = asyncio.Event(), asyncio.Event()

    class Events(grpc.GenericRpcHandler):
        def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[bytes, bytes] | None:
            async def answer(request: bytes, context: object) -> AsyncIterator[bytes]:
                try:
                    for number in range(3):
                        yield request + bytes([number])
                    await asyncio.get_running_loop().create_future()
                finally:
                    ended.set()

            is_stream = handler_call_details.method == EVENTS
            return grpc.unary_stream_rpc_method_handler(answer) if is_stream else None

    runtime = grpc.aio.server()
    runtime.add_generic_rpc_handlers((Events(),))
    runtime.add_insecure_port(f"unix:{tmp_path}/runtime.sock")
    await runtime.start()
    options = ProxyOptions(tmp_path / "proxy.sock", tmp_path / "runtime.sock", tmp_path / "hooks", tmp_path / "state")
    running = asyncio.create_task(run(options, on_ready=ready.set))
    try:
        await asyncio.wait([running, asyncio.create_task(ready.wait())], return_when=asyncio.FIRST_COMPLETED)
        async with grpc.aio.insecure_channel(f"unix:{options.listen}") as channel, asyncio.timeout(60):
            stream: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = channel.unary_stream(EVENTS)
            call = stream(b"x")
            answers = aiter(call)
            assert [await anext(answers) for _ in range(3)] == [b"x\x00", b"x\x01", b"x\x02"]
            call.cancel()
            await ended.wait()
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
        await runtime.stop(0)


async def test_the_callers_own_deadline_counts_for_runtime_and_hooks(tmp_path: Path) -> None:
    """A call passes with the time that is left of it. One whose time is up while a hook is asked never reaches the
    runtime."""
    left: dict[str, float | None] = {}

    class Runtime(grpc.GenericRpcHandler):
        def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[bytes, bytes]:
            async def answer(request: bytes, context: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
                left[handler_call_details.method.rpartition("/")[2]] = context.time_remaining()
                return b""

            return grpc.unary_unary_rpc_method_handler(answer)

    async def hangs(method: str, request: bytes) -> bytes:
        await asyncio.get_running_loop().create_future()
        return b""

    register(tmp_path / "hooks", tmp_path / "hook.sock", "Fail")
    async with hook_server(tmp_path / "hook.sock", hangs), in_front_of(Runtime(), tmp_path, 1000) as cri:
        await cri.call("Status", timeout=1000)
        await cri.call("Version", timeout=60)
        with pytest.raises(grpc.aio.AioRpcError) as failed:
            await cri.call("RunPodSandbox", timeout=0.3)
        assert failed.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    status, version = left["Status"], left["Version"]
    assert status is not None
    assert version is not None
    assert 0 < version < 100 < status < 1100, "the wire rounds"
    assert "RunPodSandbox" not in left


async def test_what_the_runtime_has_made_is_answered_though_no_record_can_be_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """kubelet would make it a second time."""

    class Runtime(grpc.GenericRpcHandler):
        def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[bytes, bytes]:
            async def answer(request: bytes, context: object) -> bytes:
                return b"" if "List" in handler_call_details.method else encode(SandboxId("s1"))

            return grpc.unary_unary_rpc_method_handler(answer)

    async with in_front_of(Runtime(), tmp_path) as cri:
        shutil.rmtree(tmp_path / "state")
        (tmp_path / "state").write_text("in the way")
        for _ in range(2):
            assert decode(SandboxId, await cri.call("RunPodSandbox")).pod_sandbox_id == "s1"
        await cri.call("RemovePodSandbox", SandboxId("s1"))
    assert sum("a restart finds no records" in line for line in caplog.messages) == 1


@asynccontextmanager
async def in_front_of(runtime: grpc.GenericRpcHandler, folder: Path, hook_s: float = 5.0) -> AsyncIterator[CriClient]:
    """A proxy before a runtime that is none."""
    server, ready = grpc.aio.server(), asyncio.Event()
    server.add_generic_rpc_handlers((runtime,))
    server.add_insecure_port(f"unix:{folder}/runtime.sock")
    await server.start()
    options = ProxyOptions(folder / "proxy.sock", folder / "runtime.sock", folder / "hooks", folder / "state", hook_s)
    running = asyncio.create_task(run(options, on_ready=ready.set))
    try:
        await asyncio.wait([running, asyncio.create_task(ready.wait())], return_when=asyncio.FIRST_COMPLETED)
        async with client(options.listen) as cri:
            yield cri
        assert not running.done()
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
        await server.stop(0)


async def test_a_runtime_that_talks_nonsense_ends_nothing(tmp_path: Path) -> None:
    class Nonsense(grpc.GenericRpcHandler):
        def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[bytes, bytes]:
            async def answer(request: bytes, context: object) -> bytes:
                return b"\xff\xff\xff"

            return grpc.unary_unary_rpc_method_handler(answer)

    async with in_front_of(Nonsense(), tmp_path) as cri:
        for method in ("ListPodSandbox", "RunPodSandbox", "CreateContainer", "StartContainer", "Version"):
            assert await cri.call(method) == b"\xff\xff\xff", "it passes, for kubelet to judge"
