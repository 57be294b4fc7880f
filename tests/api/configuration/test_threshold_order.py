"""Thresholds in order, wherever they are said: configuration, scheduler, nodes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.api.configuration.layer import Layer
from koord.api.configuration.scheduler_config import SHIPPED
from koord.api.configuration.scheduler_config import parse as parse_scheduler
from koord.api.configuration.slo_config import SloConfig, parse
from koord.api.configuration.threshold_order import Findings, load_limits, of_config, of_nodes, usable
from koord.api.configuration.thresholds import check
from koord.api.kubernetes.meta import ObjectMeta
from koord.api.protocol.annotations.load import USAGE_THRESHOLDS
from koord.api.protocol.crd.node_slo import NodeSLOSpec, ResourceThresholdStrategy

POOL = {"nodeSelector": {"matchLabels": {"pool": "b"}}}
BAD = {"enable": True, "cpuSuppressThresholdPercent": 80, "cpuEvictThresholdPercent": 70,
       "evictEnabledPriorityThreshold": 5999}  # fmt: skip


def config(thresholds: Any = None, colocation: Any = None) -> SloConfig:
    sections = {"resource-threshold-config": thresholds, "colocation-config": colocation}
    return parse({key: json.dumps(section) for key, section in sections.items() if section is not None})


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


SUPPRESSES = {"clusterStrategy": {"enable": True, "cpuSuppressThresholdPercent": 65}}


@pytest.mark.parametrize("reclaim", [65, 70])
def test_a_stored_configuration_out_of_order_lends_up_to_the_nearest_safe_threshold(reclaim: int) -> None:
    stored = config(SUPPRESSES, {"enable": True, "cpuReclaimThresholdPercent": reclaim})
    started, (problem,), _ = usable(None, stored)
    assert started == stored
    settings = started.for_node({}, {})
    assert settings.colocation.cpu_reclaim_threshold_percent == 64
    assert settings.colocation.memory_reclaim_threshold_percent == 65
    assert problem.kind == "out-of-order"
    assert problem.event_reason == "ColocationCfgOutOfOrder"
    assert "colocation-config.cpuReclaimThresholdPercent" in str(problem)
    assert f"not {reclaim}: it counts as 64" in str(problem)
    assert "resource-threshold-config.clusterStrategy.cpuSuppressThresholdPercent (65)" in str(problem)
    # The problem is reported for as long as the section is stored, and another write out of order is rejected.
    assert usable(started, stored)[1] == (problem,)
    worse = config(SUPPRESSES, {"enable": True, "cpuReclaimThresholdPercent": 90})
    kept, problems, _ = usable(started, worse)
    assert kept == stored
    assert [problem.kind for problem in problems] == ["invalid", "out-of-order"]


def test_stored_thresholds_of_agents_out_of_order_act_sooner() -> None:
    started, (problem,), _ = usable(None, config({"clusterStrategy": BAD}, {"enable": True}))
    strategy = started.for_node({}, {}).node_slo.resource_used_threshold_with_be
    assert strategy is not None
    assert (strategy.enable, strategy.cpu_suppress_threshold_percent, strategy.cpu_evict_threshold_percent) == (
        True, 69, 70,
    )  # fmt: skip
    assert "cpuEvictThresholdPercent (70), not 80: it counts as 69" in str(problem)


def test_what_a_node_itself_says_is_brought_into_order_too() -> None:
    stored = config(SUPPRESSES, {"enable": True})
    settings = stored.for_node({"node.koordinator.sh/cpu-reclaim-ratio": "0.8"}, {})
    assert settings.colocation.cpu_reclaim_threshold_percent == 64
    (lowered,) = settings.lowered
    assert "node label node.koordinator.sh/cpu-reclaim-ratio (80)" in str(lowered)
    # Where no agent acts, there is nothing to be in order with.
    free = config({"clusterStrategy": {"enable": False}}, {"enable": True})
    assert (
        free.for_node({"node.koordinator.sh/cpu-reclaim-ratio": "0.8"}, {}).colocation.cpu_reclaim_threshold_percent
        == 80
    )


PERCENT = st.one_of(st.none(), st.integers(2, 100))


@given(PERCENT, PERCENT, PERCENT, PERCENT, PERCENT, PERCENT, st.sampled_from([None, 3999, 5999, 9999]))
def test_whatever_is_stored_what_runs_is_in_order(
    lend: int | None, suppress: int | None, evict: int | None, lower: int | None, memory: int | None,
    memory_lower: int | None, priority: int | None,
) -> None:  # fmt: skip
    strategy = {
        "enable": True,
        "cpuSuppressThresholdPercent": suppress,
        "cpuEvictThresholdPercent": evict,
        "cpuEvictLowerPercent": lower,
        "memoryEvictThresholdPercent": memory,
        "memoryEvictLowerPercent": memory_lower,
        "evictEnabledPriorityThreshold": priority,
    }
    colocation = {"enable": True, "cpuReclaimThresholdPercent": lend, "memoryReclaimThresholdPercent": lend}
    started, _, _ = usable(None, config({"clusterStrategy": _set(strategy)}, _set(colocation)))
    settings = started.for_node({}, {})
    assert settings.node_slo.resource_used_threshold_with_be is not None
    again = check(
        strategy=(Layer("strategy", settings.node_slo.resource_used_threshold_with_be),),
        colocation=(Layer("colocation", settings.colocation),),
    )
    assert again.faults == ()


def _set(fields: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value is not None}


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
    findings = of_nodes(nodes, limits, {node.name: slo(cpu_suppress_threshold_percent=60) for node in nodes})
    (fault,) = findings.faults
    assert "LoadAwareSchedulingArgs of profile koord-scheduler.usageThresholds.cpu" in str(fault)
    assert "NodeSLO n0 spec.resourceUsedThresholdWithBE.cpuSuppressThresholdPercent (60)" in str(fault)


def test_defaults_are_mended_with_one_warning_however_many_nodes() -> None:
    nodes = [ObjectMeta(name=f"n{i}") for i in range(100)]
    findings = of_nodes(nodes, load_limits(scheduler(cpu=60, memory=80)), {node.name: slo() for node in nodes})
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
