"""How fast are whole jobs decided, and what does a job cost that does not fit?

decided     gangs of 8 to 512 pods on nodes that are half full, three of ten of which cannot fit: CPU seconds from
            the queue to the decision, with what is told of it
retry       one such gang, tried again because a node has more room
alike       a thousand equal pods, placed by one pass over the nodes
quotas      the check of a pod, and changes of quotas, with ten thousand of them in five levels
statuses    how far quotas and PodGroups on the embedded API server are behind the truth, while jobs come and go
bound       gangs of 64 on the embedded API server, beside single pods in the same run
contest     gangs of 64 on kube-apiserver with every plugin on, beside Koordinator's own scheduler
"""

from __future__ import annotations

import asyncio
import gc
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
from koord_bench.result import Result, result

BENCH: Final = "jobs"
CORES: Final = 32
SIZES: Final = (8, 8, 8, 8, 16, 16, 16, 24, 24, 512)
"""Of ten gangs."""
GANG: Final = 64
JOBS_A_SECOND: Final = 3.0
TURNS: Final = ("alone", "gang", "gang", "alone")
"""In which pods are bound, each half of them."""
Progress = Callable[[str], None]


@dataclass(slots=True)
class Figures:
    pods: int = 0
    gangs: int = 0
    failed: int = 0
    seconds: float = 0.0
    retries_s: list[float] = field(default_factory=list)


def run(quick: bool = False, progress: Progress = lambda line: None) -> list[Result]:
    """All cases. `quick` shrinks them, and leaves out the goals for the full size."""
    nodes, gangs = (500, 50) if quick else (5_000, 1_000)
    progress(f"{gangs} gangs on {nodes} nodes")
    found = decided(nodes, gangs)
    case = f"{gangs} gangs, {found.pods} pods, {nodes} nodes"
    slowest_ms = 1000 * max(found.retries_s)
    members = nodes // 5
    progress(f"{members} alike members on {nodes} nodes")
    alike_ms = 1000 * alike(nodes, members)
    results = [
        result(BENCH, case, "decided", found.pods / found.seconds, "pods/s", more_is_better=True,
               goal=None if quick else 10_000),
        result(BENCH, case, "retry of a failing gang, slowest", slowest_ms, "ms", goal=None if quick else 5.0),
        result(BENCH, f"{members} alike members, {nodes} nodes", "decided", alike_ms, "ms",
               goal=None if quick else 20.0),
    ]  # fmt: skip
    results += _quotas(quick, progress) + _statuses(quick, progress)
    return results + _bound(quick, progress) + _contest(quick, progress)


def _quotas(quick: bool, progress: Progress) -> list[Result]:
    progress("quotas in five levels")
    found = quota_trees.measured(*((quota_trees.QUICK_WIDTHS, 500) if quick else ()))
    case = f"{found.quotas} quotas in 5 levels"
    return [
        result(BENCH, case, "check of a pod", found.check_us, "us", goal=None if quick else 10.0),
        result(BENCH, case, "changes of quotas, each with a check", found.change_s, "changes/s", more_is_better=True,
               goal=None if quick else 2_000),
    ]  # fmt: skip


def decided(nodes: int, gangs: int, seed: int = 0) -> Figures:
    """Decide about all gangs once, and about those again that did not fit."""
    core, figures = half_full(nodes, random.Random(seed)), Figures(gangs=gangs)
    for i in range(gangs):
        # Of each size, three of ten.
        size, hopeless = SIZES[i % 10], (i + i // 10) % 10 < 3
        for pod in members(f"gang-{i}", size, cores=20 if hopeless else 1):
            core.put(PODS, pod)
        figures.pods += size
    with _undisturbed():
        for decision, took_s in _decisions(core):
            figures.seconds += took_s
            if isinstance(decision, Bind):
                for each in decision.members:
                    core.bound(decision, each.ask)
            figures.failed += isinstance(decision, Nowhere)
        # More room on one node, and not enough: all of them are tried again.
        core.at(Moment(60.0, 60.0))
        core.put(NODES, _node(0, cores=2 * CORES))
        figures.retries_s += [took_s for decision, took_s in _decisions(core) if isinstance(decision, Nowhere)]
    return figures


def alike(nodes: int, number: int) -> float:
    """CPU seconds of one decision about so many equal pods; the class is known."""
    core = half_full(nodes, random.Random(0))
    took = []
    for name in ("first", "second", "third"):
        for pod in members(name, number, cores=1):
            core.put(PODS, pod)
        engine = next(iter(core.engines.values()))
        (attempt,) = core.queue
        with _undisturbed():
            began_s = time.thread_time()
            placements = engine.place_all(attempt.entity.pods)
            took.append(time.thread_time() - began_s)
        assert all(each.node for each in placements)
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
    said: dict[str, str] = (
        {names.ANNOTATION_GANG_NAME: gang, names.ANNOTATION_GANG_MIN_AVAILABLE: str(least)} if gang else {}
    )
    requests = {"cpu": str(cores), "memory": f"{cores}Gi"}
    return {
        "metadata": {"name": name, "namespace": "lab", "uid": name, "annotations": said, "labels": {"job": gang}},
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


@contextmanager
def _undisturbed() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _contest(quick: bool, progress: Progress) -> list[Result]:
    nodes, pods = (50, 128) if quick else (5_000, 3_072)
    return contest.results(BENCH, nodes, (contest.plain(pods), contest.gangs(pods)), progress, bursts.Goals())


def _statuses(quick: bool, progress: Progress) -> list[Result]:
    """Within two seconds of the truth, and exactly it at rest."""
    widths, seconds = (quota_trees.QUICK_WIDTHS, 4.0) if quick else (quota_trees.WIDTHS, 30.0)
    with (
        api_servers.embedded() as server,
        bursts.koord_process(server, "hollow", "--nodes", "100"),
        bursts.koord_process(server, "scheduler", "--alone"),
    ):
        progress(f"statuses: jobs come and go for {seconds:g} s")
        found = asyncio.run(statuses.lateness(server, widths, seconds, JOBS_A_SECOND))
    case, goal = f"embedded, {found.quotas} quotas in 5 levels, {found.pods} pods", None if quick else 2.0
    return [
        result(BENCH, case, "quota behind the truth, at most", found.quota_s, "s", goal=goal),
        result(BENCH, case, "PodGroup behind the truth, at most", found.group_s, "s", goal=goal),
        result(BENCH, case, "after the last change, until all is said", found.rest_s, "s", goal=goal),
        result(BENCH, case, "objects that are wrong at rest", found.wrong, "objects", goal=0),
    ]


def _bound(quick: bool, progress: Progress) -> list[Result]:
    """Gangs of 64 beside single pods, from their creation to the binding."""
    nodes, pods = (50, 256) if quick else (1_000, 3_072)
    with api_servers.embedded() as server:
        progress("starting nodes")
        with (
            bursts.koord_process(server, "hollow", "--nodes", str(nodes)),
            bursts.koord_process(server, "scheduler", "--alone"),
        ):
            progress(f"binding {pods} pods alone, and in gangs of 64")
            alone, together = asyncio.run(_rates(server, pods))
    return [
        result(BENCH, f"embedded, {nodes} nodes, gangs of 64", "bound pods", together, "pods/s", baseline=alone,
               more_is_better=True, ratio_goal=None if quick else 0.95, peer="single pods, in the same run"),
    ]  # fmt: skip


async def _rates(server: RunningServer, pods: int) -> tuple[float, float]:
    async with Client(locate(str(server.kubeconfig))) as client:
        await bursts.make_namespace(client)
        # The first pods find caches empty, whoever they are.
        await _rate(client, server, [bursts.pod_request(f"first-{i}") for i in range(pods // 8)])
        took_s = {"alone": 0.0, "gang": 0.0}
        # Whatever else the machine does in one half of the time, both have the same share of it.
        for turn, kind in enumerate(TURNS):
            requests = [_request(kind, turn, i) for i in range(pods // 2)]
            took_s[kind] += len(requests) / await _rate(client, server, requests)
        return pods / took_s["alone"], pods / took_s["gang"]


def _request(kind: str, turn: int, i: int) -> bytes:
    if kind == "alone":
        return bursts.pod_request(f"alone{turn}-{i}")
    gang = f"gang{turn}-{i // GANG}"
    said: dict[str, str] = {names.ANNOTATION_GANG_NAME: gang, names.ANNOTATION_GANG_MIN_AVAILABLE: str(GANG)}
    return bursts.pod_request(f"{gang}-{i % GANG}", annotations=said)


async def _rate(client: Client, server: RunningServer, requests: list[bytes]) -> float:
    async with bursts.watching(client) as seen:
        before, began_s = len(seen.bound_s), time.monotonic()
        await Target(server.config).spread(bursts.CLIENTS, requests, 201)
        await seen.all_bound(before + len(requests))
        rate = len(requests) / (time.monotonic() - began_s)
        # What nodes have yet to say of these pods is no part of the next round.
        await scheduling.at_rest(client)
        return rate
