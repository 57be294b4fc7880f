"""What does the agent cost the node that it looks after?

The daemon as it runs on a node, in a process of its own: it reads cgroups each second, asks a kubelet for its pods, and
reports to an API server. CPU and memory are that process' alone. Whether ten times the pods cost more than ten times
the CPU is asked on composed hosts, since a kernel's own part in it grows by its own rules.
"""

from __future__ import annotations

import asyncio
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from koord.api.kinds import NODE_METRICS, NODE_SLOS, NODES
from koord.bench import agent_host
from koord.bench.agent_host import ComposedHost, RealHost
from koord.bench.api_servers import RunningServer, cpu_s, embedded, ended, rss_mb
from koord.bench.result import Result, result
from koord.kube.client import Client
from koord.minicluster.up.bootstrap import bootstrap
from koord.minicluster.up.program import own_program

BENCH: Final = "agent"
NODE: Final = "n1"
ALL_GATES: Final = "AllAlpha=true,AllBeta=true"
GROWTH_GOAL_MB: Final = 1.0
TIMES_GOAL: Final = 10.0

SLO: Final[dict[str, Any]] = {
    "resourceUsedThresholdWithBE": {"enable": True, "cpuSuppressPolicy": "cfsQuota"},
    "cpuBurstStrategy": {"policy": "auto"},
    "resourceQOSStrategy": {
        "lsClass": {"cpuQOS": {"enable": True}, "memoryQOS": {"enable": True, "minLimitPercent": 30}},
        "beClass": {"cpuQOS": {"enable": True}, "memoryQOS": {"enable": True, "throttlingPercent": 80}},
    },
}
"""A node on which everything is switched on; what the agent makes of it is up to its gates."""


@dataclass(frozen=True, slots=True)
class Size:
    pods: int
    many_pods: int
    warm_s: float
    seconds: float


FULL: Final = Size(pods=100, many_pods=1000, warm_s=10, seconds=180)
QUICK: Final = Size(pods=20, many_pods=100, warm_s=2, seconds=4)
CALM_S: Final = 20.0
"""How long the pods of composed cgroups are measured, at full size."""


@dataclass(frozen=True, slots=True)
class Cost:
    cpu_percent: float
    "Of one core."
    rss_mb: float
    growth_mb: float
    "In the second half of the time."


def run(quick: bool = False, progress: Callable[[str], None] = lambda line: None) -> list[Result]:
    size = QUICK if quick else FULL
    results: list[Result] = []
    with embedded() as server:
        asyncio.run(_prepare(server))
        where = "real cgroups" if RealHost.is_possible() else "composed cgroups"
        for gates, said, cpu_goal, memory_goal in (
            ("", "default gates", 1.0, 64.0),
            (ALL_GATES, "every gate", 2.0, 80.0),
        ):
            case = f"{size.pods} pods, {said}, {where}"
            progress(f"{case}: {size.seconds:g} s")
            with _host(size.pods, composed=False) as host:
                cost = _measured(server, host, size, gates)
            for metric, value, unit, goal in (
                ("CPU", cost.cpu_percent, "% of a core", cpu_goal),
                ("resident memory", cost.rss_mb, "MB", memory_goal),
                ("growth in the second half", cost.growth_mb, "MB", GROWTH_GOAL_MB),
            ):
                results.append(result(BENCH, case, metric, value, unit, goal=None if quick else goal))
        costs = []
        for number in (size.pods, size.many_pods):
            progress(f"{number} pods, composed cgroups")
            with _host(number, composed=True) as host:
                # A thousand pods' first writes take a while.
                calm = replace(size, warm_s=3 * size.warm_s, seconds=min(CALM_S, size.seconds))
                costs.append(_measured(server, host, calm, "").cpu_percent)
        case = f"{size.many_pods} pods to {size.pods}, composed cgroups"
        times_goal = None if quick else TIMES_GOAL
        results.append(result(BENCH, case, "CPU", costs[1] / costs[0], "times", goal=times_goal))
    return results


async def _prepare(server: RunningServer) -> None:
    amounts = {"cpu": str(agent_host.CPUS), "memory": "64Gi", "pods": "2000"}
    async with Client(server.config) as client:
        await bootstrap(client)
        await client.create(
            NODES, {"metadata": {"name": NODE}, "status": {"capacity": amounts, "allocatable": amounts}}
        )
        await client.create(NODE_SLOS, {"metadata": {"name": NODE}, "spec": SLO})
        await client.create(NODE_METRICS, {"metadata": {"name": NODE}, "spec": {}})


@dataclass(frozen=True, slots=True)
class _Running:
    host: ComposedHost | RealHost
    kubelet: str


@contextmanager
def _host(number: int, *, composed: bool) -> Iterator[_Running]:
    made = agent_host.pods(number)
    here = agent_host.agent_pods(made)
    with ExitStack() as stack:
        host: ComposedHost | RealHost
        if composed or not RealHost.is_possible():
            root = stack.enter_context(tempfile.TemporaryDirectory(prefix="koord-bench-"))
            host = ComposedHost(Path(root), here)
        else:
            host = RealHost()
            stack.callback(host.remove)
            host.make(here)
        stack.enter_context(agent_host.going_on(host.turn))
        yield _Running(host, stack.enter_context(agent_host.kubelet(made)))


def _measured(server: RunningServer, running: _Running, size: Size, gates: str) -> Cost:
    with tempfile.TemporaryDirectory(prefix="koord-bench-") as state:
        command = [
            *own_program(), "agent", "--node-name", NODE, "--kubeconfig", str(server.kubeconfig),
            "--host-root", running.host.host_root, "--cgroup-root", running.host.cgroup_root, "--state-dir", state,
            "--kubelet-address", running.kubelet, "--feature-gates", gates,
        ]  # fmt: skip
        log = Path(state, "log")
        with log.open("wb") as file:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file)
        with ended(process):
            _until_it_works(process, Path(state, "audit.log"), log)
            time.sleep(size.warm_s)
            began_s, spent_s = time.monotonic(), cpu_s(process.pid)
            time.sleep(size.seconds / 2)
            _must_run(process, log)
            half_mb = rss_mb(process.pid)
            time.sleep(size.seconds / 2)
            _must_run(process, log)
            took_s, spent_s = time.monotonic() - began_s, cpu_s(process.pid) - spent_s
            end_mb = rss_mb(process.pid)
    return Cost(spent_s / took_s * 100, end_mb, max(end_mb - half_mb, 0.0))


def _until_it_works(process: subprocess.Popen[bytes], audit: Path, log: Path) -> None:
    """Its first writes say that it knows its pods and settings."""
    until_s = time.monotonic() + 60
    while not (audit.exists() and audit.stat().st_size):
        if process.poll() is not None or time.monotonic() > until_s:
            raise RuntimeError(f"the agent does nothing:\n{log.read_text(errors='replace')[-3000:]}")
        time.sleep(0.1)


def _must_run(process: subprocess.Popen[bytes], log: Path) -> None:
    if process.poll() is not None:
        raise RuntimeError(f"the agent ended with {process.returncode}:\n{log.read_text(errors='replace')[-3000:]}")
