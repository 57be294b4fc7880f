"""What is wrong with the zones of a NodeResourceTopology, for the people who read the object's events.

The scheduler places by what can be read of it: a zone that it cannot number has no amounts, of two with one name the
last counts. CPUs and zones come from different places and may contradict each other, which is said too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from koord.api.machinery.faults import Fault
from koord.api.protocol.crd.node_resource_topology import NodeResourceTopology, Zone
from koord.api.text.cpuset import CPUSet
from koord.api.text.quantity import QuantityError, amount, render
from koord.scheduler.plugins.numa.facts import CPU, MOST_ZONES, cpus_of, is_amplified, number_of
from koord.scheduler.plugins.numa.topology import Topology

_MOST_TOLD: Final = 8


def faults(report: NodeResourceTopology) -> Iterator[Fault]:
    """The first few: one event has to hold them."""
    for number, fault in enumerate(_faults(report)):
        if number == _MOST_TOLD:
            yield Fault("", "and more")
            return
        yield fault


def _faults(report: NodeResourceTopology) -> Iterator[Fault]:
    topology = cpus_of(report)
    seen: set[int] = set()
    for i, zone in enumerate(report.zones):
        if zone.type != "Node":
            continue
        at, number = f"zones[{i}]", number_of(zone)
        if number is None:
            valid = f"node-0 to node-{MOST_ZONES - 1}"
            yield Fault(f"{at}.name", f"must be one of {valid}, not {zone.name[:60]!r}: no pod is placed by it")
            continue
        if number in seen:
            yield Fault(f"{at}.name", f"there is another zone with the name {zone.name}: the last one counts")
        seen.add(number)
        yield from _amount_faults(at, zone)
        if topology is not None and not is_amplified(report):
            yield from _against_the_cpus(at, number, zone, topology)
    for number, mask in topology.nodes.items() if topology is not None and seen else ():
        if number not in seen and number < MOST_ZONES:
            cpus = CPUSet.from_mask(mask)
            yield Fault("zones", f"node-{number} is missing, which has CPUs {cpus}: no pod is placed by it")


def _amount_faults(at: str, zone: Zone) -> Iterator[Fault]:
    for i, resource in enumerate(zone.resources):
        where = f"{at}.resources[{i}].allocatable"
        try:
            if amount(resource.name, resource.allocatable) < 0:
                yield Fault(where, f"must not be negative, as {resource.allocatable} is: it counts as 0")
        except QuantityError as error:
            yield Fault(where, f"{error}: the zone has no {resource.name[:60]}")


def _against_the_cpus(at: str, number: int, zone: Zone, topology: Topology) -> Iterator[Fault]:
    listed = topology.nodes.get(number, 0).bit_count() * 1000
    for i, resource in enumerate(zone.resources):
        if resource.name == CPU:
            try:
                milli = amount(CPU, resource.allocatable)
            except QuantityError:
                continue
            if milli > listed:
                where = f"{at}.resources[{i}].allocatable"
                yield Fault(where, f"is {render(CPU, milli)}, and the list of CPUs has {listed // 1000} there")
