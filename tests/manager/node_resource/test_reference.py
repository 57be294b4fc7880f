"""The same figures as Koordinator's: its own calculation was asked about random nodes, and its answers recorded.

Each line of `data/reference.jsonl` is a node (milli-cores and bytes) with its pods, report, strategy, and the answer:
batch and mid as [cpu, memory], and batch by zone.

One difference is deliberate: Koordinator lends more than a node or zone has where it is oversold and hardly used; koord
lends at most all of it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from koord.api.configuration.slo_config import parse
from koord.api.machinery.codec import convert
from koord.api.protocol.crd.node_resource_topology import NodeResourceTopology
from koord.api.protocol.priority import PriorityClass, QoSClass
from koord.api.text.quantity import milli, value
from koord.manager.figures import total
from koord.manager.lending import mid, zones
from koord.manager.node_state import (
    Amounts,
    HostUsage,
    MetricRow,
    NodeFacts,
    NodeState,
    PodRow,
    PodUsage,
    TopologyFacts,
    topology_facts,
)
from tests.manager.builders import NOW_S

CASES = [json.loads(line) for line in Path(__file__).with_name("data").joinpath("reference.jsonl").open()]
LOW = (PriorityClass.BATCH, PriorityClass.FREE)


def _pod(given: list[Any]) -> PodRow:
    key, band, qos, phase, cpu, memory, numa = given
    band = PriorityClass(band)
    above_mid = band not in (*LOW, PriorityClass.MID)
    active = phase in ("Running", "Pending")
    return PodRow(key, "u", "1", "n", band, QoSClass(qos), active, band not in LOW, above_mid, cpu, memory, tuple(numa))


def _topology(given: list[list[str]]) -> TopologyFacts | None:
    if not given:
        return None
    made = [
        {
            "name": f"node-{number}",
            "type": "Node",
            "resources": [
                {"name": name, "capacity": amount, "allocatable": amount, "available": amount}
                for name, amount in zip(("cpu", "memory"), amounts, strict=True)
            ],
        }
        for number, amounts in enumerate(given)
    ]
    return topology_facts(convert(NodeResourceTopology, {"metadata": {"name": "n"}, "zones": made}))


def _state(case: dict[str, Any]) -> NodeState:
    capacity, allocatable = Amounts(*case["capacity"]), Amounts(*case["allocatable"])
    kubelet = Amounts(
        capacity.cpu_milli - allocatable.cpu_milli,
        capacity.memory_bytes - allocatable.memory_bytes,
    )
    reserved = Amounts(*case["reserved"] or ())
    node = NodeFacts("n", "u", "1", {}, {}, capacity, kubelet, reserved, {}, {})
    metric = MetricRow(
        "n",
        "u",
        "1",
        NOW_S,
        Amounts(*case["used"]) if case["used"] else None,
        Amounts(*case["system"]),
        {key: PodUsage(cpu, memory, band) for key, band, cpu, memory in case["metrics"]},
        tuple(HostUsage("app", band, Amounts(cpu, memory)) for band, cpu, memory in case["host"]),
        Amounts(*case["reclaimable"]) if case["reclaimable"] else None,
    )
    return NodeState(node, [_pod(pod) for pod in case["pods"]], metric, _topology(case["zones"]))


@pytest.mark.parametrize("number", range(len(CASES)))
def test_the_figures_are_koordinators(number: int) -> None:
    case = CASES[number]
    state = _state(case)
    settings = parse({"colocation-config": json.dumps(case["strategy"])}).for_node({}, {})
    lent, middle = zones.calculate(state, settings, NOW_S), mid.calculate(state, settings, NOW_S)
    for figure in (*lent.figures, *middle.figures):
        assert total(figure.terms) == figure.amount
    assert [figure.amount for figure in lent.figures] == at_most(case["answer"]["batch"], case["capacity"])
    assert [figure.amount for figure in middle.figures] == case["answer"]["mid"]
    by_zone = dict(zip(case["answer"]["zones"], _zone_amounts(case), strict=False))
    wanted = {name: at_most(found, by_zone[name]) for name, found in case["answer"]["zones"].items()}
    assert {name: [figure.amount for figure in zone] for name, zone in lent.zones.items()} == wanted


def at_most(answer: list[int], has: Sequence[int]) -> list[int]:
    return [min(pair) for pair in zip(answer, has, strict=True)]


def _zone_amounts(case: dict[str, Any]) -> list[tuple[int, int]]:
    return [(milli(cpu), value(memory)) for cpu, memory in case["zones"]]
