"""Batch resources: how much of a node is lent to batch pods right now.

    batch = capacity - margin - held - taken by pods above batch,   each by the policy of the resource

at least 0, and at most batch{CPU,Memory}ThresholdPercent of capacity where that is set. A margin below 0 oversells a
node; even so it lends no more than it has.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Final, NamedTuple

from koord.api.configuration.slo_config import NodeSettings
from koord.api.configuration.slo_config_types import MOST_PERCENT, ColocationStrategy
from koord.api.protocol import names
from koord.api.protocol.pool_names import OTHER_NAMES
from koord.api.protocol.priority import PriorityClass
from koord.manager.colocation_settings import given, setting
from koord.manager.figures import Term, figure, of_percent
from koord.manager.lending.counting import pod_totals
from koord.manager.lending.freshness import distrust, reason
from koord.manager.lending.other_names import requested_by_name, requested_of_pool
from koord.manager.lending.policies import chosen
from koord.manager.lending.policy import PodTotals, Policy, Resource
from koord.manager.lending.system import system_used
from koord.manager.node_state import BATCH, Amounts, NodeFacts, NodeState
from koord.manager.plugin import PluginOutcome

NAME: Final = "BatchResource"


class LentResource(NamedTuple):
    """One of the two resources: its names, its part of amounts, and the settings that decide about it."""

    resource: str
    kind: Resource
    of: Callable[[Amounts], int]
    threshold: str
    "Setting: share of the node that may be used in all."
    limit: str
    "Setting: share of the node that may be lent at most."


LENT: Final = (
    LentResource(
        names.RESOURCE_BATCH_CPU,
        "cpu",
        attrgetter("cpu_milli"),
        "cpu_reclaim_threshold_percent",
        "batch_cpu_threshold_percent",
    ),
    LentResource(
        names.RESOURCE_BATCH_MEMORY,
        "memory",
        attrgetter("memory_bytes"),
        "memory_reclaim_threshold_percent",
        "batch_memory_threshold_percent",
    ),
)


def calculate(state: NodeState, settings: NodeSettings, now_s: float) -> PluginOutcome:
    strategy = settings.colocation
    why_not = distrust(state, strategy, now_s)
    if why_not:
        return PluginOutcome(NAME, deleted=BATCH, note=why_not, reason=reason(state))
    metric = state.metric
    assert metric is not None
    system = system_used(metric, PriorityClass.BATCH)
    counted: dict[str, PodTotals] = {}
    figures = []
    for lent in LENT:
        policy = chosen(strategy, lent.kind)
        pods = counted.get(policy.name)
        if pods is None:
            pods = counted[policy.name] = pod_totals(state.pods, metric, policy)
        terms = tuple(_terms(lent, policy, state.node, system, pods, strategy))
        if policy.terms is not None:
            terms = policy.terms(lent.kind, state, strategy, terms)
        figures.append(figure(lent.resource, terms, policy.name))
    requested: dict[str, int] = dict(zip(BATCH, requested_of_pool(state.pods), strict=True))
    return PluginOutcome(
        NAME,
        tuple(figures),
        pool_names=tuple(word for word in strategy.pool_names if word in OTHER_NAMES),
        by_other_names=requested_by_name(state.pods),
        pool_requests=requested,
    )


def _terms(
    lent: LentResource, policy: Policy, node: NodeFacts, system: Amounts, pods: PodTotals, strategy: ColocationStrategy
) -> list[Term]:
    of = lent.of
    capacity = of(node.capacity)
    kept_percent = kept(strategy, lent)
    limit_percent: int | None = getattr(strategy, lent.limit)
    kept_why = f"{kept_percent}% ({setting(strategy, lent.threshold)})"
    terms = [
        Term("start", "capacity", capacity),
        Term("minus", "safetyMargin", of_percent(capacity, kept_percent), kept_why),
        _held(policy, of(system), of(node.reserved)),
        Term("minus", "pods", of(pods.total), policy.summary(pods), of(pods.measured)),
    ]
    if limit_percent is not None:
        limit_why = f"{limit_percent}% of capacity ({setting(strategy, lent.limit)})"
        terms.append(Term("atMost", "limit", of_percent(capacity, limit_percent), limit_why))
    if kept_percent < 0:
        terms.append(Term("atMost", "node", capacity, "no node lends more than it has"))
    terms.append(Term("atLeast", "nothing", 0))
    return terms


def kept(strategy: ColocationStrategy, lent: LentResource) -> int:
    """The percentage of a node that is not lent; below 0 where it is oversold. What is stored may be out of range."""
    threshold: int = given(getattr(strategy, lent.threshold))
    return 100 - min(threshold, MOST_PERCENT)


def _held(policy: Policy, used: int, reserved: int) -> Term:
    if not policy.counts_system:
        return Term("minus", "reserved", reserved)
    if used < reserved:
        return Term("minus", "reserved", reserved, f"reserved, more than the {used} that the system uses")
    more = f", more than the {reserved} reserved" if reserved else ""
    return Term("minus", "system", used, "used outside of pods" + more, measured=used)
