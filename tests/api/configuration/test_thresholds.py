"""The one threshold model: order, fixing, refusing."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koord.api.configuration.layer import Layer
from koord.api.configuration.scheduler_args import LoadAwareAggregation, LoadAwareSchedulingArgs
from koord.api.configuration.slo_config_types import ColocationStrategy
from koord.api.configuration.thresholds import LoadLimits, ThresholdReport, Thresholds, check, strategy_layers
from koord.api.protocol.annotations.load import AggregatedThresholds, UsageThresholds
from koord.api.protocol.crd.node_slo import NodeSLOSpec, ResourceThresholdStrategy
from koord.api.protocol.priority import PriorityClass

PROD, MID, BATCH, FREE = PriorityClass.PROD, PriorityClass.MID, PriorityClass.BATCH, PriorityClass.FREE
WHERE = "resource-threshold-config.clusterStrategy"


def judge(
    load: LoadAwareSchedulingArgs | None = None,
    strategy: dict[str, Any] | None = None,
    colocation: dict[str, Any] | None = None,
    annotation: UsageThresholds | None = None,
) -> ThresholdReport:
    limits = [LoadLimits.of(load)] if load is not None else []
    if annotation is not None:
        limits.append(LoadLimits.of_annotation(annotation))
    return check(
        limits,
        [Layer(WHERE, ResourceThresholdStrategy(**strategy))] if strategy is not None else [],
        [Layer("colocation-config", ColocationStrategy(**colocation))] if colocation is not None else [],
    )


def usage(**percents: int) -> LoadAwareSchedulingArgs:
    return LoadAwareSchedulingArgs(usage_thresholds=percents)


ON = {"enable": True}


def test_the_protocols_own_defaults_are_mended_with_one_warning_a_limit() -> None:
    report = judge(LoadAwareSchedulingArgs(), ON)
    assert report.faults == ()
    assert report.thresholds["cpu", BATCH] == Thresholds(schedule_max=64, act=65)
    assert report.thresholds["memory", BATCH] == Thresholds(schedule_max=68, restore=68, evict=70)
    assert report.thresholds["memory", PROD] == Thresholds(schedule_max=95)
    assert len(report.warnings) == 2
    assert "LoadAwareSchedulingArgs.usageThresholds.memory (95, the default)" in report.warnings[1]
    assert f"{WHERE}.memoryEvictLowerPercent (68, the default)" in report.warnings[1]
    assert "koord-batch, koord-free" in report.warnings[1]


@pytest.mark.parametrize("strategy", [None, {}, {"enable": False, "memory_evict_threshold_percent": 10}])
def test_an_agent_that_does_nothing_is_in_nobodys_way(strategy: dict[str, Any] | None) -> None:
    report = judge(usage(cpu=90, memory=90), strategy)
    assert (report.warnings, report.faults) == ((), ())
    assert report.thresholds["memory", BATCH] == Thresholds(schedule_max=90)


def test_two_set_fields_out_of_order_are_refused_and_both_are_named() -> None:
    report = judge(usage(memory=90), {**ON, "memory_evict_threshold_percent": 80})
    assert [str(fault) for fault in report.faults] == [
        "LoadAwareSchedulingArgs.usageThresholds.memory: must be below "
        f"{WHERE}.memoryEvictThresholdPercent (80), not 90"
    ]


def test_a_set_lower_bound_counts_too() -> None:
    report = judge(usage(memory=70), {**ON, "memory_evict_threshold_percent": 80, "memory_evict_lower_percent": 60})
    assert len(report.faults) == 1
    assert f"must not be above {WHERE}.memoryEvictLowerPercent (60)" in str(report.faults[0])


def test_scheduling_up_to_the_lower_bound_is_in_order() -> None:
    strategy = {**ON, "memory_evict_threshold_percent": 80, "memory_evict_lower_percent": 60}
    assert judge(usage(memory=60), strategy).faults == ()
    assert judge(usage(cpu=64), {**ON, "cpu_suppress_threshold_percent": 65}).faults == ()
    assert judge(usage(cpu=65), {**ON, "cpu_suppress_threshold_percent": 65}).faults != ()


def test_a_set_limit_above_a_default_is_lowered_not_refused() -> None:
    report = judge(usage(memory=90), ON)
    assert report.faults == ()
    assert report.thresholds["memory", BATCH].schedule_max == 68
    assert len(report.warnings) == 1


def test_a_default_limit_above_a_set_threshold_is_lowered_too() -> None:
    report = judge(LoadAwareSchedulingArgs(), {**ON, "memory_evict_threshold_percent": 50})
    assert report.faults == ()
    assert report.thresholds["memory", BATCH].schedule_max == 48


@pytest.mark.parametrize("load", [usage(cpu=0, memory=0), usage(memory=50)])
def test_zero_and_unset_are_not_checked(load: LoadAwareSchedulingArgs) -> None:
    report = judge(load, {**ON, "cpu_suppress_threshold_percent": 10})
    assert (report.warnings, report.faults) == ((), ())
    assert report.thresholds["cpu", BATCH].schedule_max is None
    assert judge(usage(cpu=90), {**ON, "cpu_suppress_threshold_percent": 0}).faults == ()


def test_rungs_of_the_agent_out_of_order_are_refused_even_by_a_default() -> None:
    lower = judge(None, {**ON, "memory_evict_lower_percent": 75})
    assert [fault.path for fault in lower.faults] == [f"{WHERE}.memoryEvictLowerPercent"]
    assert "memoryEvictThresholdPercent (70, the default)" in lower.faults[0].message
    early = judge(None, {**ON, "cpu_evict_threshold_percent": 60, "evict_enabled_priority_threshold": 9999})
    assert [fault.path for fault in early.faults] == [f"{WHERE}.cpuSuppressThresholdPercent"]
    assert "cpuEvictThresholdPercent (60)" in early.faults[0].message


def test_eviction_by_usage_concerns_the_bands_up_to_its_priority() -> None:
    strategy = {**ON, "cpu_evict_threshold_percent": 90, "evict_enabled_priority_threshold": 7999}
    report = judge(usage(cpu=60), strategy)
    assert report.thresholds["cpu", PROD] == Thresholds(schedule_max=60)
    assert report.thresholds["cpu", MID] == Thresholds(schedule_max=60, restore=88, evict=90)
    assert report.thresholds["cpu", BATCH] == Thresholds(schedule_max=60, act=65, evict=90)


def test_without_a_priority_nothing_is_evicted_by_cpu() -> None:
    report = judge(usage(cpu=60), {**ON, "cpu_evict_threshold_percent": 90})
    assert report.thresholds["cpu", BATCH] == Thresholds(schedule_max=60, act=65)


def test_evicting_down_to_above_the_suppress_threshold_is_fine() -> None:
    strategy = {
        **ON,
        "cpu_suppress_threshold_percent": 65,
        "cpu_evict_threshold_percent": 90,
        "cpu_evict_lower_percent": 80,
        "evict_enabled_priority_threshold": 9999,
    }
    assert judge(usage(cpu=60), strategy).faults == ()


def test_prod_pods_have_their_own_limit_where_it_is_set() -> None:
    args = LoadAwareSchedulingArgs(usage_thresholds={"cpu": 60}, prod_usage_thresholds={"cpu": 80})
    strategy = {**ON, "cpu_evict_threshold_percent": 70, "evict_enabled_priority_threshold": 9999}
    report = judge(args, strategy)
    assert {fault.path for fault in report.faults} == {"LoadAwareSchedulingArgs.prodUsageThresholds.cpu"}


def test_percentiles_replace_plain_usage() -> None:
    args = LoadAwareSchedulingArgs(
        usage_thresholds={"memory": 90},
        aggregated=LoadAwareAggregation(usage_thresholds={"memory": 50}, usage_aggregation_type="p95"),
    )
    assert judge(args, {**ON, "memory_evict_threshold_percent": 80}).faults == ()


def test_a_nodes_annotation_replaces_the_schedulers_limits_part_by_part() -> None:
    strategy = {**ON, "memory_evict_threshold_percent": 80}
    good = UsageThresholds(usage_thresholds={"memory": 50})
    assert judge(usage(memory=90), strategy, annotation=good).faults == ()
    bad = UsageThresholds(
        aggregated_usage=AggregatedThresholds(usage_thresholds={"memory": 85}, usage_aggregation_type="p90")
    )
    faults = judge(usage(memory=50), strategy, annotation=bad).faults
    assert [fault.path for fault in faults] == [
        "node annotation scheduling.koordinator.sh/usage-thresholds.aggregatedUsage.usageThresholds.memory"
    ]


def test_lending_is_held_against_the_agent_as_scheduling_is() -> None:
    strategy = {**ON, "cpu_suppress_threshold_percent": 65}
    on = {"enable": True, "cpu_reclaim_threshold_percent": 80}
    assert [fault.path for fault in judge(None, strategy, on).faults] == [
        "colocation-config.cpuReclaimThresholdPercent"
    ]
    default = judge(None, ON, on)
    assert default.faults == ()
    assert default.thresholds["cpu", BATCH].lend_max == 64
    assert len(default.warnings) == 1


@pytest.mark.parametrize(
    "colocation",
    [
        {"enable": True},  # 60 and 65 are below 65 and 68
        {"enable": False, "cpu_reclaim_threshold_percent": 90},
        {"enable": True, "cpu_reclaim_threshold_percent": 120},  # overselling on purpose
        {"enable": True, "cpu_reclaim_threshold_percent": 0},
    ],
)
def test_lending_that_is_in_nobodys_way(colocation: dict[str, Any]) -> None:
    report = judge(None, {**ON, "cpu_suppress_threshold_percent": 65}, colocation)
    assert (report.warnings, report.faults) == ((), ())


def test_a_node_label_is_named_by_itself() -> None:
    layers = [
        Layer("colocation-config", ColocationStrategy(enable=True)),
        Layer("node label node.koordinator.sh/cpu-reclaim-ratio", ColocationStrategy(cpu_reclaim_threshold_percent=90)),
    ]
    strategy = [Layer(WHERE, ResourceThresholdStrategy(enable=True, cpu_suppress_threshold_percent=65))]
    faults = check([], strategy, layers).faults
    assert [fault.path for fault in faults] == ["node label node.koordinator.sh/cpu-reclaim-ratio"]


def test_the_last_layer_that_sets_a_field_is_the_one_that_is_named() -> None:
    strategy = [
        Layer(WHERE, ResourceThresholdStrategy(enable=True, memory_evict_threshold_percent=95)),
        Layer(
            "resource-threshold-config.nodeStrategies[2]", ResourceThresholdStrategy(memory_evict_threshold_percent=60)
        ),
    ]
    faults = check([LoadLimits.of(usage(memory=70))], strategy).faults
    assert "resource-threshold-config.nodeStrategies[2].memoryEvictThresholdPercent (60)" in str(faults[0])


def test_a_node_slo_takes_what_differs_from_a_default_as_set() -> None:
    spec = NodeSLOSpec(
        resource_used_threshold_with_be=ResourceThresholdStrategy(
            enable=True, cpu_suppress_threshold_percent=65, memory_evict_threshold_percent=80
        )
    )
    report = check([LoadLimits.of(usage(cpu=70, memory=90))], strategy_layers(spec, "n1"))
    assert [fault.path for fault in report.faults] == ["LoadAwareSchedulingArgs.usageThresholds.memory"]
    assert "NodeSLO n1 spec.resourceUsedThresholdWithBE.memoryEvictThresholdPercent (80)" in str(report.faults[0])
    assert report.thresholds["cpu", BATCH].schedule_max == 64
    assert strategy_layers(NodeSLOSpec()) == ()


@pytest.mark.parametrize(
    ("thresholds", "closes_at"),
    [
        (Thresholds(schedule_max=60, act=65, evict=90), 65),
        (Thresholds(schedule_max=60, restore=68, evict=70), 68),
        (Thresholds(evict=70), 70),
        (Thresholds(schedule_max=60), None),
    ],
)
def test_where_a_node_closes_to_a_band(thresholds: Thresholds, closes_at: int | None) -> None:
    assert thresholds.closes_at == closes_at


PERCENTS = st.integers(0, 100)
LIMITS = st.dictionaries(st.sampled_from(("cpu", "memory")), PERCENTS)
ARGS = st.builds(LoadAwareSchedulingArgs, usage_thresholds=LIMITS, prod_usage_thresholds=LIMITS)
STRATEGIES = st.fixed_dictionaries(
    {"enable": st.booleans()},
    optional={
        "cpu_suppress_threshold_percent": PERCENTS,
        "memory_evict_threshold_percent": PERCENTS,
        "memory_evict_lower_percent": PERCENTS,
        "cpu_evict_threshold_percent": PERCENTS,
        "cpu_evict_lower_percent": PERCENTS,
        "evict_enabled_priority_threshold": st.sampled_from((3500, 5999, 7999, 9999)),
    },
)
COLOCATIONS = st.fixed_dictionaries(
    {"enable": st.booleans()},
    optional={
        "cpu_reclaim_threshold_percent": st.integers(0, 150),
        "memory_reclaim_threshold_percent": st.integers(0, 150),
    },
)


@settings(max_examples=300, deadline=None)
@given(ARGS, STRATEGIES, COLOCATIONS)
def test_what_is_not_refused_is_in_order_after_mending(
    load: LoadAwareSchedulingArgs, strategy: dict[str, Any], colocation: dict[str, Any]
) -> None:
    report = judge(load, strategy, colocation)
    if not report.faults:
        assert all(thresholds.in_order for thresholds in report.thresholds.values())


@settings(max_examples=300, deadline=None)
@given(ARGS, STRATEGIES, COLOCATIONS)
def test_mending_only_lowers_and_always_warns(
    load: LoadAwareSchedulingArgs, strategy: dict[str, Any], colocation: dict[str, Any]
) -> None:
    report, alone = judge(load, strategy, colocation), judge(load, None, colocation)
    lowered = False
    for key, thresholds in report.thresholds.items():
        before, after = alone.thresholds[key].schedule_max, thresholds.schedule_max
        assert (before is None) == (after is None)
        if before is not None and after is not None:
            assert 1 <= after <= before
            lowered |= after < before
    assert not lowered or report.warnings


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 100), st.integers(1, 100))
def test_a_disorder_that_a_person_set_is_always_refused_naming_both(schedule_max: int, evict: int) -> None:
    report = judge(usage(memory=schedule_max), {**ON, "memory_evict_threshold_percent": evict})
    if schedule_max < evict:
        assert report.faults == ()
    else:
        assert [fault.path for fault in report.faults] == ["LoadAwareSchedulingArgs.usageThresholds.memory"]
        assert f"{WHERE}.memoryEvictThresholdPercent ({evict})" in report.faults[0].message
