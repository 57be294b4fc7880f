"""Settings over settings."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from koord.api.configuration.overlay import overlay
from koord.api.configuration.slo_config_types import (
    ColocationStrategy,
    CPUNormalizationStrategy,
    ModelRatio,
    NodeColocation,
)
from koord.api.protocol.crd.node_metric import AggregatePolicy
from koord.api.protocol.crd.node_slo import ResourceThresholdStrategy, SystemStrategy
from koord.api.protocol.crd.resource_qos import CPUQOSCfg, MemoryQOSCfg, ResourceQOS, ResourceQOSStrategy
from tests.api.config_strategies import structs

TYPES = (ColocationStrategy, ResourceThresholdStrategy, ResourceQOSStrategy, SystemStrategy, CPUNormalizationStrategy)


def test_set_fields_replace_and_absent_ones_let_the_base_show() -> None:
    base = ColocationStrategy(enable=True, cpu_reclaim_threshold_percent=60, degrade_time_minutes=15)
    top = ColocationStrategy(enable=False, cpu_reclaim_threshold_percent=0)
    assert overlay(base, top) == ColocationStrategy(
        enable=False, cpu_reclaim_threshold_percent=0, degrade_time_minutes=15
    )


def test_maps_merge_by_key_and_their_values_are_replaced() -> None:
    base = CPUNormalizationStrategy(ratio_model={"m": ModelRatio(base_ratio=1.0, turbo_enabled_ratio=1.5)})
    top = CPUNormalizationStrategy(ratio_model={"m": ModelRatio(base_ratio=1.2), "n": ModelRatio(base_ratio=2.0)})
    assert overlay(base, top).ratio_model == {"m": ModelRatio(base_ratio=1.2), "n": ModelRatio(base_ratio=2.0)}


def test_lists_are_replaced_whole() -> None:
    base = ColocationStrategy(metric_aggregate_policy=AggregatePolicy(durations=("5m0s", "10m0s")))
    top = ColocationStrategy(metric_aggregate_policy=AggregatePolicy(durations=("1m0s",)))
    assert overlay(base, top).metric_aggregate_policy == AggregatePolicy(durations=("1m0s",))


def test_objects_are_overlaid_field_by_field() -> None:
    base = ResourceQOSStrategy(be_class=ResourceQOS(cpu_qos=CPUQOSCfg(enable=False, group_identity=-1)))
    top = ResourceQOSStrategy(
        be_class=ResourceQOS(cpu_qos=CPUQOSCfg(enable=True), memory_qos=MemoryQOSCfg(enable=True))
    )
    assert overlay(base, top).be_class == ResourceQOS(
        cpu_qos=CPUQOSCfg(enable=True, group_identity=-1), memory_qos=MemoryQOSCfg(enable=True)
    )


def test_an_item_is_laid_over_a_plain_strategy_without_its_name_and_selector() -> None:
    item = NodeColocation(name="pool", enable=True)
    assert overlay(ColocationStrategy(), item) == ColocationStrategy(enable=True)


@pytest.mark.parametrize("type_", TYPES, ids=lambda type_: type_.__name__)
def test_nothing_over_a_thing_and_a_thing_over_nothing_are_that_thing(type_: type[ColocationStrategy]) -> None:
    @settings(max_examples=40, deadline=None)
    @given(structs(type_))
    def holds(value: ColocationStrategy) -> None:
        assert overlay(value, type_()) == value
        assert overlay(type_(), value) == value
        assert overlay(value, None) == value
        assert overlay(value, value) == value

    holds()


@pytest.mark.parametrize("type_", TYPES, ids=lambda type_: type_.__name__)
def test_layers_may_be_joined_in_any_grouping(type_: type[ColocationStrategy]) -> None:
    @settings(max_examples=40, deadline=None)
    @given(structs(type_), structs(type_), structs(type_))
    def holds(a: ColocationStrategy, b: ColocationStrategy, c: ColocationStrategy) -> None:
        assert overlay(overlay(a, b), c) == overlay(a, overlay(b, c))

    holds()
