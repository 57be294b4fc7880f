"""How many preemptions a second does one core decide, on nodes full of less important pods?

Each pod is tried, turned away, helped (victims on the best of many nodes), promised the node and, once the victims are
gone, placed there: all of that is timed, in CPU seconds. Pods of the cluster have several sizes, priorities and ages.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable
from typing import Any

from msgspec.structs import replace

from koord.api.kubernetes.pod import Pod
from koord.api.machinery.codec import convert
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.engine import Engine
from koord.scheduler.state.cluster import Cluster
from koord_bench.decisions import Decisions
from koord_bench.harness import Report, undisturbed

IMPORTANT = 1_000
GOALS = {5_000: 100}
MakesPod = Callable[..., dict[str, Any]]


def add_rows(report: Report, engine: Engine, make: MakesPod, pods: int) -> None:
    """On an engine whose nodes were filled by `fill`."""
    nodes = len(engine.cluster.table)
    for name, classes in (("(f) preemption", 20), ("(f) preemption, all different", pods)):
        asks = [make(f"{classes}-{i}", app="app-0", cpu=f"{4000 + i % classes}m", memory="8Gi") for i in range(pods)]
        for raw in asks:
            raw["spec"]["priority"] = IMPORTANT
        decisions = measure(engine, [Ask(convert(Pod, raw)) for raw in asks])
        case = report.case(f"{name}, {nodes} nodes")
        decisions.add_rate(case, goal=GOALS.get(nodes) if classes == 20 else None)
        case.add("p50", decisions.ms(0.5), "ms")
        case.add("p99", decisions.ms(0.99), "ms")
        case.add("victims", decisions.victims / pods, "1/pod")


def fill(cluster: Cluster, make: MakesPod, rng: random.Random) -> None:
    """Leave no room for two cores on any node of 32."""
    kinds = [(cores, priority) for cores in (2, 4, 6) for priority in (0, 10, 20)]
    records = {}
    for cores, priority in kinds:
        raw = make(f"low-{cores}-{priority}", app=f"app-{cores}", cpu=str(cores), memory="8Gi")
        raw["spec"]["priority"] = priority
        records[cores, priority] = Ask(convert(Pod, raw)).record()
    number = 0
    for row in list(cluster.nodes):
        left = 32
        while left >= 2:
            cores, priority = rng.choice([kind for kind in kinds if kind[0] <= left])
            key = f"shop/low-{number}"
            record = replace(records[cores, priority], key=key, uid=key, start_s=float(rng.randrange(10_000)))
            cluster.place(record, row)
            number, left = number + 1, left - cores


def measure(engine: Engine, asks: Iterable[Ask]) -> Decisions:
    decisions = Decisions()
    with undisturbed():
        for ask in asks:
            began = time.thread_time()
            placement = engine.place(ask)
            assert placement.node is None, "there was room"
            remedy = engine.remedy(ask)
            assert remedy.node is not None, remedy.message
            engine.nominate(ask, remedy)
            took = time.thread_time() - began
            for key in remedy.victims:
                engine.cluster.remove_pod(key)
            began = time.thread_time()
            placement = engine.place(ask)
            decisions.took_s.append(took + time.thread_time() - began)
            assert placement.node == remedy.node, "the room went to another pod"
            decisions.victims += len(remedy.victims)
    return decisions
