"""What holds for any node, whatever is measured: nothing is lent that is not there, and more usage never lends more."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from koord.api.configuration.slo_config import SloConfig
from koord.api.protocol.priority import PriorityClass, QoSClass
from koord.manager.figures import total
from koord.manager.node_resource.plugins import calculate, choose
from koord.manager.node_resource.prepare import Prepared, prepare
from koord.manager.node_resource.writing import decide
from koord.manager.node_state import (
    Amounts,
    HostUsage,
    MetricRow,
    NodeFacts,
    NodeState,
    PodRow,
    PodUsage,
)
from tests.manager.builders import GI, NOW_S, config

CAPACITY = Amounts(64_000, 256 * GI)
LENT = ("kubernetes.io/batch-cpu", "kubernetes.io/batch-memory", "kubernetes.io/mid-cpu", "kubernetes.io/mid-memory")
PLUGINS = choose()

cpus = st.integers(0, 80_000)
memories = st.integers(0, 300 * GI)
amounts = st.builds(Amounts, cpus, memories)
bands = st.sampled_from(list(PriorityClass))


@st.composite
def pods(draw: st.DrawFn) -> PodRow:
    band, qos = draw(bands), draw(st.sampled_from(list(QoSClass)))
    low = band in (PriorityClass.BATCH, PriorityClass.FREE)
    return PodRow(
        f"default/p{draw(st.integers(0, 6))}",
        "u",
        "1",
        "n1",
        band,
        qos,
        draw(st.booleans()),
        not low,
        not low and band is not PriorityClass.MID,
        draw(cpus),
        draw(memories),
    )


@st.composite
def metrics(draw: st.DrawFn) -> MetricRow:
    names = draw(st.sets(st.integers(0, 9), max_size=6))
    return MetricRow(
        "n1",
        "u",
        "1",
        NOW_S - draw(st.integers(0, 900)),
        draw(st.none() | amounts),
        draw(amounts),
        {f"default/p{name}": PodUsage(draw(cpus), draw(memories), draw(bands)) for name in names},
        tuple(HostUsage("app", draw(bands), draw(amounts)) for _ in range(draw(st.integers(0, 2)))),
        draw(st.none() | amounts),
    )


@st.composite
def states(draw: st.DrawFn) -> NodeState:
    node = NodeFacts("n1", "u", "1", {}, {}, CAPACITY, draw(amounts), draw(amounts), {}, {})
    rows = {row.key: row for row in draw(st.lists(pods(), max_size=6))}
    return NodeState(node, list(rows.values()), draw(metrics()))


percents = st.integers(0, 100)
configs = st.builds(
    config,
    cpuReclaimThresholdPercent=percents,
    memoryReclaimThresholdPercent=percents,
    cpuCalculatePolicy=st.sampled_from(["usage", "maxUsageRequest", "request"]),
    memoryCalculatePolicy=st.sampled_from(["usage", "maxUsageRequest", "request", "other"]),
    midUnallocatedPercent=percents,
    midCPUThresholdPercent=percents,
    midReclaimMode=st.sampled_from(["", "static"]),
    midStaticCPUReservedPercent=percents,
)


def shown(state: NodeState, slo: SloConfig, now_s: float = NOW_S) -> Prepared:
    node_settings = slo.for_node(state.node.labels, state.node.annotations)
    return prepare(state.node, calculate(state, slo, node_settings, PLUGINS, now_s))


def lent(state: NodeState, slo: SloConfig, now_s: float = NOW_S) -> dict[str, int]:
    """What is not shown is nothing."""
    return {name: shown(state, slo, now_s).resources[name] or 0 for name in LENT}


@given(states(), configs)
@settings(max_examples=80, deadline=None)
def test_what_is_lent_is_never_negative_and_never_more_than_there_is(state: NodeState, slo: SloConfig) -> None:
    for name, amount in lent(state, slo).items():
        assert 0 <= amount <= (CAPACITY.cpu_milli if name.endswith("cpu") else CAPACITY.memory_bytes)


def _more(usage: Any, cpu: int, memory: int) -> Any:
    return replace(usage, cpu_milli=usage.cpu_milli + cpu, memory_bytes=usage.memory_bytes + memory)


@given(states(), configs, st.data())
@settings(max_examples=80, deadline=None)
def test_more_usage_never_lends_more(state: NodeState, slo: SloConfig, data: st.DataObject) -> None:
    metric = state.metric
    assert metric is not None
    cpu, memory = data.draw(cpus), data.draw(memories)
    more = replace(
        metric,
        used=None if metric.used is None else _more(metric.used, cpu, memory),
        system=_more(metric.system, cpu, memory) if data.draw(st.booleans()) else metric.system,
        pods={
            key: _more(usage, cpu, memory) if data.draw(st.booleans()) else usage for key, usage in metric.pods.items()
        },
        host=tuple(replace(host_usage, used=_more(host_usage.used, cpu, memory)) for host_usage in metric.host),
    )
    before, after = lent(state, slo), lent(NodeState(state.node, state.pods, more), slo)
    for name in LENT:
        assert after[name] <= before[name], name


@given(states(), configs, st.floats(0.001, 1e6))
@settings(max_examples=40, deadline=None)
def test_a_stale_report_lends_nothing(state: NodeState, slo: SloConfig, late_s: float) -> None:
    assert state.metric is not None
    assert state.metric.updated_s is not None
    resources = shown(state, slo, state.metric.updated_s + 900 + late_s).resources
    assert [resources[name] for name in LENT] == [None] * 4


@given(states(), configs)
@settings(max_examples=40, deadline=None)
def test_a_report_from_the_future_counts_from_when_it_came(state: NodeState, slo: SloConfig) -> None:
    assert state.metric is not None
    ahead = replace(state.metric, updated_s=NOW_S + 7200)
    heard = NodeState(state.node, state.pods, ahead, heard_s=NOW_S)
    resources = shown(heard, slo, NOW_S + 901).resources
    assert [resources[name] for name in LENT] == [None] * 4


@given(states(), configs, st.floats(901, 2.5e11))
@settings(max_examples=40, deadline=None)
def test_a_report_that_is_dated_far_ahead_lends_nothing(state: NodeState, slo: SloConfig, ahead_s: float) -> None:
    assert state.metric is not None
    ahead = replace(state.metric, updated_s=NOW_S + ahead_s)
    for heard_s in (None, NOW_S):
        node_state = NodeState(state.node, state.pods, ahead, heard_s=heard_s)
        assert [shown(node_state, slo, NOW_S).resources[name] for name in LENT] == [None] * 4


@given(states(), configs)
@settings(max_examples=40, deadline=None)
def test_figures_are_what_their_terms_come_to(state: NodeState, slo: SloConfig) -> None:
    for figure in shown(state, slo).figures:
        assert total(figure.terms) == figure.amount


def _applied(node: NodeFacts, patch: Any) -> NodeFacts:
    """The node after a merge patch."""
    from koord.api.text.quantity import value

    def merged(old: Any, changes: Any) -> dict[str, Any]:
        new = {**old, **{key: text for key, text in changes.items() if text is not None}}
        return {key: text for key, text in new.items() if changes.get(key, "") is not None}

    def numbers(changes: Any) -> dict[str, int | None]:
        return {key: None if text is None else value(text) for key, text in changes.items()}

    status, meta = patch.get("status", {}), patch.get("metadata", {})
    return replace(
        node,
        annotations=merged(node.annotations, meta.get("annotations", {})),
        labels=merged(node.labels, meta.get("labels", {})),
        allocatable=merged(node.allocatable, numbers(status.get("allocatable", {}))),
        lent_capacity=merged(node.lent_capacity, numbers(status.get("capacity", {}))),
        lending=next(((each["status"], each["reason"]) for each in status.get("conditions", ())), node.lending),
    )


@given(states(), configs)
@settings(max_examples=40, deadline=None)
def test_what_was_written_once_is_not_written_again(state: NodeState, slo: SloConfig) -> None:
    strategy = slo.for_node(state.node.labels, state.node.annotations).colocation
    first = decide(state.node, shown(state, slo), strategy, None, NOW_S)
    assert first.patch is not None
    node = _applied(state.node, first.patch)
    # A second process, which has never written, finds nothing to do either.
    for written_s in (NOW_S, None):
        again = NodeState(node, state.pods, state.metric)
        second = decide(node, shown(again, slo), strategy, written_s, NOW_S)
        assert second.patch is None
        assert not second.pending


@given(states(), configs, st.data())
@settings(max_examples=40, deadline=None)
def test_the_order_of_pods_does_not_matter(state: NodeState, slo: SloConfig, data: st.DataObject) -> None:
    shuffled = NodeState(state.node, data.draw(st.permutations(list(state.pods))), state.metric)
    assert lent(shuffled, slo) == lent(state, slo)
