"""Zones of a NodeResourceTopology that pods are not placed by, or that contradict its CPUs, are told on it."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from koord.api.kinds import NODE_RESOURCE_TOPOLOGIES
from koord.api.machinery.codec import convert
from koord.api.protocol.annotations.colocation import RESOURCE_AMPLIFICATION_RATIO
from koord.api.protocol.crd.node_resource_topology import Zone
from koord.scheduler.object_faults import faults_of
from tests.scheduler.plugins.numa.machines import report

SOUND = report("n1", "1x2x2x2")
"""Two NUMA nodes with four CPUs each."""


def zone(name: str, cpu: str = "4", kind: str = "Node") -> Zone:
    amounts: dict[str, Any] = {"name": "cpu", "capacity": cpu, "allocatable": cpu, "available": cpu}
    return convert(Zone, {"name": name, "type": kind, "resources": [amounts]})


def told(*zones: Zone) -> list[str]:
    return list(faults_of(NODE_RESOURCE_TOPOLOGIES, replace(SOUND, zones=zones)))


@pytest.mark.parametrize(
    ("zones", "fault"),
    [
        (
            [zone("node-0"), zone("node-1"), zone("numa1")],
            "zones[2].name: must be one of node-0 to node-7, not 'numa1': no pod is placed by it",
        ),
        (
            [zone("node-0"), zone("node-1"), zone("node-8")],
            "zones[2].name: must be one of node-0 to node-7, not 'node-8': no pod is placed by it",
        ),
        (
            [zone("node-0"), zone("node-1"), zone("node-0")],
            "zones[2].name: there is another zone with the name node-0: the last one counts",
        ),
        (
            [zone("node-0", "-4"), zone("node-1")],
            "zones[0].resources[0].allocatable: must not be negative, as -4 is: it counts as 0",
        ),
        (
            [zone("node-0", "64"), zone("node-1")],
            "zones[0].resources[0].allocatable: is 64, and the list of CPUs has 4 there",
        ),
        ([zone("node-0")], "zones: node-1 is missing, which has CPUs 4-7: no pod is placed by it"),
    ],
)
def test_a_zone_that_does_not_count_as_it_says_is_told(zones: list[Zone], fault: str) -> None:
    assert told(*zones) == [fault]


def test_what_agents_report_is_sound() -> None:
    assert told(*SOUND.zones) == []
    assert told() == [], "CPUs alone"
    assert told(zone("node-0", "3500m"), zone("node-1"), zone("socket-0", "8", "Socket")) == []
    key = RESOURCE_AMPLIFICATION_RATIO.key
    meta = replace(SOUND.metadata, annotations={**SOUND.metadata.annotations, key: '{"cpu": 2}'})
    amplified = replace(SOUND, metadata=meta, zones=(zone("node-0", "8"), zone("node-1", "8")))
    assert list(faults_of(NODE_RESOURCE_TOPOLOGIES, amplified)) == []


def test_of_many_faults_the_first_are_told() -> None:
    found = told(*(zone(f"x{i}") for i in range(1000)))
    assert (len(found), found[-1]) == (9, "and more")
