"""Batch resources of each NUMA zone: the formula of the node on a zone's part of everything.

Usage is not measured by zone, so what cannot be attributed is split evenly: the system, what is reserved, pods without
NUMA nodes, pods that are gone. A pod with NUMA nodes is split over those. Shares are rounded up, hence counted in
thousandths, and the result is rounded up once. A policy with a calculation of its own has no formula for a zone:
what it lends beyond requests is shared out by the zones' size (`zone_shares`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from koord.api.configuration.slo_config import NodeSettings
from koord.api.configuration.slo_config_types import ColocationStrategy
from koord.api.protocol.crd.node_resource_topology import Zone
from koord.api.protocol.priority import PriorityClass
from koord.api.text.quantity import QuantityError, milli, value
from koord.manager.figures import Figure, Term, figure, of_percent
from koord.manager.lending import batch
from koord.manager.lending.batch import LENT, LentResource
from koord.manager.lending.counting import dangling
from koord.manager.lending.policies import chosen
from koord.manager.lending.policy import Policy
from koord.manager.lending.system import system_used
from koord.manager.lending.zone_shares import Shares
from koord.manager.node_state import NodeState, PodRow
from koord.manager.plugin import PluginOutcome

_CPU, _MEMORY = 0, 1
_THOUSAND: Final = (1, 1000)
"""Units of the computation: whole milli-cores, thousandths of bytes."""


def has_resources(zones: Sequence[Zone]) -> bool:
    """Whether the zones list CPU or memory."""
    return any(resource.name in ("cpu", "memory") for zone in zones for resource in zone.resources)


def calculate(state: NodeState, settings: NodeSettings, now_s: float) -> PluginOutcome:
    """The batch resources of a node and of its zones. Zones that cannot be read do not keep the node from its own."""
    outcome = batch.calculate(state, settings, now_s)
    if state.topology is None or outcome.deleted:
        return outcome
    try:
        return replace(outcome, zones=by_zone(state, settings.colocation, outcome.figures))
    except QuantityError as error:
        return replace(outcome, note=f"NodeResourceTopology {state.topology.name}: {error} (zones are left unchanged)")


def by_zone(
    state: NodeState, strategy: ColocationStrategy, of_node: Sequence[Figure] = ()
) -> Mapping[str, tuple[Figure, ...]]:
    """By zone; empty if the zones do not list their resources. `of_node`: the node's own figures."""
    topology, metric = state.topology, state.metric
    if topology is None or metric is None or not has_resources(topology.zones):
        return {}
    zones = topology.zones
    policies = tuple(chosen(strategy, lent.kind) for lent in LENT)
    taken = _taken(state, policies, len(zones))
    system, reserved = system_used(metric, PriorityClass.BATCH), state.node.reserved
    shared = {figure.resource: figure for figure in of_node}
    shares = Shares(state.pods, [_allocatable(zone) for zone in zones])
    return {
        zone.name: tuple(
            shares.figure(shared[dimension.resource], dimension.kind, place)
            if policies[unit].terms is not None and dimension.resource in shared
            else _figure(
                dimension,
                unit,
                _allocatable(zone)[unit],
                _split(dimension.of(system), len(zones), unit),
                _split(dimension.of(reserved), len(zones), unit),
                in_zone[unit],
                policies[unit],
                strategy,
            )
            for unit, dimension in enumerate(LENT)
        )
        for place, (zone, in_zone) in enumerate(zip(zones, taken, strict=True))
    }


def _figure(
    lent: LentResource,
    unit: int,
    capacity: int,
    system: int,
    reserved: int,
    taken: int,
    policy: Policy,
    strategy: ColocationStrategy,
) -> Figure:
    held = max(system, reserved) if policy.counts_system else reserved
    kept_percent = batch.kept(strategy, lent)
    kept = of_percent(capacity, kept_percent)
    limit_percent: int | None = getattr(strategy, lent.limit)
    # A zone is shown in whole units: what its terms lose by that is in the last of them.
    exact = (capacity - kept) * _THOUSAND[unit] - held - taken
    terms = [
        Term("start", "capacity", capacity, "allocatable of the zone"),
        Term("minus", "safetyMargin", kept, f"{kept_percent}%"),
        Term("minus", "reserved" if held != system else "system", _whole(held, unit)),
        Term("minus", "pods", _whole(taken, unit), policy.name),
        Term("becomes", "rounded", max(0, _whole(exact, unit))),
    ]
    if limit_percent is not None:
        terms.append(Term("atMost", "limit", of_percent(capacity, limit_percent), f"{limit_percent}% of the zone"))
    if kept_percent < 0:
        terms.append(Term("atMost", "zone", capacity, "no zone lends more than it has"))
    return figure(lent.resource, terms, policy.name)


def _taken(state: NodeState, policies: Sequence[Policy], number: int) -> list[list[int]]:
    """What pods above batch take from each zone, of cpu and of memory, each by its policy."""
    metric = state.metric
    assert metric is not None
    taken = [[0, 0] for _ in range(number)]
    everywhere = tuple(range(number))
    for pod in state.pods:
        if not pod.active or not pod.above_batch:
            continue
        usage = metric.pods.get(pod.key)
        at = _places(pod, number) or everywhere
        for unit in (_CPU, _MEMORY):
            share = _split(policies[unit].count_in_zone(pod, usage)[unit], len(at), unit)
            for place in at:
                taken[place][unit] += share
    for usage in dangling(state.pods, metric.pods).values():
        for unit in (_CPU, _MEMORY):
            if policies[unit].counts_gone:
                share = _split((usage.cpu_milli, usage.memory_bytes)[unit], number, unit)
                for in_zone in taken:
                    in_zone[unit] += share
    return taken


def _places(pod: PodRow, number: int) -> tuple[int, ...]:
    return tuple(dict.fromkeys(node for node in pod.numa_nodes if 0 <= node < number))


def _split(amount: int, number: int, unit: int) -> int:
    return -(-amount * _THOUSAND[unit] // number)


def _whole(amount: int, unit: int) -> int:
    return -(-amount // _THOUSAND[unit])


def _allocatable(zone: Zone) -> tuple[int, int]:
    cpu = memory = 0
    for resource in zone.resources:
        if resource.name == "cpu":
            cpu = milli(resource.allocatable)
        elif resource.name == "memory":
            memory = value(resource.allocatable)
    return cpu, memory
