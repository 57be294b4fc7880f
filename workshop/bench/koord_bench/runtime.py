"""What does the proxy add to a call of the container runtime interface?

The same client calls a runtime that does nothing, directly and through `koord runtime-proxy`, in turns: a call that
passes (Version), and one that is looked into (CreateContainer, with the agent asked on its socket). Memory is the
proxy's.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Final

import grpc
import grpc.aio

from koord.api.machinery.messages import encode
from koord.kube.program import own_program
from koord.runtime.cri import (
    RUNTIME,
    ContainerConfig,
    ContainerMetadata,
    CreateContainerRequest,
    KeyValue,
    LinuxContainerConfig,
    LinuxContainerResources,
    LinuxPodSandboxConfig,
    PodSandboxConfig,
    PodSandboxMetadata,
)
from koord_bench.api_servers import ended, rss_mb
from koord_bench.children import start_child
from koord_bench.result import Result, result

BENCH: Final = "runtime"
READY_WITHIN_S: Final = 30.0
GOALS: Final = {"passed": (1.5, 5.0), "looked into": (3.0, 10.0)}
"""Milliseconds that are added: in the middle, and one in a hundred."""


def run(quick: bool = False, progress: Callable[[str], None] = lambda line: None) -> list[Result]:
    with tempfile.TemporaryDirectory(prefix="koord-bench-") as folder, ExitStack() as stack:
        root = Path(folder)
        runtime, agent, proxy = (root / f"{name}.sock" for name in ("runtime", "agent", "proxy"))
        (root / "hooks").mkdir()
        said = {"remote-endpoint": str(agent), "protocol": "koord", "runtime-hooks": ["PreCreateContainer"]}
        (root / "hooks" / "koord.json").write_text(json.dumps(said))
        behind = start_child([sys.executable, "-m", "koord_bench.runtime_child", str(runtime), str(agent)])
        stack.enter_context(ended(behind))
        _until(agent, behind)
        front = start_child(
            [
                *own_program(), "runtime-proxy", "--listen", str(proxy), "--runtime-endpoint", str(runtime),
                "--hooks-dir", str(root / "hooks"), "--state-dir", str(root / "state"),
            ]
        )  # fmt: skip
        stack.enter_context(ended(front))
        _until(proxy, front)
        results = asyncio.run(_measured(runtime, proxy, 100 if quick else 3000, quick, progress))
        memory = rss_mb(front.pid)
        return [*results, result(BENCH, "the proxy", "resident memory", memory, "MB", goal=64.0)]


def _until(socket: Path, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + READY_WITHIN_S
    while not socket.exists():
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"{process.args!r} does not serve")
        time.sleep(0.02)


async def _measured(
    runtime: Path, proxy: Path, number: int, quick: bool, progress: Callable[[str], None]
) -> list[Result]:
    calls = {"passed": ("Version", b""), "looked into": ("CreateContainer", encode(_container()))}
    found = []
    async with (
        grpc.aio.insecure_channel(f"unix:{runtime}") as direct,
        grpc.aio.insecure_channel(f"unix:{proxy}") as through,
    ):
        for case, (method, request) in calls.items():
            progress(f"{number} calls that are {case}, directly and through the proxy")
            times: dict[str, list[float]] = {"direct": [], "through": []}
            for _ in range(number):
                for way, channel in (("direct", direct), ("through", through)):
                    call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(f"/{RUNTIME}/{method}")
                    began_s = time.perf_counter()
                    await call(request)
                    times[way].append((time.perf_counter() - began_s) * 1000)
            for index, (metric, at) in enumerate((("added, median", 0.5), ("added, 99 of 100", 0.99))):
                added = _at(times["through"], at) - _at(times["direct"], at)
                goal = None if quick else GOALS[case][index]
                found.append(result(BENCH, f"a call that is {case}", metric, added, "ms", goal=goal))
            found.append(result(BENCH, f"a call that is {case}", "without the proxy", median(times["direct"]), "ms"))
    return found


def _at(times: list[float], part: float) -> float:
    return sorted(times)[min(int(len(times) * part), len(times) - 1)]


def _container() -> CreateContainerRequest:
    """About as large as kubelet's."""
    labels = {f"label-{i}": "x" * 40 for i in range(10)}
    sandbox = PodSandboxConfig(
        PodSandboxMetadata("web", "u1", "shop"), labels, labels, LinuxPodSandboxConfig("/kubepods/besteffort/podu1")
    )
    config = ContainerConfig(
        ContainerMetadata("main"),
        [KeyValue(f"VARIABLE_{i}", b"x" * 40) for i in range(30)],
        linux=LinuxContainerConfig(LinuxContainerResources(cpu_shares=2)),
    )
    return CreateContainerRequest("s1", config, sandbox)
