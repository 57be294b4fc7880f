"""How a node's figures came about, line by line, and how what is published differs from them and why.

The lines are the terms of the calculation itself: this module calculates nothing. It adds what the terms were added up
from (each pod), where each setting comes from, and what keeps a figure from being written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal

import msgspec

from koord.api.configuration.layer import Layer
from koord.api.configuration.lending_policies import ADAPTIVE
from koord.api.configuration.slo_config import NodeSettings, SloConfig
from koord.api.configuration.slo_config_types import ColocationStrategy
from koord.api.machinery.struct import json_name
from koord.api.protocol import names
from koord.api.protocol.crd.fields import FreeForm
from koord.api.protocol.pool_names import ALIASES
from koord.api.text.quantity import render
from koord.api.text.timestamp import from_seconds
from koord.manager.colocation_settings import set_in
from koord.manager.figures import Figure
from koord.manager.lending.counting import dangling
from koord.manager.lending.freshness import distrust, stale_at_s
from koord.manager.lending.policies import chosen
from koord.manager.node_resource.plugins import calculate, why_off
from koord.manager.node_resource.prepare import Prepared, prepare
from koord.manager.node_resource.writing import Comparison, compare, why_not_written
from koord.manager.node_state import BATCH, MID, LendingRow, NodeState, PodRow, PodUsage
from koord.manager.plugin import Plugin, PluginOutcome

_SETTINGS: Final = (
    "enable",
    "cpu_reclaim_threshold_percent",
    "memory_reclaim_threshold_percent",
    "cpu_calculate_policy",
    "cpu_safety_mark_percent",
    "memory_calculate_policy",
    "batch_cpu_threshold_percent",
    "batch_memory_threshold_percent",
    "mid_reclaim_mode",
    "mid_cpu_threshold_percent",
    "mid_memory_threshold_percent",
    "mid_unallocated_percent",
    "mid_static_cpu_reserved_percent",
    "mid_static_memory_reserved_percent",
    "degrade_time_minutes",
    "resource_diff_threshold",
    "update_time_threshold_seconds",
)
LENT_TO: Final = "runs on what is lent"
BELOW_PROD: Final = "batch or free, and requests nothing that is lent"
"""A pod without requests, for example: it counts as batch, and gets what all others leave."""
_ALWAYS: Final = frozenset((*BATCH, *MID))


class Printed(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of what is printed: every key is there, whatever its value, so that readers may count on it."""


class MetricReport(Printed, frozen=True):
    """The NodeMetric that was used."""

    update_time: str | None
    age_seconds: float | None
    stale_in_seconds: float | None
    "Negative where it is stale already."
    ahead_seconds: float
    "How far the node's clock is ahead of the local one, if known."
    distrusted: str
    "Why it is not used; empty where it is."


class Setting(Printed, frozen=True):
    field: str
    value: bool | int | float | str | None
    set_in: str


class Line(Printed, frozen=True):
    op: str
    name: str
    amount: int
    why: str


class ResourceExplanation(Printed, frozen=True):
    """One resource."""

    resource: str
    unit: Literal["milli-cores", "cores", "bytes", "percent"]
    policy: str
    lines: tuple[Line, ...]
    recomputed: int | None
    "What the node should show; none at all where it is not lent."
    quantity: str | None
    "The same as Kubernetes writes it."
    published: int | None
    "What the node shows."
    matches: bool
    why_none: str
    why_different: str


class PodExplanation(Printed, frozen=True):
    """What a pod takes from the batch resources."""

    pod: str
    priority_class: str
    qos: str
    requested_cpu: int
    requested_memory: int
    used_cpu: int | None
    used_memory: int | None
    counted_cpu: int
    counted_memory: int
    why: str


class ZoneExplanation(Printed, frozen=True):
    zone: str
    resources: Mapping[str, int]
    lines: Mapping[str, tuple[Line, ...]]


class NodeExplanation(Printed, frozen=True):
    node: str
    time: str
    colocation: bool
    why_off: str
    "Why nothing is lent here at all."
    configuration: Literal["current", "stale", "unavailable"]
    report: MetricReport
    settings: tuple[Setting, ...]
    resources: tuple[ResourceExplanation, ...]
    pods: tuple[PodExplanation, ...]
    zones: tuple[ZoneExplanation, ...]
    annotations: FreeForm
    "What the manager would write, by key; none is taken away."
    notes: tuple[str, ...]
    "What plugins could not decide, and why."
    last_written: str | None
    "When the manager last wrote the node's status."
    manager: str
    "The manager that writes, if the cluster says so."


def explain(
    state: NodeState,
    config: SloConfig,
    settings: NodeSettings,
    plugins: Sequence[Plugin],
    now_s: float,
    *,
    written_s: float | None = None,
    manager: str = "",
) -> NodeExplanation:
    """All there is to say about what a node lends. `written_s` and `manager` are what the cluster tells, if it does."""
    outcomes = calculate(state, config, settings, plugins, now_s)
    prepared = prepare(state.node, outcomes)
    strategy = settings.colocation
    return NodeExplanation(
        node=state.node.name,
        time=from_seconds(now_s),
        colocation=not why_off(config, settings),
        why_off=why_off(config, settings),
        configuration=config.colocation_state,
        report=_report(state, strategy, now_s),
        settings=_settings(strategy, settings.colocation_layers),
        resources=_resources(state, outcomes, prepared, strategy, written_s, now_s, manager),
        pods=_pods(state, strategy),
        zones=_zones(prepared),
        annotations=dict(prepared.annotations),
        notes=(
            *(f"{outcome.plugin}: {outcome.failed}" for outcome in outcomes if outcome.failed),
            *map(str, settings.lowered),
            *prepared.notes,
        ),
        last_written=None if written_s is None else from_seconds(written_s),
        manager=manager,
    )


def _report(state: NodeState, strategy: ColocationStrategy, now_s: float) -> MetricReport:
    reported_s, until_s = state.reported_s, stale_at_s(state, strategy)
    return MetricReport(
        update_time=None if reported_s is None else from_seconds(reported_s),
        age_seconds=None if reported_s is None else max(0.0, now_s - reported_s),
        stale_in_seconds=None if until_s is None else until_s - now_s,
        ahead_seconds=0.0 if reported_s is None else max(0.0, reported_s - now_s),
        distrusted=distrust(state, strategy, now_s),
    )


def _settings(strategy: ColocationStrategy, layers: Sequence[Layer]) -> tuple[Setting, ...]:
    return tuple(
        Setting(field=json_name(field), value=getattr(strategy, field), set_in=set_in(field, layers))
        for field in _SETTINGS
        if getattr(strategy, field) is not None
    )


def _resources(
    state: NodeState,
    outcomes: Sequence[PluginOutcome],
    prepared: Prepared,
    strategy: ColocationStrategy,
    written_s: float | None,
    now_s: float,
    manager: str,
) -> tuple[ResourceExplanation, ...]:
    figures = {figure.resource: figure for figure in prepared.figures}
    notes = {name: outcome.failed or outcome.note for outcome in outcomes for name in outcome.deleted}
    explanations = []
    for comparison in sorted(compare(state.node, prepared, strategy), key=_order):
        if comparison.resource not in _ALWAYS and comparison.published is None and comparison.wanted is None:
            # Devices that the node does not have.
            continue
        figure = figures.get(comparison.resource)
        explanations.append(
            ResourceExplanation(
                resource=comparison.resource,
                unit=_unit(comparison.resource),
                policy=figure.policy if figure is not None else "",
                lines=_lines(figure) if figure is not None else (),
                recomputed=comparison.wanted,
                quantity=None if comparison.wanted is None else render(comparison.resource, comparison.wanted),
                published=comparison.published,
                matches=not comparison.differs,
                why_none=notes.get(comparison.resource, "") if comparison.wanted is None else "",
                why_different=why_not_written(comparison, strategy, written_s, now_s, manager),
            )
        )
    return tuple(explanations)


def _order(comparison: Comparison) -> tuple[bool, bool, str]:
    return comparison.resource not in BATCH, comparison.resource not in MID, comparison.resource


def _lines(figure: Figure) -> tuple[Line, ...]:
    return tuple(Line(op=term.op, name=term.name, amount=term.amount, why=term.why) for term in figure.terms)


def _unit(resource: str) -> Literal["milli-cores", "cores", "bytes", "percent"]:
    alias = ALIASES.get(resource)
    if resource.endswith("-memory") or (alias is not None and alias.of == names.RESOURCE_BATCH_MEMORY):
        return "bytes"
    if alias is not None and alias.unit > 1:
        return "cores"
    return "milli-cores" if resource in _ALWAYS or alias is not None else "percent"


def _pods(state: NodeState, strategy: ColocationStrategy) -> tuple[PodExplanation, ...]:
    measured = state.metric.pods if state.metric is not None else {}
    lending = state.metric.lending if state.metric is not None else None
    explanations = [_pod(row, measured.get(row.key), strategy, lending) for row in state.pods]
    explanations += [_gone(key, usage) for key, usage in dangling(state.pods, measured).items()]
    return tuple(sorted(explanations, key=lambda pod: (-pod.counted_cpu, -pod.counted_memory, pod.pod)))


def _learned_use(row: PodRow, lending: LendingRow | None, strategy: ColocationStrategy) -> int | None:
    """What a batch pod counts for by the policy `adaptive`; None with another one."""
    if lending is None or strategy.cpu_calculate_policy != ADAPTIVE or not row.batch_cpu_milli:
        return None
    return lending.counted.get(row.uid, row.batch_cpu_milli)


def _pod(
    row: PodRow, usage: PodUsage | None, strategy: ColocationStrategy, lending: LendingRow | None
) -> PodExplanation:
    cpu = memory = 0
    if not row.active:
        why = "has ended"
    elif not row.above_batch:
        use = _learned_use(row, lending, strategy)
        if use is not None:
            cpu, why = use, f"{LENT_TO}; asked for {row.batch_cpu_milli}"
        else:
            why = LENT_TO if row.batch_cpu_milli or row.batch_memory_bytes else BELOW_PROD
    else:
        cpu = chosen(strategy, "cpu").count(row, usage).cpu_milli
        memory = chosen(strategy, "memory").count(row, usage).memory_bytes
        why = _why_counted(row, usage, strategy)
    return PodExplanation(
        pod=row.key,
        priority_class=row.band.value,
        qos=row.qos.value,
        requested_cpu=row.cpu_milli,
        requested_memory=row.memory_bytes,
        used_cpu=None if usage is None else usage.cpu_milli,
        used_memory=None if usage is None else usage.memory_bytes,
        counted_cpu=cpu,
        counted_memory=memory,
        why=why,
    )


def _why_counted(row: PodRow, usage: PodUsage | None, strategy: ColocationStrategy) -> str:
    cpu = chosen(strategy, "cpu").remark(row, usage, "cpu")
    memory = chosen(strategy, "memory").remark(row, usage, "memory")
    if cpu and memory and cpu != memory:
        return f"cpu {cpu}; memory {memory}"
    return cpu or memory


def _gone(key: str, usage: PodUsage) -> PodExplanation:
    return PodExplanation(
        pod=key,
        priority_class=usage.priority,
        qos="",
        requested_cpu=0,
        requested_memory=0,
        used_cpu=usage.cpu_milli,
        used_memory=usage.memory_bytes,
        counted_cpu=usage.cpu_milli,
        counted_memory=usage.memory_bytes,
        why="measured, but not there any more",
    )


def _zones(prepared: Prepared) -> tuple[ZoneExplanation, ...]:
    return tuple(
        ZoneExplanation(
            zone=zone,
            resources={figure.resource: figure.amount for figure in figures},
            lines={figure.resource: _lines(figure) for figure in figures},
        )
        for zone, figures in prepared.zone_figures.items()
    )
