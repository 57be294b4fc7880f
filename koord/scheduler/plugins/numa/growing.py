"""CPUs and NUMA amounts of a pod that keeps what it has and gets more: a reservation that grows."""

from __future__ import annotations

from collections.abc import Mapping

from koord.scheduler.plugins.numa.allocation import Allocation
from koord.scheduler.plugins.numa.facts import CPU
from koord.scheduler.plugins.numa.on_node import OnNode


def has_all(allocation: Allocation, having: Allocation) -> bool:
    """Whether nothing of what it has is given up."""
    amounts = {(zone, name): number for zone, listed in allocation.zones for name, number in listed}
    return not having.cpus & ~allocation.cpus and all(
        number <= amounts.get((zone, name), 0) for zone, listed in having.zones for name, number in listed
    )


def missing(needs: Mapping[str, int], having: Allocation, state: OnNode) -> dict[str, int]:
    """What it lacks of what it asks for."""
    has: dict[str, int] = {}
    for _, name, number in state.amounts(having):
        has[name] = has.get(name, 0) + number
    has[CPU] = max(has.get(CPU, 0), having.cpus.bit_count() * 1000)
    return {name: max(0, number - has.get(name, 0)) for name, number in needs.items()}


def both(having: Allocation, more: Allocation) -> Allocation:
    zones: dict[int, dict[str, int]] = {}
    for zone, listed in (*having.zones, *more.zones):
        here = zones.setdefault(zone, {})
        for name, number in listed:
            here[name] = here.get(name, 0) + number
    listed_ = tuple((zone, tuple(sorted(zones[zone].items()))) for zone in sorted(zones))
    return Allocation(having.cpus | more.cpus, listed_, more.exclusive or having.exclusive, having.alone)
