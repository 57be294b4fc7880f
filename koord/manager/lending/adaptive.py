"""Policy `adaptive`: what the node has learned that it is good for, with batch pods counted by what they use.

    batch-cpu    = requests of batch pods on the node + max(0, amount - what these pods count for)
    amount       = max(0, mark - margin - services' mean of the last hour + more)
    batch-memory = 95% of capacity - highest use of services in 24 h - 5% of capacity

The scheduler adds up requests, so with this figure the fit of a request is the fit into real room. It is never below
the requests of running pods: closing a node is not evicting from it. All terms of the amount come from the node's
report. A pod that is not in the report counts with its request: nothing is sold twice between two reports. What other
systems hold of the pool counts like the requests of pods.

A node that does not report these figures lends by `usage`, and no less than is requested there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from koord.api.configuration.lending_policies import ADAPTIVE
from koord.api.configuration.slo_config_types import ColocationStrategy
from koord.api.protocol import names
from koord.api.protocol.annotations.colocation import CPU_NORMALIZATION_RATIO
from koord.api.protocol.annotations.value import AnnotationError
from koord.manager.colocation_settings import given
from koord.manager.figures import REQUESTS, Term, of_percent, total
from koord.manager.lending import usage
from koord.manager.lending.policy import Policy, Resource
from koord.manager.lending.pool import held_by_others
from koord.manager.node_state import LendingRow, NodeFacts, NodeState

MEMORY_MARGIN_PERCENT: Final = 5
COLD_MINUTES: Final = 120
"""So long a node says that it has little history. The agent's figure: it takes services to rise more until then."""


class Sold(NamedTuple):
    """What batch pods and other systems hold of the node, in the node's own CPUs."""

    pods: int
    requested: int
    counted: int
    "By use, as far as that is known."
    unreported: int
    "Pods among them that the node has not counted yet."


def terms(
    resource: Resource, state: NodeState, strategy: ColocationStrategy, by_usage: tuple[Term, ...]
) -> tuple[Term, ...]:
    row = state.metric.lending if state.metric is not None else None
    if row is None:
        floor = sold_cpu(state, None).requested if resource == "cpu" else sold_memory(state)
        return (*by_usage, Term("atLeast", REQUESTS, floor, "the node reports no figures of adaptive: by usage"))
    if resource == "cpu":
        return tuple(_cpu(row, state, strategy))
    return tuple(_memory(row, state, strategy))


def sold_cpu(state: NodeState, row: LendingRow | None) -> Sold:
    ratio = cpu_worth(state.node)
    pods = requested = counted = unreported = 0
    for pod in state.pods:
        if not pod.active or not pod.batch_cpu_milli:
            continue
        own = -int(-pod.batch_cpu_milli // ratio)
        use = None if row is None else row.counted.get(pod.uid)
        pods, requested, counted = pods + 1, requested + own, counted + (own if use is None else use)
        unreported += use is None
    third_party = -int(-held_by_others(state.node).get(names.RESOURCE_BATCH_CPU, 0) // ratio)
    of_others = third_party
    if row is not None:
        of_others = row.counted_of_others + max(0, third_party - row.requested_by_others)
    return Sold(pods, requested + third_party, counted + of_others, unreported)


def sold_memory(state: NodeState) -> int:
    third_party = held_by_others(state.node).get(names.RESOURCE_BATCH_MEMORY, 0)
    return third_party + sum(pod.batch_memory_bytes for pod in state.pods if pod.active)


def cpu_worth(node: NodeFacts) -> float:
    """CPUs of the cluster's reference that one of the node's is worth: requests are in those, use is not."""
    if names.ANNOTATION_CPU_NORMALIZATION_RATIO not in node.annotations:
        return 1.0
    try:
        return max(CPU_NORMALIZATION_RATIO.read(node.meta) or 1.0, 1.0)
    except AnnotationError:
        return 1.0


def _cpu(row: LendingRow, state: NodeState, strategy: ColocationStrategy) -> Iterable[Term]:
    sold, capacity = sold_cpu(state, row), state.node.capacity.cpu_milli
    share = f"{row.mark / capacity:.0%} of {capacity}" if capacity else ""
    short = f"batch was short in {row.short_share:.1%} of minutes"
    count = "1 pod" if sold.pods == 1 else f"{sold.pods} pods"
    counted = f"{count} asked for {sold.requested}, count {sold.counted}"
    if sold.unreported:
        counted += f"; {sold.unreported} not in the report yet, by request"
    lines = [
        Term("start", "mark", row.mark, share),
        Term("minus", "margin", row.margin, f"{_rise(row)}, x {row.scale:.2f}"),
        Term("minus", "services", row.services, "mean of the last hour", row.services),
        Term("plus", "more", row.more, short),
        Term("atLeast", "nothing", 0),
    ]
    lines.append(Term("becomes", "amount", total(lines), "what the node is good for"))
    lines.append(Term("minus", "counted", sold.counted, counted, sold.counted))
    lines.append(Term("atLeast", "nothing", 0))
    yield from (*lines, Term("becomes", "room", total(lines), "for new requests"))
    yield Term("plus", REQUESTS, sold.requested, f"of the same {count}" if sold.pods else "")
    yield from _limited(strategy.batch_cpu_threshold_percent, "batchCPUThresholdPercent", capacity, sold.requested)


def _rise(row: LendingRow) -> str:
    if row.minutes < COLD_MINUTES:
        return f"rise of {row.rise}, at least a tenth of the node in its first {COLD_MINUTES // 60} hours"
    return f"rise of {row.rise} in 99 of 100 minutes"


def _memory(row: LendingRow, state: NodeState, strategy: ColocationStrategy) -> Iterable[Term]:
    capacity, requested = state.node.capacity.memory_bytes, sold_memory(state)
    mark = given(strategy.memory_reclaim_threshold_percent)
    margin = of_percent(capacity, MEMORY_MARGIN_PERCENT)
    yield Term("start", "mark", of_percent(capacity, mark), f"{mark}% of {capacity}")
    yield Term("minus", "margin", margin, f"{MEMORY_MARGIN_PERCENT}% of capacity")
    yield Term("minus", "services", row.memory_services, "their highest use in 24 h", row.memory_services)
    yield from _limited(strategy.batch_memory_threshold_percent, "batchMemoryThresholdPercent", capacity, requested)
    yield Term("atLeast", REQUESTS, requested, "closing a node is not evicting from it")


def _limited(percent: int | None, setting: str, capacity: int, requested: int) -> Iterable[Term]:
    if percent is not None:
        why = f"{percent}% of capacity ({setting} {percent}), or what is requested already"
        yield Term("atMost", "limit", max(of_percent(capacity, percent), requested), why)


POLICY: Final = Policy(
    ADAPTIVE,
    count=usage.POLICY.count,
    count_in_zone=usage.POLICY.count_in_zone,
    counts_gone=True,
    counts_system=True,
    summary=usage.POLICY.summary,
    remark=usage.POLICY.remark,
    terms=terms,
)
