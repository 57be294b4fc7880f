"""How fast are whole jobs decided, and what does a job cost that does not fit?

decided     gangs of 8 to 512 pods on nodes that are half full; three of ten gangs cannot fit: CPU seconds from
            the queue to the decision, with its explanation
retry       one gang that does not fit, tried again because a node has more room
alike       a thousand equal pods, placed by one pass over the nodes
quotas      the check of a pod, and changes of quotas, with ten thousand of them in five levels
statuses    how far quotas and PodGroups on the embedded API server are behind the truth, while jobs come and go
bound       gangs of 64 on the embedded API server, beside single pods in the same run
contest     gangs of 64 on kube-apiserver with every plugin on, beside Koordinator's own scheduler
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from msgspec.structs import replace

from koord.api.configuration.scheduler_config import SHIPPED
from koord.api.kinds import NODES, PODS
from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Pod
from koord.api.machinery.codec import convert
from koord.api.protocol import names
from koord.kube.client import Client
from koord.kube.locate import locate
from koord.scheduler.core.core import Core
from koord.scheduler.core.decision import Bind, Nowhere
from koord.scheduler.core.moment import Moment
from koord.scheduler.profiles import profiles_of
from koord_bench import api_servers, bursts, contest, quota_trees, scheduling, statuses
from koord_bench.api_load import Target
from koord_bench.api_servers import RunningServer
from koord_bench.harness import Progress, Report, Result, Size, silent, turns, undisturbed

BENCH: Final = "jobs"
CORES: Final = 32
SIZES: Final = (8, 8, 8, 8, 16, 16, 16, 24, 24, 512)
"""Of ten gangs."""
GANG: Final = 64
JOBS_A_SECOND: Final = 3.0
FULL: Final = Size(
    nodes=5_000, gangs=1_000, widths=quota_trees.WIDTHS, quota_pods=5_000, status_seconds=30.0,
    bound_nodes=1_000, bound_pods=3_072, contest_nodes=5_000, contest_pods=3_072,
)  # fmt: skip
QUICK: Final = Size(
    nodes=500, gangs=50, widths=quota_trees.QUICK_WIDTHS, quota_pods=500, status_seconds=4.0,
    bound_nodes=50, bound_pods=256, contest_nodes=50, contest_pods=128,
)  # fmt: skip


@dataclass(slots=True)
class GangDecisions:
    pods: int = 0
    failed: int = 0
    seconds: float = 0.0
    retries_s: list[float] = field(default_factory=list)


def run(quick: bool = False, progress: Progress = silent) -> list[Result]:
    report, size = Report(BENCH, quick, progress), QUICK if quick else FULL
    progress(f"{size.gangs} gangs on {size.nodes} nodes")
    decisions = decided(size.nodes, size.gangs)
    case = report.case(f"{size.gangs} gangs, {decisions.pods} pods, {size.nodes} nodes")
    case.add("decided", decisions.pods / decisions.seconds, "pods/s", more_is_better=True, goal=10_000)
    case.add("retry of a failing gang, slowest", 1000 * max(decisions.retries_s), "ms", goal=5.0)
    number = size.nodes // 5
    progress(f"{number} alike members on {size.nodes} nodes")
    case = report.case(f"{number} alike members, {size.nodes} nodes")
    case.add("decided", 1000 * alike(size.nodes, number), "ms", goal=20.0)
    progress("quotas in five levels")
    costs = quota_trees.measured(size.widths, size.quota_pods)
    case = report.case(f"{costs.quotas} quotas in 5 levels")
    case.add("check of a pod", costs.check_us, "us", goal=10.0)
    case.add("changes of quotas, each with a check", costs.change_s, "changes/s", more_is_better=True, goal=2_000)
    _statuses(report, size)
    _bound(report, size)
    workloads = (contest.plain(size.contest_pods), contest.gangs(size.contest_pods))
    contest.add_rows(report, size.contest_nodes, workloads, bursts.Goals())
    return report.rows


def decided(nodes: int, gangs: int, seed: int = 0) -> GangDecisions:
    """Decide about all gangs once, and again about those that did not fit."""
    core, decisions = half_full(nodes, random.Random(seed)), GangDecisions()
    for i in range(gangs):
        # Three of ten gangs of each size.
        size, hopeless = SIZES[i % 10], (i + i // 10) % 10 < 3
        for pod in members(f"gang-{i}", size, cores=20 if hopeless else 1):
            core.put(PODS, pod)
        decisions.pods += size
    with undisturbed():
        for decision, took_s in _decisions(core):
            decisions.seconds += took_s
            if isinstance(decision, Bind):
                for member in decision.members:
                    core.bound(decision, member.ask)
            decisions.failed += isinstance(decision, Nowhere)
        # One node grows, but not enough: all gangs that did not fit are tried again.
        core.at(Moment(60.0, 60.0))
        core.put(NODES, _node(0, cores=2 * CORES))
        decisions.retries_s += [took_s for decision, took_s in _decisions(core) if isinstance(decision, Nowhere)]
    return decisions


def alike(nodes: int, number: int) -> float:
    """CPU seconds of one decision about a number of equal pods, whose class is cached."""
    core = half_full(nodes, random.Random(0))
    took = []
    for name in ("first", "second", "third"):
        for pod in members(name, number, cores=1):
            core.put(PODS, pod)
        engine = next(iter(core.engines.values()))
        (attempt,) = core.queue
        with undisturbed():
            began_s = time.thread_time()
            placements = engine.place_all(attempt.entity.pods)
            took.append(time.thread_time() - began_s)
        assert all(placement.node for placement in placements)
        core = half_full(nodes, random.Random(0)) if name != "third" else core
    return min(took)


def half_full(nodes: int, rng: random.Random) -> Core:
    """Nodes with half of their cores taken, more or less, under the shipped configuration."""
    core = Core(profiles_of(SHIPPED), alone=True)
    for i in range(nodes):
        core.put(NODES, _node(i))
    for i in range(nodes):
        running = convert(Pod, _pod(f"running-{i}", "", 1, cores=rng.randint(14, 18)))
        core.put(PODS, replace(running, spec=replace(running.spec, node_name=_node_name(i))))
    return core


def members(gang: str, number: int, cores: int) -> list[Pod]:
    return [convert(Pod, _pod(f"{gang}-{i}", gang, number, cores=cores)) for i in range(number)]


def _pod(name: str, gang: str, least: int, *, cores: int) -> dict[str, Any]:
    annotations: dict[str, str] = (
        {names.ANNOTATION_GANG_NAME: gang, names.ANNOTATION_GANG_MIN_AVAILABLE: str(least)} if gang else {}
    )
    requests = {"cpu": str(cores), "memory": f"{cores}Gi"}
    return {
        "metadata": {
            "name": name,
            "namespace": "lab",
            "uid": name,
            "annotations": annotations,
            "labels": {"job": gang},
        },
        "spec": {"containers": [{"name": "worker", "image": "train:1", "resources": {"requests": requests}}]},
        "status": {"phase": "Pending", "qosClass": "Burstable"},
    }


def _node_name(i: int) -> str:
    return f"node-{i:05}"


def _node(i: int, cores: int = CORES) -> Node:
    labels = {"kubernetes.io/hostname": _node_name(i), "topology.kubernetes.io/zone": f"zone-{i % 3}"}
    allocatable = {"cpu": str(cores), "memory": f"{4 * cores}Gi", "pods": "110"}
    data = {"metadata": {"name": _node_name(i), "labels": labels}, "status": {"allocatable": allocatable}}
    return convert(Node, data)


def _decisions(core: Core) -> Iterator[tuple[object, float]]:
    while True:
        began_s = time.thread_time()
        decision = core.decide()
        took_s = time.thread_time() - began_s
        if decision is None:
            return
        yield decision, took_s


def _statuses(report: Report, size: Size) -> None:
    """Goals: within two seconds of the truth, and exact at rest."""
    with (
        api_servers.embedded() as server,
        bursts.koord_process(server, "hollow", "--nodes", "100"),
        bursts.koord_process(server, "scheduler", "--alone"),
    ):
        report.progress(f"statuses: jobs come and go for {size.status_seconds:g} s")
        late = asyncio.run(statuses.lateness(server, size.widths, size.status_seconds, JOBS_A_SECOND))
    case = report.case(f"embedded, {late.quotas} quotas in 5 levels, {late.pods} pods")
    case.add("quota behind the truth, at most", late.quota_s, "s", goal=2.0)
    case.add("PodGroup behind the truth, at most", late.group_s, "s", goal=2.0)
    case.add("after the last change, until all is said", late.rest_s, "s", goal=2.0)
    case.add("objects that are wrong at rest", late.wrong, "objects", goal=0, at_any_size=True)


def _bound(report: Report, size: Size) -> None:
    """Gangs of 64, with single pods as the baseline, from their creation to the binding."""
    with api_servers.embedded() as server:
        report.progress("starting nodes")
        with (
            bursts.koord_process(server, "hollow", "--nodes", str(size.bound_nodes)),
            bursts.koord_process(server, "scheduler", "--alone"),
        ):
            report.progress(f"binding {size.bound_pods} pods alone, and in gangs of 64")
            alone, together = asyncio.run(_rates(server, size.bound_pods))
    case = report.case(f"embedded, {size.bound_nodes} nodes, gangs of 64", "single pods, in the same run")
    case.add("bound pods", together, "pods/s", baseline=alone, more_is_better=True, ratio_goal=0.95)


async def _rates(server: RunningServer, pods: int) -> tuple[float, float]:
    async with Client(locate(str(server.kubeconfig))) as client:
        await bursts.make_namespace(client)
        # The first pods find caches empty.
        await _rate(client, server, [bursts.pod_request(f"first-{i}") for i in range(pods // 8)])
        took_s = {"alone": 0.0, "gang": 0.0}
        for turn, kind in turns(("alone", "gang"), 2):
            requests = [_request(kind, turn, i) for i in range(pods // 2)]
            took_s[kind] += len(requests) / await _rate(client, server, requests)
        return pods / took_s["alone"], pods / took_s["gang"]


def _request(kind: str, turn: int, i: int) -> bytes:
    if kind == "alone":
        return bursts.pod_request(f"alone{turn}-{i}")
    gang = f"gang{turn}-{i // GANG}"
    gang_of: dict[str, str] = {names.ANNOTATION_GANG_NAME: gang, names.ANNOTATION_GANG_MIN_AVAILABLE: str(GANG)}
    return bursts.pod_request(f"{gang}-{i % GANG}", annotations=gang_of)


async def _rate(client: Client, server: RunningServer, requests: list[bytes]) -> float:
    async with bursts.watching(client) as times:
        before, began_s = len(times.bound_s), time.monotonic()
        await Target(server.config).spread(bursts.CLIENTS, requests, 201)
        await times.all_bound(before + len(requests))
        rate = len(requests) / (time.monotonic() - began_s)
        # Statuses that nodes still write are no part of the next round.
        await scheduling.at_rest(client)
        return rate
