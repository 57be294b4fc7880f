"""Pods get NUMA nodes, amounts of them and CPUs as Koordinator's NodeNUMAResource gives them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from koord.api.configuration.scheduler_args import NodeNUMAResourceArgs, ResourceWeight, ScoringStrategy
from koord.api.kubernetes.pod import Pod
from koord.api.machinery.codec import convert
from koord.api.protocol.annotations import cpu
from koord.api.protocol.crd.node_resource_topology import NodeResourceTopology
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.exact_check import Objection
from koord.scheduler.plugins.numa.allocation import Allocation
from koord.scheduler.plugins.numa.check import NUMACheck
from koord.scheduler.plugins.numa.hints import Agreed, Offer, merged
from koord.scheduler.plugins.numa.judge import NUMAJudge
from koord.scheduler.state.table import Row
from tests.scheduler.koordinator.recording import Answer, Question, read, unexplained
from tests.scheduler.plugins.numa.machines import World, big, details, told

LSR = {"koordinator.sh/qosClass": "LSR"}
POLICY = "node.koordinator.sh/numa-topology-policy"


def world_of(question: Question) -> tuple[World, Row]:
    """One machine, and the pods on it."""
    strategy = ScoringStrategy(question["strategy"], (ResourceWeight("cpu", 1), ResourceWeight("memory", 1)))
    world = World(NodeNUMAResourceArgs(scoring_strategy=strategy, numa_scoring_strategy=strategy))
    zones = question["zones"]
    total = {name: sum(has[name] for has in zones.values()) for name in ("cpu", "memory")}
    node = big("n", f"{total['cpu']}m", str(total["memory"]), labels={POLICY: question["policy"]})
    world.put(node, _report(question))
    row = world.cluster.table.row_of["n"]
    for i, pod in enumerate(question.get("pods", ())):
        zones = [{"node": int(zone), "resources": _amounts(has)} for zone, has in pod["numa"].items()]
        said = {"numaNodeResources": zones, **({"cpuset": pod["cpus"]} if "cpus" in pod else {})}
        there = Ask(_pod(f"there-{i}", {}, {}))
        has = _pod(f"there-{i}", total, {cpu.RESOURCE_STATUS.key: json.dumps(said)}, meta={"labels": LSR})
        world.cluster.place(replace(there.record(), notes=world.cluster.noted(has)), row)
    return world, row


def _report(question: Question) -> NodeResourceTopology:
    cpus = details("x".join(map(str, question["shape"])))
    zones = [
        {
            "name": f"node-{zone}",
            "type": "Node",
            "resources": [
                {"name": name, "capacity": amount, "allocatable": amount, "available": amount}
                for name, amount in _amounts(has).items()
            ],
        }
        for zone, has in sorted(question["zones"].items())
    ]
    said = {cpu.CPU_TOPOLOGY.key: cpu.CPU_TOPOLOGY.render(cpu.CPUTopology(cpus))}
    return convert(NodeResourceTopology, {"metadata": {"name": "n", "annotations": said}, "zones": zones})


def _pod(name: str, requests: Mapping[str, int], said: Mapping[str, str], **more: Any) -> Pod:
    meta = {"name": name, "namespace": "shop", "uid": name, "annotations": said, **more.pop("meta", {})}
    containers = [{"name": "c", "resources": {"requests": _amounts(requests)}}]
    return convert(Pod, {"metadata": meta, "spec": {"containers": containers, **more}})


def _amounts(of: Mapping[str, int]) -> dict[str, str]:
    return {name: f"{amount}m" if name == "cpu" else str(amount) for name, amount in of.items()}


def asked(question: Question) -> Ask:
    said: dict[str, str] = {}
    if "numa_exclusive" in question:
        said[cpu.NUMA_TOPOLOGY_SPEC.key] = json.dumps({"singleNUMANodeExclusive": question["numa_exclusive"]})
    if "n" not in question:
        return Ask(_pod("new", question["requests"], said))
    how = "requiredCPUBindPolicy" if question.get("required") else "preferredCPUBindPolicy"
    said[cpu.RESOURCE_SPEC.key] = json.dumps({how: question["bind"]})
    labels = {"labels": {"koordinator.sh/qosClass": "LSR"}}
    return Ask(_pod("new", question["requests"], said, meta=labels, priority=9500))


def differences(question: Question, answer: Answer) -> list[str]:
    world, row = world_of(question)
    ask = asked(question)
    judge = world.numa.compile(ask, world.cluster)
    assert isinstance(judge, NUMAJudge)
    check = judge.exact
    assert check is not None
    offer = check.offer(ask, row)
    assert offer is not None
    assert offer.rule is not None
    agreed = merged(offer.hints, offer.rule)
    return [*_hints(offer, answer), *_given(check, ask, row, agreed, answer)]


def _hints(offer: Offer, answer: Answer) -> Iterator[str]:
    ours = {
        name: sorted((hint.nodes, hint.preferred, hint.score) for hint in each)
        for name, each in offer.hints.items()
        if each is not None
    }
    theirs = {
        name: sorted((_mask(hint["nodes"]), hint["preferred"], hint["score"]) for hint in each)
        for name, each in answer.get("hints", {}).items()
    }
    if ours != theirs:
        yield f"hints {ours}, not {theirs}"


def _given(check: NUMACheck, ask: Ask, row: Row, agreed: Agreed | Objection, answer: Answer) -> Iterator[str]:
    if isinstance(agreed, Objection) or not answer["admit"]:
        if answer["admit"] or not isinstance(agreed, Objection):
            yield f"{agreed}, not {answer.get('affinity') or answer.get('reasons')}"
        return
    theirs = _mask(answer["affinity"]) if "affinity" in answer else None
    if agreed.nodes != theirs:
        yield f"{agreed}, not {theirs}"
        return
    found = check.check(ask, row, agreed)
    if isinstance(found, Objection) or "error" in answer:
        if not isinstance(found, Objection) or "error" not in answer:
            yield f"{found}, not {answer.get('error') or answer.get('numa')}"
        return
    held = found or Allocation()
    zones = {str(zone): dict(amounts) for zone, amounts in held.zones}
    if (zones, told(held.cpus)) != (answer.get("numa", {}), answer.get("cpus", "")):
        yield f"{zones} {told(held.cpus)}, not {answer.get('numa')} {answer.get('cpus')}"


def _mask(nodes: list[int]) -> int:
    return sum(1 << node for node in nodes)


def test_numa_nodes_and_cpus_are_those_that_koordinator_gives() -> None:
    assert unexplained("numa", differences) == []


def test_the_recording_is_of_many_machines() -> None:
    cases = read("numa").cases
    taken = Counter((case.question["policy"], case.answers[0]["admit"]) for case in cases)
    assert {key for key, times in taken.items() if times >= 10} == {
        ("BestEffort", True),
        ("Restricted", True),
        ("Restricted", False),
        ("SingleNUMANode", True),
        ("SingleNUMANode", False),
    }
    assert sum(1 for case in cases if case.answers[0].get("cpus")) >= 40
    assert sum(1 for case in cases if len(case.answers[0].get("numa", {})) > 1) >= 20
