"""The lending policies of a run: one for each pool of nodes, each with its memory.

The world is of all nodes; a policy sees the nodes of its pool alone. With one pool, nothing is copied.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from koord.api.configuration.overlay import overlay
from koord.api.configuration.slo_config_types import COLOCATION_DEFAULTS, ColocationStrategy
from koord.api.configuration.slo_defaults import THRESHOLD_STRATEGY
from koord.api.machinery.faults import BadInput
from koord.sim.curves import NodeSums
from koord.sim.minutes import BatchPodMinutes, Floats, Ints, NodeColumns, NodeMinutes
from koord.sim.policies.policy import Band, Lent, Policy, Settings
from koord.sim.scenario import Scenario

ANY_POOL: Final = ""
"""In the place of a pool's name: pools that are not named."""


@dataclass(slots=True)
class Lender:
    """A policy in its pool."""

    pool: str
    policy: Policy[Any]
    settings: Settings
    rows: Ints
    memory: Any
    is_everywhere: bool


@dataclass(frozen=True, slots=True)
class Ahead:
    """What the next time brings on some nodes: for an oracle."""

    sums: NodeSums
    system: Floats
    rows: Ints
    at_s: float

    def services_milli(self, seconds: float) -> Floats:
        return (self.sums.mean_cpu_milli(self.at_s, seconds) + self.system)[self.rows]

    def services_memory_bytes(self, seconds: float) -> Floats:
        return self.sums.most_memory_bytes(self.at_s, seconds)[self.rows]


def settings_of(scenario: Scenario, pool: str) -> Settings:
    """Of a pool, laid over the defaults. Co-location is on: `none` is a policy."""
    own = scenario.pool(pool)
    assert own.mark_percent is not None
    colocation: ColocationStrategy = overlay(COLOCATION_DEFAULTS, own.colocation)
    on = type(colocation)(enable=True)
    return Settings(
        own.mark_percent,
        overlay(colocation, on),
        overlay(overlay(THRESHOLD_STRATEGY, type(THRESHOLD_STRATEGY)(enable=True)), own.thresholds),
        None if own.colocation is None else own.colocation.cpu_reclaim_threshold_percent,
        None if own.colocation is None else own.colocation.memory_reclaim_threshold_percent,
    )


def lenders(scenario: Scenario, nodes: NodeColumns, policies: Mapping[str, Policy[Any]]) -> list[Lender]:
    """One for each pool, in the order of the nodes. Raises `BadInput` if a pool has no policy."""
    made = []
    names = list(dict.fromkeys(nodes.pool))
    of_node = np.array(nodes.pool)
    for name in names:
        policy = policies.get(name, policies.get(ANY_POOL))
        if policy is None:
            raise BadInput(f"no policy for the pool {name!r}: policies are given for {', '.join(sorted(policies))}")
        rows = np.flatnonzero(of_node == name)
        settings = settings_of(scenario, name)
        memory = policy.begin(_part(nodes, rows, len(names) == 1), settings)
        made.append(Lender(name, policy, settings, rows, memory, len(names) == 1))
    if len(_lent_bands(made)) > 1:
        chosen = ", ".join(f"{lender.policy.name} in {lender.pool}" for lender in made)
        raise BadInput(f"batch pods request one band of resources, and these policies lend two: {chosen}")
    return made


def band_of(lenders: Sequence[Lender]) -> Band:
    """What batch pods request: plain CPU and memory only where no pool lends anything."""
    return next(iter(_lent_bands(lenders)), "plain")


def _lent_bands(lenders: Sequence[Lender]) -> set[Band]:
    return {lender.policy.band for lender in lenders} - {"plain"}


def ceilings(lenders: Sequence[Lender], mean: Floats, now: Floats) -> Floats:
    """What batch may use on each node. Only an oracle is given what services use now."""
    allowed = np.empty_like(mean)
    for lender in lenders:
        services = now if lender.policy.knows_now else mean
        if lender.is_everywhere:
            return lender.policy.ceiling(lender.memory, services)
        allowed[lender.rows] = lender.policy.ceiling(lender.memory, services[lender.rows])
    return allowed


def learn(lender: Lender, minutes: NodeMinutes, ceiling: Floats, ahead: Ahead) -> tuple[Lent | None, Ints]:
    """After a minute: what the nodes of the pool lend, and the rows of the minute's pods to evict."""
    part, pods = _minutes_of(lender, minutes)
    lender.memory = lender.policy.after_minute(lender.memory, part)
    rows, lender.memory = lender.policy.evictions(lender.memory, part, ceiling[lender.rows])
    lent = lender.policy.lent(lender.memory, part, replace(ahead, rows=lender.rows))
    return lent, rows if pods is None else pods[rows]


def _part(nodes: NodeColumns, rows: Ints, is_all: bool) -> NodeColumns:
    if is_all:
        return nodes
    return NodeColumns(
        tuple(nodes.names[row] for row in rows),
        nodes.cpu_milli[rows],
        nodes.memory_bytes[rows],
        tuple(nodes.pool[row] for row in rows),
    )


def _minutes_of(lender: Lender, minutes: NodeMinutes) -> tuple[NodeMinutes, Ints | None]:
    if lender.is_everywhere:
        return minutes, None
    place = np.full(len(minutes.services_milli), -1, np.int64)
    place[lender.rows] = np.arange(len(lender.rows))
    pods = np.flatnonzero(place[minutes.pods.node] >= 0)
    columns = {name: getattr(minutes.pods, name)[pods] for name in BatchPodMinutes.__slots__}
    columns["node"] = place[columns["node"]]
    by_node = {
        name: column[lender.rows]
        for name in NodeMinutes.__slots__
        if isinstance(column := getattr(minutes, name), np.ndarray)
    }
    return NodeMinutes(at_s=minutes.at_s, pods=BatchPodMinutes(**columns), **by_node), pods
