"""Which CPUs best-effort pods get: whole cores first, spread over NUMA nodes, beside the services' own CPUs last.

Exclusive CPUs (of LSE pods, reserved, exclusive for system pods) are never theirs. Those that LSR pods
own are lent in proportion.
"""

from __future__ import annotations

from itertools import pairwise

from koord.agent.host.topology import Cpu, Topology
from koord.api.text.cpuset import NO_CPUS, CPUSet


def choose(count: int, topology: Topology, never: CPUSet, lsr: CPUSet) -> CPUSet:
    """Chooses `count` CPUs; none at all if there are fewer."""
    eligible = topology.all - never
    owned, rest = eligible & lsr, eligible - lsr
    if not eligible:
        return NO_CPUS
    from_owned = count * len(owned) // len(eligible)
    return _spread(from_owned, owned, topology) | _spread(count - from_owned, rest, topology)


def _spread(count: int, among: CPUSet, topology: Topology) -> CPUSet:
    if len(among) < count or count <= 0:
        return NO_CPUS
    buckets = _buckets(among, topology)
    chosen: list[int] = []
    at, at_last_lap = 0, -1
    while count - len(chosen) > 1:
        if at == 0:
            if len(chosen) == at_last_lap:
                break
            at_last_lap = len(chosen)
        pair = _whole_core(buckets[at])
        chosen += [cpu.id for cpu in pair]
        buckets[at] = [cpu for cpu in buckets[at] if cpu not in pair]
        at = (at + 1) % len(buckets)
    while len(chosen) < count:
        if buckets[at]:
            chosen.append(buckets[at].pop(0).id)
        at = (at + 1) % len(buckets)
    return CPUSet(chosen)


def _buckets(among: CPUSet, topology: Topology) -> list[list[Cpu]]:
    """By NUMA node and socket, the largest first; inside by core."""
    groups: dict[tuple[int, int], list[Cpu]] = {}
    for cpu in topology.cpus:
        if cpu.id in among:
            groups.setdefault((cpu.node, cpu.socket), []).append(cpu)
    for group in groups.values():
        group.sort(key=lambda cpu: (cpu.core, cpu.id))
    return sorted(groups.values(), key=lambda group: (-len(group), min(cpu.id for cpu in group)))


def _whole_core(bucket: list[Cpu]) -> list[Cpu]:
    """The first core with two threads left."""
    for first, second in pairwise(bucket):
        if first.core == second.core:
            return [first, second]
    return []
