"""What does the agent cost the node that it looks after?

Daemons as they run on a node, each in a process of its own: they read cgroups each second, ask a kubelet for its pods,
and report to an API server. CPU and memory are that process' alone. All cases run at the same time, the two whose cost
is held to a goal on a CPU of their own. A part is a minute, so that whatever comes once a minute is in each; the
cheapest part counts, since what others do on the machine only makes it dearer.

Whether memory stays flat for an hour is asked of a daemon whose clock goes 30 times as fast: it does the rounds, looks
and reports of an hour in two minutes. Whether ten times the pods cost more than ten times the CPU is asked on composed
hosts, since a kernel's own part in it grows by its own rules.

A first agent only leaves compiled modules behind, as an installation has them: compiling costs 5 MiB that stay.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from koord.api.configuration.features import AgentGate
from koord.api.kinds import NODE_METRICS, NODE_SLOS, NODES
from koord.kube.client import Client
from koord.kube.program import own_program
from koord_bench import agent_host
from koord_bench.agent_host import ComposedHost, RealHost
from koord_bench.api_servers import RunningServer, cpu_s, embedded, ended, rss_mb
from koord_bench.children import start_child
from koord_bench.result import Result, result
from koord_minicluster.up.bootstrap import bootstrap

BENCH: Final = "agent"
EVERY_GATE: Final = f"AllAlpha=true,AllBeta=true,{AgentGate.SYSTEM_CONFIG}=false"
"""But the one whose settings are the whole machine's, which is not this benchmark's to change."""
DEFAULT_GOALS: Final = (0.88, 58.0)
"""Percent of a core and MiB."""
EVERY_GATE_GOALS: Final = (1.5, 80.0)
GROWTH_GOAL_MB: Final = 1.0
TIMES_GOAL: Final = 10.0
HOUR_S: Final = 3600.0
FEW_PODS: Final = 4

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
    part_s: float
    parts: int

    @property
    def seconds(self) -> float:
        return self.part_s * self.parts


FULL: Final = Size(pods=100, many_pods=1000, warm_s=12, part_s=60, parts=2)
QUICK: Final = Size(pods=20, many_pods=100, warm_s=2, part_s=2, parts=2)


@dataclass(frozen=True, slots=True)
class Case:
    node: str
    pods: int
    is_composed: bool = False
    gates: str = ""
    times_as_fast: float = 1.0
    "Its clock."
    is_alone: bool = False
    "Whether it has a CPU to itself and the like of it."


@dataclass(frozen=True, slots=True)
class Cost:
    cpu_percent: float
    "Of one core, in the cheapest part."
    rss_mb: float
    growth_mb: float
    "In the second half of the time."
    rounds: int
    "Of reports and looks: how many seconds passed by the daemon's own clock."


def run(quick: bool = False, progress: Callable[[str], None] = lambda line: None) -> list[Result]:
    size = QUICK if quick else FULL
    fast = HOUR_S / size.seconds if not quick else 10.0
    default = Case("default", size.pods, is_alone=True)
    every = Case("every", size.pods, gates=EVERY_GATE, is_alone=True)
    hour = Case("hour", size.pods, is_composed=True, gates=EVERY_GATE, times_as_fast=fast)
    few = Case("few", size.pods, is_composed=True)
    many = Case("many", size.many_pods, is_composed=True)
    cases = (default, every, hour, few, many)
    first = Case("first", FEW_PODS, is_composed=True, gates=EVERY_GATE)
    with embedded() as server, _compiled():
        asyncio.run(_prepare(server, (first, *cases)))
        if not quick:
            _measured(server, [first], replace(size, warm_s=3.0, parts=0), progress)
        costs = _measured(server, cases, size, progress)
    real = "real cgroups" if RealHost.is_possible() else "composed cgroups"
    results = []
    for case, said, goals in ((default, "default gates", DEFAULT_GOALS), (every, "every gate", EVERY_GATE_GOALS)):
        cost, name = costs[case], f"{size.pods} pods, {said}, {real}"
        results.append(_result(name, "CPU", cost.cpu_percent, "% of a core", goals[0], quick))
        results.append(_result(name, "resident memory", cost.rss_mb, "MiB", goals[1], quick))
    minutes = costs[hour].rounds / 60
    name = f"{size.pods} pods, every gate, {minutes:.0f} min in {size.seconds / 60:.0f}, composed cgroups"
    results.append(_result(name, "growth in the second half", costs[hour].growth_mb, "MiB", GROWTH_GOAL_MB, quick))
    times = costs[many].cpu_percent / costs[few].cpu_percent
    name = f"{size.many_pods} pods to {size.pods}, composed cgroups"
    results.append(_result(name, "CPU", times, "times", TIMES_GOAL, quick))
    return results


@contextmanager
def _compiled() -> Iterator[None]:
    """Programs that are started find modules compiled that others have loaded before."""
    written, kept = "PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX"
    before = {name: os.environ.pop(name, None) for name in (written, kept)}
    with tempfile.TemporaryDirectory(prefix="koord-bench-") as directory:
        os.environ[kept] = directory
        try:
            yield
        finally:
            os.environ.pop(kept)
            os.environ.update({name: value for name, value in before.items() if value is not None})


def _result(case: str, metric: str, value: float, unit: str, goal: float, quick: bool) -> Result:
    return result(BENCH, case, metric, value, unit, goal=None if quick else goal)


async def _prepare(server: RunningServer, cases: Sequence[Case]) -> None:
    amounts = {"cpu": str(agent_host.CPUS), "memory": "64Gi", "pods": "2000"}
    async with Client(server.config) as client:
        await bootstrap(client)
        for case in cases:
            metadata = {"name": case.node}
            status = {"capacity": amounts, "allocatable": amounts}
            await client.create(NODES, {"metadata": metadata, "status": status})
            await client.create(NODE_SLOS, {"metadata": metadata, "spec": SLO})
            await client.create(NODE_METRICS, {"metadata": metadata, "spec": {}})


def _measured(
    server: RunningServer, cases: Sequence[Case], size: Size, progress: Callable[[str], None]
) -> dict[Case, Cost]:
    with ExitStack() as stack:
        running = {}
        for case in cases:
            progress(f"starting an agent with {case.pods} pods")
            running[case] = stack.enter_context(_running(server, case))
        progress(f"agents: {len(cases)}, for {size.warm_s + size.seconds:g} s")
        time.sleep(size.warm_s)
        looks = [{case: each.look() for case, each in running.items()}]
        for number in range(size.parts):
            time.sleep(size.part_s)
            looks.append({case: each.look() for case, each in running.items()})
            progress(f"part {number + 1} of {size.parts} is over")
    return {case: _cost(case, [look[case] for look in looks]) for case in cases} if size.parts else {}


@dataclass(frozen=True, slots=True)
class Look:
    at_s: float
    spent_s: float
    rss_mb: float


def _cost(case: Case, looks: Sequence[Look]) -> Cost:
    percents = [
        100 * (after.spent_s - before.spent_s) / (after.at_s - before.at_s) for before, after in pairwise(looks)
    ]
    half, last = looks[len(looks) // 2], looks[-1]
    seconds = (last.at_s - looks[0].at_s) * case.times_as_fast
    return Cost(min(percents), last.rss_mb, max(last.rss_mb - half.rss_mb, 0.0), round(seconds))


@dataclass(frozen=True, slots=True)
class _Running:
    process: subprocess.Popen[bytes]
    log: Path

    def look(self) -> Look:
        if self.process.poll() is not None:
            raise RuntimeError(f"the agent ended with {self.process.returncode}:\n{_end_of(self.log)}")
        return Look(time.monotonic(), cpu_s(self.process.pid), rss_mb(self.process.pid))


@contextmanager
def _running(server: RunningServer, case: Case) -> Iterator[_Running]:
    made = agent_host.pods(case.pods)
    here = agent_host.agent_pods(made)
    with ExitStack() as stack:
        host: ComposedHost | RealHost
        if case.is_composed or not RealHost.is_possible():
            root = stack.enter_context(tempfile.TemporaryDirectory(prefix="koord-bench-"))
            host = ComposedHost(Path(root), here)
        else:
            host = RealHost(case.node)
            stack.callback(host.remove)
            host.make(here)
        stack.enter_context(agent_host.going_on(host.turn, 1.0 / case.times_as_fast))
        kubelet = stack.enter_context(agent_host.kubelet(made))
        state = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="koord-bench-")))
        command = _command(server, case, host, state, kubelet)
        log = state / "log"
        with log.open("wb") as file:
            process = start_child(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file)
        stack.enter_context(ended(process))
        _keep_apart(process.pid, case)
        _until_it_works(process, state / "audit.log", log)
        yield _Running(process, log)


def _command(server: RunningServer, case: Case, host: ComposedHost | RealHost, state: Path, kubelet: str) -> list[str]:
    kubeconfig = str(server.kubeconfig)
    if case.times_as_fast != 1:
        args = (str(case.times_as_fast), kubeconfig, case.node, host.host_root, str(state), kubelet, case.gates)
        return [*own_program("koord_bench.agent_hour"), *args]
    return [
        *own_program(), "agent", "--node-name", case.node, "--kubeconfig", kubeconfig,
        "--host-root", host.host_root, "--cgroup-root", host.cgroup_root, "--state-dir", str(state),
        "--kubelet-address", kubelet, "--feature-gates", case.gates,
        "--pod-resources-proxy-path", str(state / "pod-resources"),
    ]  # fmt: skip


def _keep_apart(pid: int, case: Case) -> None:
    """Who is measured shares no CPU with who is only there to be compared, where there are two."""
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) > 1:
        os.sched_setaffinity(pid, cpus[:1] if case.is_alone else cpus[1:])


def _until_it_works(process: subprocess.Popen[bytes], audit: Path, log: Path) -> None:
    """Its first writes say that it knows its pods and settings."""
    until_s = time.monotonic() + 60
    while not (audit.exists() and audit.stat().st_size):
        if process.poll() is not None or time.monotonic() > until_s:
            raise RuntimeError(f"the agent does nothing:\n{_end_of(log)}")
        time.sleep(0.1)


def _end_of(log: Path) -> str:
    return log.read_text(errors="replace")[-3000:]
