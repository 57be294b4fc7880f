"""The policies of other systems: caster, LAR, Crane and Katalyst.

Nodes work them out each minute (`koord.agent.lending.peers`) and report them line by line; the lines are the terms
here. The figure has the requests of running batch pods in it. A node that does not report the policy that it was given
lends by `usage` until then: it was switched a moment ago, or its agent does not know the policy.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from koord.api.configuration.lending_policies import PEERS
from koord.api.configuration.slo_config_types import ColocationStrategy
from koord.manager.figures import Term, of_percent
from koord.manager.lending import usage
from koord.manager.lending.policy import Policy, Resource
from koord.manager.node_state import NodeState


def terms(
    name: str, resource: Resource, state: NodeState, strategy: ColocationStrategy, by_usage: tuple[Term, ...]
) -> tuple[Term, ...]:
    row = state.metric.policy if state.metric is not None else None
    own = () if row is None or row.policy != name else row.cpu if resource == "cpu" else row.memory
    if not own:
        return (*by_usage, Term("atLeast", "nothing", 0, f"the node reports no figures of {name}: by usage"))
    of_node = state.node.capacity
    percent, setting, capacity = (
        (strategy.batch_cpu_threshold_percent, "batchCPUThresholdPercent", of_node.cpu_milli)
        if resource == "cpu"
        else (strategy.batch_memory_threshold_percent, "batchMemoryThresholdPercent", of_node.memory_bytes)
    )
    if percent is None:
        return own
    return (
        *own,
        Term("atMost", "limit", of_percent(capacity, percent), f"{percent}% of capacity ({setting} {percent})"),
    )


POLICIES: Final = tuple(
    Policy(
        name,
        count=usage.POLICY.count,
        count_in_zone=usage.POLICY.count_in_zone,
        counts_gone=True,
        counts_system=True,
        summary=usage.POLICY.summary,
        remark=usage.POLICY.remark,
        terms=partial(terms, name),
    )
    for name in PEERS
)
