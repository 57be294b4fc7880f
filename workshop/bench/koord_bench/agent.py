"""What does the agent cost the node that it looks after?

Daemons as they run on a node, each in a process of its own: they read cgroups each second, ask a kubelet for its pods,
and report to an API server. CPU and memory are that process' alone. All cases run at the same time, the two whose cost
is held to a goal on a CPU of their own. A part is a minute, so that whatever comes once a minute is in each; the
cheapest part counts, since what others do on the machine only makes it dearer.

Whether memory stays flat for an hour is measured with a daemon whose clock is 30 times as fast: it does the rounds
and reports of an hour in two minutes. Whether ten times the pods cost more than ten times the CPU is measured on
composed hosts, since the kernel's own part grows by its own rules.

A first agent only leaves compiled modules behind, as an installation has them: compiling costs 5 MiB that stay.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from koord.api.configuration.features import AgentGate
from koord.api.kinds import NODE_METRICS, NODE_SLOS, NODES
from koord.kube.client import Client
from koord.kube.program import own_program
from koord_bench import agent_host
from koord_bench.agent_host import ComposedHost, RealHost
from koord_bench.api_servers import RunningServer, embedded
from koord_bench.children import cpu_s, rss_mb, running, wait_until
from koord_bench.harness import Progress, Report, Result, Size, silent
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

FULL: Final = Size(pods=100, many_pods=1000, warm_s=12, part_s=60, parts=2)
QUICK: Final = Size(pods=20, many_pods=100, warm_s=2, part_s=2, parts=2)


@dataclass(frozen=True, slots=True)
class Setup:
    """An agent to measure."""

    node: str
    pods: int
    is_composed: bool = False
    gates: str = ""
    times_as_fast: float = 1.0
    "Its clock."
    is_alone: bool = False
    "Whether it shares its CPU only with others that are measured alone."


@dataclass(frozen=True, slots=True)
class Sample:
    """What an agent has used so far."""

    at_s: float
    cpu_s: float
    rss_mb: float


def run(quick: bool = False, progress: Progress = silent) -> list[Result]:
    report, size = Report(BENCH, quick, progress), QUICK if quick else FULL
    seconds = size.part_s * size.parts
    fast = HOUR_S / seconds if not quick else 10.0
    default = Setup("default", size.pods, is_alone=True)
    every = Setup("every", size.pods, gates=EVERY_GATE, is_alone=True)
    hour = Setup("hour", size.pods, is_composed=True, gates=EVERY_GATE, times_as_fast=fast)
    few = Setup("few", size.pods, is_composed=True)
    many = Setup("many", size.many_pods, is_composed=True)
    setups = (default, every, hour, few, many)
    first = Setup("first", FEW_PODS, is_composed=True, gates=EVERY_GATE)
    with embedded() as server, _compiled():
        asyncio.run(_prepare(server, (first, *setups)))
        if not quick:
            _samples(server, [first], Size(warm_s=3.0, part_s=0.0, parts=0), progress)
        samples = _samples(server, setups, size, progress)
    real = "real cgroups" if RealHost.is_possible() else "composed cgroups"
    for setup, gates, goals in ((default, "default gates", DEFAULT_GOALS), (every, "every gate", EVERY_GATE_GOALS)):
        case = report.case(f"{size.pods} pods, {gates}, {real}")
        case.add("CPU", _cpu_percent(samples[setup]), "% of a core", goal=goals[0])
        case.add("resident memory", samples[setup][-1].rss_mb, "MiB", goal=goals[1])
    before, half, last = (samples[hour][number] for number in (0, (size.parts + 1) // 2, -1))
    minutes = (last.at_s - before.at_s) * hour.times_as_fast / 60
    case = report.case(f"{size.pods} pods, every gate, {minutes:.0f} min in {seconds / 60:.0f}, composed cgroups")
    case.add("growth in the second half", max(last.rss_mb - half.rss_mb, 0.0), "MiB", goal=GROWTH_GOAL_MB)
    times = _cpu_percent(samples[many]) / _cpu_percent(samples[few])
    case = report.case(f"{size.many_pods} pods to {size.pods}, composed cgroups")
    case.add("CPU", times, "times", goal=TIMES_GOAL)
    return report.rows


def _cpu_percent(samples: Sequence[Sample]) -> float:
    """Of one core, in the cheapest part."""
    return min(100 * (after.cpu_s - before.cpu_s) / (after.at_s - before.at_s) for before, after in pairwise(samples))


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


async def _prepare(server: RunningServer, setups: Sequence[Setup]) -> None:
    amounts = {"cpu": str(agent_host.CPUS), "memory": "64Gi", "pods": "2000"}
    async with Client(server.config) as client:
        await bootstrap(client)
        for setup in setups:
            metadata = {"name": setup.node}
            status = {"capacity": amounts, "allocatable": amounts}
            await client.create(NODES, {"metadata": metadata, "status": status})
            await client.create(NODE_SLOS, {"metadata": metadata, "spec": SLO})
            await client.create(NODE_METRICS, {"metadata": metadata, "spec": {}})


def _samples(
    server: RunningServer, setups: Sequence[Setup], size: Size, progress: Progress
) -> dict[Setup, list[Sample]]:
    """Of agents that run at the same time: after they are warm, and after each part."""
    with ExitStack() as stack:
        agents = {}
        for setup in setups:
            progress(f"starting an agent with {setup.pods} pods")
            agents[setup] = stack.enter_context(_agent(server, setup))
        progress(f"agents: {len(setups)}, for {size.warm_s + size.part_s * size.parts:g} s")
        time.sleep(size.warm_s)
        samples = {setup: [_sample(agent)] for setup, agent in agents.items()}
        for number in range(size.parts):
            time.sleep(size.part_s)
            for setup, agent in agents.items():
                samples[setup].append(_sample(agent))
            progress(f"part {number + 1} of {size.parts} is over")
    return samples


def _sample(agent: subprocess.Popen[bytes]) -> Sample:
    if agent.poll() is not None:
        raise RuntimeError(f"the agent ended with {agent.returncode}")
    return Sample(time.monotonic(), cpu_s(agent.pid), rss_mb(agent.pid))


@contextmanager
def _agent(server: RunningServer, setup: Setup) -> Iterator[subprocess.Popen[bytes]]:
    made = agent_host.pods(setup.pods)
    here = agent_host.agent_pods(made)
    with ExitStack() as stack:
        host: ComposedHost | RealHost
        if setup.is_composed or not RealHost.is_possible():
            root = stack.enter_context(tempfile.TemporaryDirectory(prefix="koord-bench-"))
            host = ComposedHost(Path(root), here)
        else:
            host = RealHost(setup.node)
            stack.callback(host.remove)
            host.make(here)
        stack.enter_context(agent_host.going_on(host.turn, 1.0 / setup.times_as_fast))
        kubelet = stack.enter_context(agent_host.kubelet(made))
        state = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="koord-bench-")))
        agent = stack.enter_context(running(_command(server, setup, host, state, kubelet), state / "log"))
        _keep_apart(agent.pid, setup)
        # Its first writes show that it has its pods and settings.
        audit = state / "audit.log"
        wait_until(lambda: audit.exists() and audit.stat().st_size, agent, state / "log", every_s=0.1)
        yield agent


def _command(
    server: RunningServer, setup: Setup, host: ComposedHost | RealHost, state: Path, kubelet: str
) -> list[str]:
    kubeconfig = str(server.kubeconfig)
    if setup.times_as_fast != 1:
        args = (str(setup.times_as_fast), kubeconfig, setup.node, host.host_root, str(state), kubelet, setup.gates)
        return [*own_program("koord_bench.agent_hour"), *args]
    return [
        *own_program(), "agent", "--node-name", setup.node, "--kubeconfig", kubeconfig,
        "--host-root", host.host_root, "--cgroup-root", host.cgroup_root, "--state-dir", str(state),
        "--kubelet-address", kubelet, "--feature-gates", setup.gates,
        "--pod-resources-proxy-path", str(state / "pod-resources"),
    ]  # fmt: skip


def _keep_apart(pid: int, setup: Setup) -> None:
    """Agents with a goal share no CPU with those that are only compared, if there are two CPUs."""
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) > 1:
        os.sched_setaffinity(pid, cpus[:1] if setup.is_alone else cpus[1:])
