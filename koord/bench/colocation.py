"""Do services notice the batch work beside them, and how much of the idle CPU does it get?

An open-loop load (requests arrive at their own times, whether or not the last one is done) on every CPU, beside burners
of four kinds: CPU, memory bandwidth, forks, page cache. Five ways: alone, unprotected (equal weights), with kernel
protection alone (best effort in the idle class), with CPU suppress alone at its default 65%, with both. Rounds are
interleaved, and the figures are medians over them: on a shared machine only what was measured side by side compares.

Needs root: real cgroups below one that is made here, and taken away.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from koord.agent.core import Agent
from koord.agent.executor.executor import Executor
from koord.agent.executor.ledger import Ledger
from koord.agent.host import usage
from koord.agent.host.knobs import CPU_IDLE, CPU_SHARES
from koord.agent.host.topology import topology
from koord.agent.pods import pods_of
from koord.agent.qos.cpu_budget import cpu_budget
from koord.agent.state import Kubelet
from koord.agent.view import state_of
from koord.api.configuration.features import AgentGate
from koord.api.configuration.slo_defaults import THRESHOLD_STRATEGY
from koord.api.kubernetes.node import Node
from koord.api.kubernetes.runnable import RunnablePod
from koord.api.machinery.codec import convert
from koord.api.protocol.crd.node_slo import NodeSLOSpec
from koord.bench.result import Result, result
from koord.minicluster.local.live.tree import DRIVER, Tree
from koord.minicluster.up.program import own_program

BENCH: Final = "colocation"
WAYS: Final = ("alone", "unprotected", "kernel", "suppress", "both")
BURSTABLE: Final = "kubepods/burstable/podservice"
BEST_EFFORT: Final = "kubepods/besteffort"
BURNERS: Final = f"{BEST_EFFORT}/podburners"
LOAD: Final = 0.25
"""The part of every CPU that the service uses."""
REQUEST_MS: Final = 1.0
SETTLED_S: Final = 3.0
ROUND_S: Final = 1.0
SAME: Final = 1.05
"""Two runs of one way differ by as much."""
THRESHOLD: Final = THRESHOLD_STRATEGY.cpu_suppress_threshold_percent or 0


@dataclass(slots=True)
class Round:
    p50_ms: float
    p99_ms: float
    delay_p50_ms: float
    "Of run-queue delay: how long a request's thread waited for a CPU, in all."
    delay_p99_ms: float
    burnt: float
    "Of the CPU time that the service left idle, the part that the burners got."
    over_budget: float
    "Burners' CPU beyond what suppress allowed, as a part of that; negative below."


@dataclass(slots=True)
class Rounds:
    of: list[Round] = field(default_factory=list)

    def median(self, figure: str) -> float:
        return statistics.median(float(getattr(each, figure)) for each in self.of)


def run(quick: bool = False, progress: Callable[[str], None] = lambda line: None) -> list[Result]:
    if os.geteuid() != 0:
        progress("the co-location figure needs root: it is left out")
        return []
    rounds, seconds = (1, 2.0) if quick else (5, 8.0)
    found = {way: Rounds() for way in WAYS}
    for number in range(rounds):
        for way in WAYS:
            progress(f"round {number + 1} of {rounds}: {way}")
            found[way].of.append(measure(way, seconds))
    alone = found["alone"].median("p99_ms")
    best = min(found[way].median("p99_ms") for way in ("kernel", "suppress"))
    goals = {"kernel": 1.15 * alone, "both": SAME * best}
    results = []
    for way in WAYS:
        own = found[way]
        goal = None if quick else goals.get(way)
        results += [
            result(BENCH, way, "p50", own.median("p50_ms"), "ms", baseline=found["alone"].median("p50_ms")),
            result(BENCH, way, "p99", own.median("p99_ms"), "ms", baseline=alone, goal=goal),
            result(BENCH, way, "run-queue delay, p50", own.median("delay_p50_ms"), "ms"),
            result(BENCH, way, "run-queue delay, p99", own.median("delay_p99_ms"), "ms"),
        ]
        if way != "alone":
            least = 0.9 if way == "kernel" and not quick else None
            part = own.median("burnt")
            results.append(result(BENCH, way, "idle CPU used", part, "of 1", more_is_better=True, goal=least))
        if way in ("suppress", "both"):
            most = 0.05 if not quick else None
            results.append(result(BENCH, way, "off the budget", abs(own.median("over_budget")), "of it", goal=most))
    return results


def measure(way: str, seconds: float) -> Round:
    with node() as tree:
        return _measured(tree, way, seconds)


@contextmanager
def node() -> Iterator[Tree]:
    tree = Tree(f"koord-bench-{os.getpid()}", 0, 0)
    tree.make()
    try:
        yield tree
    finally:
        tree.remove()
        tree.close()


def _measured(tree: Tree, way: str, seconds: float) -> Round:
    cpus = os.cpu_count() or 1
    for directory in (BURSTABLE, BURNERS):
        tree.directory(directory)
    tree.set(CPU_SHARES, "kubepods/burstable", 1024)
    tree.set(CPU_SHARES, BEST_EFFORT, 1024 if way == "unprotected" else 2)
    if way in ("kernel", "both"):
        tree.set(CPU_IDLE, BEST_EFFORT, 1)
    agent = _Suppressor(tree) if way in ("suppress", "both") else None
    burners = [] if way == "alone" else _burners(tree)
    service = [_service(tree, number, seconds + SETTLED_S) for number in range(cpus)]
    try:
        if agent is not None:
            agent.settle(SETTLED_S)
        else:
            time.sleep(SETTLED_S)
        before = {each: usage.cpu_ns(tree.cgroups, each) for each in (BURSTABLE, BURNERS)}
        began = time.monotonic()
        allowed = agent.settle(seconds) if agent is not None else []
        time.sleep(max(began + seconds - time.monotonic(), 0))
        took_s = time.monotonic() - began
        used = {each: (usage.cpu_ns(tree.cgroups, each) - before[each]) / 1e9 for each in before}
        answers = [json.loads(each.communicate(timeout=60)[0]) for each in service]
    finally:
        for each in (*burners, *service):
            each.kill()
            each.wait()
    times = sorted(one for answer in answers for one in answer["ms"])
    delays = sorted(one for answer in answers for one in answer["delays_ms"])
    idle_s = max(cpus * took_s - used[BURSTABLE], 1e-9)
    budget_s = statistics.mean(allowed) / 1000 * took_s if allowed else 0.0
    return Round(
        p50_ms=_percentile(times, 0.5),
        p99_ms=_percentile(times, 0.99),
        delay_p50_ms=_percentile(delays, 0.5),
        delay_p99_ms=_percentile(delays, 0.99),
        burnt=used[BURNERS] / idle_s,
        over_budget=used[BURNERS] / budget_s - 1 if budget_s else 0.0,
    )


class _Suppressor:
    """The agent with nothing but CPU suppress, in rounds of a second."""

    def __init__(self, tree: Tree) -> None:
        gates = {gate: gate is AgentGate.BE_CPU_SUPPRESS for gate in AgentGate}
        self._agent = Agent(tree.cgroups, Executor(tree.cgroups, Ledger()))
        slo = {"resourceUsedThresholdWithBE": {"enable": True, "cpuSuppressPolicy": "cfsQuota"}}
        pods = pods_of([_pod("service", "LS"), _pod("burners", "BE")], DRIVER)
        self._state = state_of(
            tree.cgroups, topology(tree.files), DRIVER, Node(), convert(NodeSLOSpec, slo), pods, Kubelet(), gates
        )

    def settle(self, seconds: float) -> list[int]:
        """Rounds for so long; the milli-cores that the formula allowed in each."""
        until = time.monotonic() + seconds
        allowed = []
        while (now := time.monotonic()) < until:
            self._agent.round(self._state, now)
            if (budget := cpu_budget(self._state, self._agent.samples, THRESHOLD, None, now)) is not None:
                allowed.append(budget.allowed)
            time.sleep(max(min(now + ROUND_S, until) - time.monotonic(), 0))
        return allowed


def _pod(name: str, qos: str) -> RunnablePod:
    resources = {} if qos == "BE" else {"requests": {"cpu": "1"}}
    raw = {
        "metadata": {"name": name, "namespace": "bench", "uid": name, "labels": {"koordinator.sh/qosClass": qos}},
        "spec": {"containers": [{"name": "c", "resources": resources}]},
        "status": {"phase": "Running"},
    }
    return convert(RunnablePod, raw)


def _service(tree: Tree, number: int, seconds: float) -> subprocess.Popen[bytes]:
    args = [str(number), str(seconds), str(SETTLED_S), str(LOAD), str(REQUEST_MS)]
    return _started(tree, BURSTABLE, [*own_program("koord.bench.colocation_service"), *args])


def _burners(tree: Tree) -> list[subprocess.Popen[bytes]]:
    cpus = os.cpu_count() or 1
    copying = "b=bytearray(64<<20)\nwhile True: b[:32<<20]=b[32<<20:]"
    forking = "while :; do /bin/true; done"
    reading = "while :; do cat /usr/bin/* > /dev/null 2>&1; done"
    commands: list[list[str]] = [["/bin/sh", "-c", "while :; do :; done"]] * cpus
    commands += [[sys.executable, "-c", copying], ["/bin/sh", "-c", forking], ["/bin/sh", "-c", reading]]
    return [_started(tree, BURNERS, command) for command in commands]


def _started(tree: Tree, directory: str, command: Sequence[str]) -> subprocess.Popen[bytes]:
    doors = tree.doors(directory)

    def enter() -> None:
        for door in doors:
            with open(door, "w") as file:
                file.write(str(os.getpid()))

    return subprocess.Popen(
        command, preexec_fn=enter, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )


def _percentile(ordered: Sequence[float], part: float) -> float:
    return ordered[min(int(len(ordered) * part), len(ordered) - 1)] if ordered else 0.0
