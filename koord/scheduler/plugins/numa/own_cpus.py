"""CPUs of a pod's own: a number of each of some sets, without CPUs that were promised or are on a kept NUMA node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from koord.scheduler.framework.exact_check import Objection
from koord.scheduler.plugins.numa.accumulator import NOT_ENOUGH, BindRule, Free, take, trimmed
from koord.scheduler.plugins.numa.allocation import Allocation
from koord.scheduler.plugins.numa.on_node import OnNode
from koord.scheduler.plugins.numa.topology import Topology

NOT_BY_POLICY: Final = "insufficient CPUs to satisfy required cpu bind policy"
SPANS_KEPT: Final = "node(s) CPUs would span the NUMA node of a pod with its own NUMA policy"


def own_cpus(state: OnNode, wish: BindRule, wanted: Mapping[int, int], preferred: int) -> int | Objection:
    """CPUs for a pod: a number of each of some sets."""
    free = state.free(wish.exclusive)
    free = replace(free, cpus=_not_promised(state, free, wish, preferred))
    cpus = _chosen(free, wish, wanted, preferred)
    topology = free.topology
    if isinstance(cpus, Objection) or state.kept.keys().isdisjoint(_spanned(topology, cpus)):
        return cpus
    open_ = replace(free, cpus=free.cpus & ~cpus_of(topology, sum(1 << zone for zone in state.kept)))
    cpus = _chosen(open_, wish, wanted, preferred)
    return Objection(SPANS_KEPT) if isinstance(cpus, Objection) else cpus


def _chosen(free: Free, wish: BindRule, wanted: Mapping[int, int], preferred: int) -> int | Objection:
    cpus = 0
    for inside, number in wanted.items():
        mine = replace(free, cpus=free.cpus & inside)
        taken = take(mine, number, wish, preferred)
        if taken is None:
            usable = trimmed(free.topology, mine.cpus, wish).bit_count()
            return Objection(NOT_ENOUGH if usable < number else f"{NOT_BY_POLICY} {wish.policy}")
        cpus |= taken
    return cpus


def _not_promised(state: OnNode, free: Free, wish: BindRule, preferred: int) -> int:
    """Free CPUs without those that NUMA nodes have promised to pods that share CPUs: of each, the best ones stay."""
    cpus = free.cpus
    for zone, mine in free.topology.nodes_of(free.cpus):
        most = state.bindable(zone)
        if most is not None and most < trimmed(free.topology, mine, wish).bit_count():
            if wish.required and wish.policy == "FullPCPUs":
                most -= most % free.topology.cpus_per_core
            cpus = cpus & ~mine | (take(replace(free, cpus=mine), most, wish, preferred) or 0)
    return cpus


def _spanned(topology: Topology, cpus: int) -> frozenset[int]:
    """The NUMA nodes of a set of CPUs that is on several of them."""
    zones = frozenset(zone for zone, _ in topology.nodes_of(cpus))
    return zones if len(zones) > 1 else frozenset()


def exactly(wanted: Allocation, state: OnNode) -> Allocation | Objection:
    """What was chosen for a pod, if all of it is free."""
    topology = state.facts.topology
    on_nodes = () if topology is None else topology.nodes_of(wanted.cpus)
    is_free = (
        not wanted.cpus & ~state.available
        and all(number <= state.left(zone, name) for zone, listed in wanted.zones for name, number in listed)
        and all((most := state.bindable(zone)) is None or cpus.bit_count() <= most for zone, cpus in on_nodes)
    )
    return wanted if is_free else Objection(NOT_ENOUGH)


def cpus_of(topology: Topology, nodes: int) -> int:
    return sum(cpus for zone, cpus in topology.nodes.items() if nodes >> zone & 1)
