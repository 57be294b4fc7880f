"""The socket with a process of its own, before a small gRPC server that plays kubelet; and what the agent does when the
process dies."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import grpc
import grpc.aio
import pytest

from koord.agent.live.pod_resources import FIRST_WAIT_S, LONGEST_WAIT_S, STEADY_S, PodResources, next_wait_s
from koord.kube.clock import SystemClock
from koord.runtime.pod_resources.live.server import serve
from tests.agent import states
from tests.runtime.pod_resources.messages import answer, container, pod, read
from tests.waiting import eventually

WITHIN_S = 60.0
LIST, GET = "/v1.PodResourcesLister/List", "/v1.PodResourcesLister/Get"
ALLOCATABLE = "/v1.PodResourcesLister/GetAllocatableResources"
ANSWER = answer(pod("ns", "train", container("main")), pod("ns", "web", container("main")))


class PlaysKubelet(grpc.GenericRpcHandler):
    """No kubelet: it answers as one does whose pods are `train` and `web`."""

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[bytes, bytes]:
        method = handler_call_details.method

        async def call(request: bytes, context: Any) -> bytes:
            if method == GET and b"nobody" in request:
                await context.abort(grpc.StatusCode.NOT_FOUND, "pod nobody in namespace ns not found")
            if method == ALLOCATABLE:
                return b"allocatable:" + request
            return ANSWER

        return grpc.unary_unary_rpc_method_handler(call)


@asynccontextmanager
async def proxied(folder: Path, annotations: dict[str, str]) -> AsyncIterator[PodResources]:
    kubelet, own = folder / "kubelet.sock", folder / "own" / "kubelet.sock"
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((PlaysKubelet(),))
    server.add_insecure_port(f"unix://{kubelet}")
    await server.start()
    state = states.node(states.pod("train", "LSR", annotations=annotations))
    kept = PodResources(kubelet, own, folder / "state", lambda: state, SystemClock())
    task = asyncio.create_task(kept.run())
    try:
        yield kept
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        await server.stop(0)


async def ask(socket: Path, method: str, request: bytes = b"") -> bytes:
    async with grpc.aio.insecure_channel(f"unix://{socket}") as channel:
        call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(method)
        return await call(request, timeout=WITHIN_S, wait_for_ready=True)


GIVEN = {"scheduling.koordinator.sh/resource-status": '{"cpuset": "1"}'}


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder whose path leaves room for the names of sockets."""
    with TemporaryDirectory(prefix="k") as name:
        yield Path(name)


async def test_the_socket_adds_what_was_given_is_roots_alone_and_comes_back_after_a_kill(short: Path) -> None:
    async with proxied(short, GIVEN) as kept:
        await eventually(kept.socket.exists)
        found = read(await ask(kept.socket, LIST))
        assert found["ns/train"]["cpus"] == [1]
        assert found["ns/web"]["cpus"] == []
        assert await ask(kept.socket, ALLOCATABLE, b"?") == b"allocatable:?"
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await ask(kept.socket, GET, b"nobody")
        assert refused.value.code() is grpc.StatusCode.NOT_FOUND
        assert "nobody" in (refused.value.details() or "")
        assert stat.S_IMODE(kept.socket.stat().st_mode) == 0o600
        assert stat.S_IMODE(kept.socket.parent.stat().st_mode) == 0o700
        assert stat.S_IMODE((kept.state_dir / "pod-resources.json").stat().st_mode) == 0o600

        first = kept.pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        await eventually(lambda: kept.pid not in (None, first))
        assert read(await ask(kept.socket, LIST))["ns/train"]["cpus"] == [1]
        last = kept.pid
    assert last is not None
    with pytest.raises(ProcessLookupError):
        os.kill(last, 0)


async def test_a_socket_that_is_removed_comes_back_and_what_took_its_place_stays(short: Path) -> None:
    async with proxied(short, GIVEN) as kept:
        await eventually(kept.socket.exists)
        kept.socket.unlink()
        await eventually(kept.socket.exists)
        assert read(await ask(kept.socket, LIST))["ns/train"]["cpus"] == [1]
        kept.socket.unlink()
        kept.socket.write_text("somebody's file")
        first = kept.pid
        await eventually(lambda: kept.pid != first)
        assert kept.socket.read_text() == "somebody's file"


async def test_a_kubelet_that_was_away_is_asked_as_soon_as_it_is_back(short: Path) -> None:
    kubelet, own = short / "kubelet.sock", short / "own.sock"
    is_over = asyncio.Event()
    serving = asyncio.create_task(serve(kubelet, own, short / "given.json", is_over))
    await eventually(own.exists)
    for _ in range(3):
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await ask(own, LIST)
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((PlaysKubelet(),))
    server.add_insecure_port(f"unix://{kubelet}")
    await server.start()
    assert await ask(own, LIST) == ANSWER, "without a wait"
    await server.stop(0)
    is_over.set()
    await serving
    assert not own.exists()


def test_waits_grow_and_a_process_that_was_well_begins_anew() -> None:
    waits, wait_s = [], 0.0
    for _ in range(12):
        wait_s = next_wait_s(wait_s, 0.1)
        waits.append(wait_s)
    assert waits[:4] == [FIRST_WAIT_S, 2, 4, 8]
    assert waits[-1] == LONGEST_WAIT_S
    assert next_wait_s(LONGEST_WAIT_S, STEADY_S) == FIRST_WAIT_S


def test_the_agent_never_loads_grpc() -> None:
    code = "import sys, koord.agent.live.run; sys.exit('grpc' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_without_grpc_the_process_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "grpc.py").write_text("raise ImportError('No module named grpc')")
    run = "runpy.run_module('koord.runtime.pod_resources.live', run_name='__main__')"
    code = f"import sys, runpy; sys.path.insert(0, {str(tmp_path)!r}); {run}"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert said.returncode == 3
    assert "install koord[runtime]" in said.stderr


def test_a_path_that_is_too_long_for_a_socket_is_told(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "koord.runtime.pod_resources.live",
        "kubelet.sock",
        str(tmp_path / ("x" * 108)),
        "given",
    ]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    assert said.returncode == 2
    assert "the path of a socket has at most 107 bytes" in said.stderr
    assert "Traceback" not in said.stderr
