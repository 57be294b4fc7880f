"""CPUs and NUMA amounts of a pod that keeps what it has and gets more: a reservation that grows."""

from __future__ import annotations

from collections.abc import Mapping

from koord.scheduler.plugins.numa.allocations import Held, OnNode
from koord.scheduler.plugins.numa.facts import CPU


def has_all(found: Held, having: Held) -> bool:
    """Whether nothing of what it has is given up."""
    amounts = {(zone, name): number for zone, listed in found.zones for name, number in listed}
    return not having.cpus & ~found.cpus and all(
        number <= amounts.get((zone, name), 0) for zone, listed in having.zones for name, number in listed
    )


def missing(needs: Mapping[str, int], having: Held, state: OnNode) -> dict[str, int]:
    """What it lacks of what it asks for."""
    has: dict[str, int] = {}
    for _, name, number in state.amounts(having):
        has[name] = has.get(name, 0) + number
    has[CPU] = max(has.get(CPU, 0), having.cpus.bit_count() * 1000)
    return {name: max(0, number - has.get(name, 0)) for name, number in needs.items()}


def both(having: Held, more: Held) -> Held:
    zones: dict[int, dict[str, int]] = {}
    for zone, listed in (*having.zones, *more.zones):
        here = zones.setdefault(zone, {})
        for name, number in listed:
            here[name] = here.get(name, 0) + number
    listed_ = tuple((zone, tuple(sorted(zones[zone].items()))) for zone in sorted(zones))
    return Held(having.cpus | more.cpus, listed_, more.exclusive or having.exclusive, having.alone)
