"""What does a round of the YARN operator cost on thousands of nodes, and how often is a ResourceManager called?

CPU from the ResourceManager's answer, as bytes, to the next step of every node. The same where YARN is new to all of
them, from the Nodes as the API server sends them to the patches that it gets, without HTTP. Then hours of noise in
virtual time: what is reclaimed goes up and down by some percent each minute, and calls about nodes are counted.
"""

from __future__ import annotations

import random
from statistics import median
from typing import Final

from koord.api.kubernetes.node import Node
from koord.api.machinery.codec import decode, encode
from koord.api.machinery.protobuf import integer, message, text
from koord.api.protocol import names
from koord.yarn.amount import NOTHING, Amount, of_yarn
from koord.yarn.claims import Call, Claim, Memory, NodeManagerReport, View, answered, called, next_step, seen
from koord.yarn.hadoop import messages
from koord.yarn.judge import ClusterReport, judge, owners
from koord.yarn.nodes import Declared, NodeFacts, PodFacts, claim_patch, condition_patch, node_facts
from koord.yarn.split import Demand, Policy
from koord_bench.harness import Progress, Report, Result, Size, cpu_times, silent

BENCH: Final = "yarn"
PODS_A_NODE: Final = 10
GIB: Final = 1 << 30
GOAL_S: Final = 2.0
NOISE: Final = 0.05
REPORT_S: Final = 60.0
FULL: Final = Size(nodes=5000, noisy_nodes=500, minutes=240)
QUICK: Final = Size(nodes=200, noisy_nodes=50, minutes=60)


def run(quick: bool = False, progress: Progress = silent) -> list[Result]:
    report, size = Report(BENCH, quick, progress), QUICK if quick else FULL
    case = report.case(f"{size.nodes} nodes")
    progress(f"a round on {size.nodes} nodes")
    case.add("a round, CPU", _round(size.nodes), "s", goal=GOAL_S)
    progress(f"a round that changes all {size.nodes} nodes")
    case.add("all change, CPU", _change_of_all(size.nodes), "s", goal=GOAL_S)
    progress("hours of noise")
    calls = _calls_a_minute(size.noisy_nodes, size.minutes)
    report.case("noise of 5%").add("calls about a node", calls, "1/min", goal=1.0, at_any_size=True)
    return report.rows


def _round(number: int) -> float:
    """The median of five rounds."""
    answer = b"".join(message(1, _report(i)) for i in range(number))
    nodes = [_node(i) for i in range(number)]
    pods = [
        [PodFacts(f"default/{i}-{j}", "", "", f"n{i}", Amount(500, GIB), False, None) for j in range(PODS_A_NODE)]
        for i in range(number)
    ]
    policy, memories = Policy(), {("", f"n{i}:8041"): Memory(is_sure=True) for i in range(number)}

    def work() -> None:
        look = ClusterReport({report.node_id: report for report in messages.cluster_nodes(answer)}, True)
        owned = owners(zip(nodes, pods, strict=True), {"": look})
        for node, on in zip(nodes, pods, strict=True):
            judge(node, on, {"": look}, memories, {}, owned, policy, 0.0, kubernetes_waits=False)

    return median(cpu_times(work, 5))


def _change_of_all(number: int) -> float:
    """The median of five times: claims, then conditions, of nodes that are read before and after."""
    answer = b"".join(message(1, _report(i)) for i in range(number))
    sent = [encode(_sent(i)) for i in range(number)]

    def work() -> None:
        look = ClusterReport({report.node_id: report for report in messages.cluster_nodes(answer)}, True)
        nodes = [node_facts(decode(Node, raw)) for raw in sent]
        owned = owners([(node, ()) for node in nodes], {"": look})
        for node, again in zip(nodes, sent, strict=True):
            verdict = judge(node, (), {"": look}, {}, {}, owned, Policy(), 0.0, kubernetes_waits=False)
            assert isinstance(verdict.step, Claim)
            assert verdict.condition is not None
            encode(claim_patch(node, verdict.step.amount, (verdict.cluster, verdict.node_id)))
            encode(condition_patch(node_facts(decode(Node, again)), verdict.condition, 0.0))

    return median(cpu_times(work, 5))


def _sent(i: int) -> dict[str, object]:
    """A Node of ordinary size."""
    pool: dict[str, str] = {"kubernetes.io/batch-cpu": "20k", "kubernetes.io/batch-memory": "100Gi"}
    annotations = {
        names.ANNOTATION_YARN_NODE_ID: f"n{i}:8041",
        names.ANNOTATION_ORIGIN_EXTENDED_ALLOCATABLE: encode({"resources": pool}).decode(),
    }
    conditions = [
        {"type": kind, "status": "False", "reason": "Kubelet", "message": "kubelet has enough of it"}
        for kind in ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
    ]
    images = [{"names": [f"registry/image-{n}:1"], "sizeBytes": n} for n in range(30)]
    return {
        "metadata": {
            "name": f"n{i}",
            "uid": f"uid-{i}",
            "resourceVersion": "1",
            "labels": {f"label-{n}": "value" for n in range(15)},
            "annotations": annotations,
        },
        "status": {"allocatable": {"cpu": "64", "memory": "256Gi", **pool}, "conditions": conditions, "images": images},
    }


def _report(i: int) -> bytes:
    def amount(vcores: int, mib: int) -> bytes:
        return integer(1, mib) + integer(2, vcores)

    return (
        message(1, text(1, f"n{i}") + integer(2, 8041))
        + text(2, f"n{i}:8042")
        + text(3, "/default-rack")
        + message(4, amount(4, 8192))
        + message(5, amount(10, 51200))
        + integer(6, 4)
        + integer(7, 2)
    )


def _node(i: int) -> NodeFacts:
    name = f"n{i}"
    pool, claim = Amount(20_000 + i % 7 * 1000, 100 * GIB), of_yarn(10, 51200)
    declared = Declared("", f"{name}:8041", (name,), f"node {name}")
    return NodeFacts(
        name, name, "1", pool, pool.minus(claim), claim, NOTHING, (), ("", f"{name}:8041"), declared, (name,)
    )


def _calls_a_minute(nodes: int, minutes: int) -> float:
    chance, policy = random.Random(1), Policy()
    calls = 0
    for _ in range(nodes):
        pool = published = Amount(20_000, 100 * GIB)
        cap, claim, memory = of_yarn(1, 1024), NOTHING, Memory()
        for minute in range(minutes):
            level = 1 + NOISE * chance.uniform(-1, 1)
            pool = Amount(int(20_000 * level), int(100 * GIB * level))
            published = pool.minus(claim)
            for tick in range(12):
                now_s = minute * REPORT_S + tick * 5
                view = View(pool, published, claim, NodeManagerReport(cap), Demand(yarn_waits=True))
                memory = seen(view, memory, now_s)
                step = next_step(view, memory, policy, now_s)
                if isinstance(step, Claim):
                    claim = step.amount
                    published = pool.minus(claim)
                elif isinstance(step, Call):
                    # The first ones, until the node has its share, are no steady state.
                    calls += minute > 5
                    cap, memory = step.cap, answered(called(memory, step, now_s), step.cap)
    return calls / nodes / (minutes - 5)
