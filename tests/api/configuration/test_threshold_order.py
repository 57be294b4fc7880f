"""Thresholds in order, wherever they are said: configuration, scheduler, nodes."""

from __future__ import annotations

import json
from typing import Any

from koord.api.configuration.scheduler_config import SHIPPED
from koord.api.configuration.scheduler_config import parse as parse_scheduler
from koord.api.configuration.slo_config import SloConfig, parse
from koord.api.configuration.threshold_order import Findings, load_limits, of_config, of_nodes, usable
from koord.api.kubernetes.meta import ObjectMeta
from koord.api.protocol.annotations.load import USAGE_THRESHOLDS
from koord.api.protocol.crd.node_slo import NodeSLOSpec, ResourceThresholdStrategy

POOL = {"nodeSelector": {"matchLabels": {"pool": "b"}}}
BAD = {"enable": True, "cpuSuppressThresholdPercent": 80, "cpuEvictThresholdPercent": 70,
       "evictEnabledPriorityThreshold": 5999}  # fmt: skip


def config(thresholds: Any = None, colocation: Any = None) -> SloConfig:
    sections = {"resource-threshold-config": thresholds, "colocation-config": colocation}
    return parse({key: json.dumps(each) for key, each in sections.items() if each is not None})


def scheduler(**thresholds: int) -> Any:
    args = {"name": "LoadAwareScheduling", "args": {"usageThresholds": thresholds}}
    look = {"filter": {"enabled": [{"name": "LoadAwareScheduling"}]}}
    return parse_scheduler(
        {"profiles": [{"schedulerName": "koord-scheduler", "plugins": look, "pluginConfig": [args]}]}
    )


def slo(**strategy: Any) -> NodeSLOSpec:
    return NodeSLOSpec(resource_used_threshold_with_be=ResourceThresholdStrategy(enable=True, **strategy))


def test_a_configuration_is_judged_for_every_kind_of_node_in_it() -> None:
    assert of_config(config({"clusterStrategy": {"enable": True}})).faults == ()
    (fault,) = of_config(config({"nodeStrategies": [{**POOL, **BAD}]})).faults
    assert "nodeStrategies[0].cpuSuppressThresholdPercent" in str(fault)
    assert "nodeStrategies[0].cpuEvictThresholdPercent (70)" in str(fault)


def test_a_manager_keeps_the_section_that_was_in_order() -> None:
    good = config({"clusterStrategy": {"enable": True}}, {"enable": True})
    bad = config({"clusterStrategy": BAD}, {"enable": True, "cpuReclaimThresholdPercent": 50})
    kept, (problem,), _ = usable(good, bad)
    assert kept.resource_threshold == good.resource_threshold
    assert kept.colocation == bad.colocation
    assert problem.key == "resource-threshold-config"
    assert problem.event_reason == "SLOCfgInvalid"
    assert "cpuEvictThresholdPercent (70)" in str(problem)
    assert usable(good, good) == (good, (), of_config(good).warnings)


def test_at_start_up_such_a_section_counts_as_not_written() -> None:
    started, (problem,), _ = usable(None, config({"clusterStrategy": BAD}, {"enable": True}))
    assert started.resource_threshold == SloConfig().resource_threshold
    assert started.colocation.enable is True
    assert problem.kind == "invalid"


def test_of_two_sections_that_disagree_the_one_that_changed_is_not_taken() -> None:
    strategy = {"clusterStrategy": {"enable": True, "memoryEvictThresholdPercent": 80, "memoryEvictLowerPercent": 60}}
    lending = {"enable": True, "memoryReclaimThresholdPercent": 70}
    kept, (problem,), _ = usable(config(None, lending), config(strategy, lending))
    assert problem.key == "resource-threshold-config"
    assert kept == config(None, lending)
    kept, (problem,), _ = usable(config(strategy), config(strategy, lending))
    assert problem.key == "colocation-config"
    assert kept == config(strategy)


def test_a_scheduler_and_an_agent_that_disagree_are_refused_and_both_named() -> None:
    nodes = [ObjectMeta(name=f"n{i}") for i in range(100)]
    limits = load_limits(scheduler(cpu=80))
    findings = of_nodes(nodes, limits, {each.name: slo(cpu_suppress_threshold_percent=60) for each in nodes})
    (fault,) = findings.faults
    assert "LoadAwareSchedulingArgs of profile koord-scheduler.usageThresholds.cpu" in str(fault)
    assert "NodeSLO n0 spec.resourceUsedThresholdWithBE.cpuSuppressThresholdPercent (60)" in str(fault)


def test_defaults_are_mended_with_one_warning_however_many_nodes() -> None:
    nodes = [ObjectMeta(name=f"n{i}") for i in range(100)]
    findings = of_nodes(nodes, load_limits(scheduler(cpu=60, memory=80)), {each.name: slo() for each in nodes})
    assert findings.faults == ()
    assert len(findings.warnings) == 1
    assert "usageThresholds.memory (80)" in findings.warnings[0]


def test_the_shipped_scheduler_has_no_limit_that_could_be_above_another() -> None:
    findings = of_nodes([ObjectMeta(name="n")], load_limits(SHIPPED), {"n": slo(cpu_suppress_threshold_percent=10)})
    assert findings == Findings()


def test_a_nodes_own_limit_counts_in_place_of_the_schedulers() -> None:
    said = ObjectMeta(name="n1", annotations={USAGE_THRESHOLDS.key: '{"usageThresholds": {"cpu": 90}}'})
    slos = {"n0": slo(cpu_suppress_threshold_percent=60), "n1": slo(cpu_suppress_threshold_percent=60)}
    findings = of_nodes([ObjectMeta(name="n0"), said], load_limits(scheduler(cpu=50)), slos)
    (fault,) = findings.faults
    assert "annotation scheduling.koordinator.sh/usage-thresholds of node n1.usageThresholds.cpu" in str(fault)


def test_a_configuration_counts_in_place_of_what_was_made_from_it() -> None:
    strategy = {"nodeStrategies": [{**POOL, "enable": True, "cpuSuppressThresholdPercent": 60}]}
    limits, nodes = load_limits(scheduler(cpu=70)), [ObjectMeta(name="a"), ObjectMeta(name="b", labels={"pool": "b"})]
    (fault,) = of_nodes(nodes, limits, {}, config(strategy)).faults
    assert "resource-threshold-config.nodeStrategies[0].cpuSuppressThresholdPercent (60)" in str(fault)
    assert of_nodes(nodes[:1], limits, {}, config(strategy)).faults == ()
