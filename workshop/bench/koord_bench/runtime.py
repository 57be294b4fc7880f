"""What does the proxy add to a call of the container runtime interface?

The same client calls a runtime that does nothing, directly and through `koord runtime-proxy`, in turns: a call that
passes (Version), and one that is looked into (CreateContainer, with the agent asked on its socket). Memory is the
proxy's.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from pathlib import Path
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
from koord_bench.children import rss_mb, running, wait_until
from koord_bench.harness import Progress, Report, Result, Size, percentile, silent, turns

BENCH: Final = "runtime"
FULL: Final = Size(calls=3000)
QUICK: Final = Size(calls=100)
GOALS: Final = {"passed": (1.5, 5.0), "looked into": (3.0, 10.0)}
"""Milliseconds that are added: in the middle, and one in a hundred."""


def run(quick: bool = False, progress: Progress = silent) -> list[Result]:
    report = Report(BENCH, quick, progress)
    with tempfile.TemporaryDirectory(prefix="koord-bench-") as folder:
        root = Path(folder)
        runtime, agent, proxy = (root / f"{name}.sock" for name in ("runtime", "agent", "proxy"))
        (root / "hooks").mkdir()
        hook = {"remote-endpoint": str(agent), "protocol": "koord", "runtime-hooks": ["PreCreateContainer"]}
        (root / "hooks" / "koord.json").write_text(json.dumps(hook))
        back_command = [*own_program("koord_bench.runtime_child"), str(runtime), str(agent)]
        front_command = [
            *own_program(), "runtime-proxy", "--listen", str(proxy), "--runtime-endpoint", str(runtime),
            "--hooks-dir", str(root / "hooks"), "--state-dir", str(root / "state"),
        ]  # fmt: skip
        with running(back_command, root / "back.log") as back:
            wait_until(agent.exists, back, root / "back.log")
            with running(front_command, root / "front.log") as front:
                wait_until(proxy.exists, front, root / "front.log")
                asyncio.run(_measure(report, runtime, proxy, (QUICK if quick else FULL).calls))
                memory_mb = rss_mb(front.pid)
    report.case("the proxy").add("resident memory", memory_mb, "MB", goal=64.0, at_any_size=True)
    return report.rows


async def _measure(report: Report, runtime: Path, proxy: Path, number: int) -> None:
    calls = {"passed": ("Version", b""), "looked into": ("CreateContainer", encode(_container()))}
    async with (
        grpc.aio.insecure_channel(f"unix:{runtime}") as direct,
        grpc.aio.insecure_channel(f"unix:{proxy}") as through,
    ):
        for kind, (method, request) in calls.items():
            report.progress(f"{number} calls that are {kind}, directly and through the proxy")
            times_ms: dict[grpc.aio.Channel, list[float]] = {direct: [], through: []}
            for _, channel in turns((direct, through), number):
                call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(f"/{RUNTIME}/{method}")
                began_s = time.perf_counter()
                await call(request)
                times_ms[channel].append((time.perf_counter() - began_s) * 1000)
            case = report.case(f"a call that is {kind}")
            for metric, share, goal in zip(("median", "99 of 100"), (0.5, 0.99), GOALS[kind], strict=True):
                added_ms = percentile(times_ms[through], share) - percentile(times_ms[direct], share)
                case.add(f"added, {metric}", added_ms, "ms", goal=goal)
            case.add("without the proxy", percentile(times_ms[direct], 0.5), "ms")


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
