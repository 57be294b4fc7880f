"""The callers of `thresholds.check`, and their nodes: the webhook, the manager, the scheduler and plans.

`of_config` judges slo-controller-config by itself, for every kind of node that it tells apart; `of_nodes` judges the
nodes that there are, with the scheduler's arguments and their annotations; `usable` is what a running manager goes on
with. Nodes with the same settings are judged once.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from koord.api.configuration.layer import Layer
from koord.api.configuration.scheduler_args import LoadAwareSchedulingArgs
from koord.api.configuration.scheduler_config import SchedulerConfiguration
from koord.api.configuration.slo_config import SECTIONS, NodeSettings, Problem, SloConfig, picks
from koord.api.configuration.slo_config_types import COLOCATION, RESOURCE_THRESHOLD, NodeItem
from koord.api.configuration.threshold_rungs import Lowered
from koord.api.configuration.thresholds import LoadLimits, ThresholdReport, check, strategy_layers
from koord.api.kubernetes.meta import ObjectMeta
from koord.api.machinery.faults import Fault
from koord.api.protocol.annotations.colocation import COLOCATION_STRATEGY
from koord.api.protocol.annotations.load import USAGE_THRESHOLDS
from koord.api.protocol.crd.node_slo import NodeSLOSpec

PLUGIN: Final = "LoadAwareScheduling"
_FIELDS: Final = {RESOURCE_THRESHOLD: "resource_threshold", COLOCATION: "colocation"}


@dataclass(frozen=True, slots=True)
class Findings:
    """What is refused, and what was corrected; each once."""

    faults: tuple[Fault, ...] = ()
    warnings: tuple[str, ...] = ()

    @staticmethod
    def of(reports: Iterable[ThresholdReport]) -> Findings:
        faults: dict[Fault, None] = {}
        warnings: dict[str, None] = {}
        for report in reports:
            faults |= dict.fromkeys(report.faults)
            warnings |= dict.fromkeys(report.warnings)
        return Findings(tuple(faults), tuple(warnings))


def of_config(config: SloConfig) -> Findings:
    """For the cluster, and for each kind of node that an entry is for."""
    settings = [config.for_node(labels, {}) for labels in kinds_of_nodes(config)]
    return Findings.of(
        check(strategy=settings_of_node.threshold_layers, colocation=settings_of_node.colocation_layers)
        for settings_of_node in settings
    )


def usable(old: SloConfig | None, new: SloConfig) -> tuple[SloConfig, tuple[Problem, ...], tuple[str, ...]]:
    """What to go on with after a change: sections whose change puts thresholds out of order keep their old value.

    What is out of order without a change (it was stored before: `old` is None at start-up) stays, and `for_node` brings
    it into the nearest safe order. With the problems, and what was corrected.
    """
    findings = of_config(new)
    if not findings.faults:
        return new, (), findings.warnings
    problems = []
    for section in SECTIONS:
        if section.key not in _FIELDS or old is None or section.of(old) == section.of(new):
            continue
        own = tuple(fault for fault in findings.faults if section.key in str(fault))
        if own:
            problems.append(Problem(section.key, "invalid", own, f"{section.failed}Invalid"))
    if old is not None and problems:
        fields = [_FIELDS[problem.key] for problem in problems]
        fields += ["colocation_state"] if "colocation" in fields else []
        new = replace(new, **{field: getattr(old, field) for field in fields})
        findings = of_config(new)
    if findings.faults:
        problems += _out_of_order(new)
    return new, tuple(problems), findings.warnings


def _out_of_order(config: SloConfig) -> Iterator[Problem]:
    """For each section, the thresholds in it that count as less than what is written."""
    lowered: dict[Lowered, None] = {}
    for labels in kinds_of_nodes(config):
        lowered |= dict.fromkeys(config.for_node(labels, {}).lowered)
    for section in SECTIONS:
        own = tuple(
            Fault(
                low.setting.source,
                f"{low.rung.relation} {low.rung.setting}, not {low.setting.percent}: it counts as {low.counts_as}",
            )
            for low in lowered
            if low.setting.source.startswith(section.key)
        )
        if own:
            yield Problem(section.key, "out-of-order", own, f"{section.failed}OutOfOrder")


def load_limits(config: SchedulerConfiguration) -> tuple[LoadLimits, ...]:
    """The usage at which each profile of a scheduler stops placing pods; profiles that ignore usage are left out."""
    limits = []
    for profile in config.profiles:
        if PLUGIN in profile.resolved().at["filter"]:
            args = profile.written_args(PLUGIN)
            assert isinstance(args, LoadAwareSchedulingArgs)
            limits.append(LoadLimits.of(args, f"{PLUGIN}Args of profile {profile.scheduler_name}"))
    return tuple(limits)


def of_nodes(
    nodes: Iterable[ObjectMeta],
    load: Sequence[LoadLimits] = (),
    slos: Mapping[str, NodeSLOSpec] | None = None,
    config: SloConfig | None = None,
) -> Findings:
    """For every node by name. Where there is a configuration it counts, for NodeSLOs are made from it; else they do."""
    reports: dict[Hashable, list[ThresholdReport]] = {}
    for meta in nodes:
        slo = (slos or {}).get(meta.name)
        text = meta.annotations.get(USAGE_THRESHOLDS.key, "")
        if config is not None:
            key: Hashable = (text, *_said(config, meta))
        else:
            key = (text, slo.resource_used_threshold_with_be if slo is not None else None)
        if key not in reports:
            reports[key] = list(_judged(meta, load, slo, config))
    if not reports:
        reports[""] = list(_judged(ObjectMeta(), load, None, config))
    return Findings.of(report for reports_of_kind in reports.values() for report in reports_of_kind)


def _judged(
    meta: ObjectMeta, load: Sequence[LoadLimits], slo: NodeSLOSpec | None, config: SloConfig | None
) -> Iterator[ThresholdReport]:
    strategy: tuple[Layer, ...] = strategy_layers(slo, meta.name) if slo is not None else ()
    colocation: tuple[Layer, ...] = ()
    if config is not None:
        settings: NodeSettings = config.for_node(meta.labels, meta.annotations)
        strategy, colocation = settings.threshold_layers, settings.colocation_layers
    own: tuple[LoadLimits, ...] = ()
    if meta.annotations.get(USAGE_THRESHOLDS.key):
        where = f"annotation {USAGE_THRESHOLDS.key} of node {meta.name}"
        own = (LoadLimits.of_annotation(USAGE_THRESHOLDS.read(meta, "Node"), where),)
    for limits in load:
        yield check((limits, *own), strategy, colocation)
    if not load:
        yield check(own, strategy, colocation)


def _said(config: SloConfig, meta: ObjectMeta) -> Iterator[Hashable]:
    """All that tells nodes apart for a configuration, as far as thresholds go."""
    yield meta.annotations.get(COLOCATION_STRATEGY.key, "")
    yield tuple(sorted((key, text) for key, text in meta.labels.items() if key.endswith("-ratio")))
    sections: tuple[Sequence[NodeItem], ...] = (config.colocation.items, config.resource_threshold.items)
    for items in sections:
        yield next((i for i, item in enumerate(items) if picks(item.node_selector, meta.labels)), -1)


def kinds_of_nodes(config: SloConfig) -> Iterator[dict[str, str]]:
    """Labels of a node of each kind that a configuration tells apart."""
    yield {}
    items: tuple[NodeItem, ...] = (*config.colocation.items, *config.resource_threshold.items)
    for item in items:
        if item.node_selector is not None:
            expressions = item.node_selector.match_expressions
            chosen = {
                requirement.key: requirement.values[0]
                for requirement in expressions
                if requirement.operator == "In" and requirement.values
            }
            yield {**chosen, **item.node_selector.match_labels}
