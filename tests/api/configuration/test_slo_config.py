"""slo-controller-config: layers, changes at run time, writing back."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from msgspec.structs import replace

from koord.api.configuration import slo_defaults
from koord.api.configuration.slo_config import SloConfig, parse, reload
from koord.api.configuration.slo_config_types import COLOCATION_DEFAULTS, ColocationConfig
from koord.api.machinery.codec import encode
from koord.api.machinery.faults import Invalid
from koord.api.protocol import names
from tests.api.config_strategies import structs


def config_map(**sections: Any) -> dict[str, str]:
    return {key.replace("_", "-"): json.dumps(value) for key, value in sections.items()}


def pool(value: str, **fields: Any) -> dict[str, Any]:
    return {"nodeSelector": {"matchLabels": {"pool": value}}, **fields}


COLOCATION_TABLE = {
    "enable": False,
    "metricAggregateDurationSeconds": 300,
    "metricReportIntervalSeconds": 60,
    "metricAggregatePolicy": {"durations": ["5m0s", "10m0s", "30m0s"]},
    "metricMemoryCollectPolicy": "usageWithoutPageCache",
    "cpuReclaimThresholdPercent": 60,
    "memoryReclaimThresholdPercent": 65,
    "cpuCalculatePolicy": "usage",
    "cpuSafetyMarkPercent": 85,
    "memoryCalculatePolicy": "usage",
    "degradeTimeMinutes": 15,
    "updateTimeThresholdSeconds": 300,
    "resourceDiffThreshold": 0.1,
    "midCPUThresholdPercent": 100,
    "midMemoryThresholdPercent": 100,
    "midUnallocatedPercent": 0,
    "midStaticCPUReservedPercent": 0,
    "midStaticMemoryReservedPercent": 0,
}


def test_the_defaults_of_colocation() -> None:
    assert json.loads(encode(COLOCATION_DEFAULTS)) == COLOCATION_TABLE


def test_an_empty_map_means_the_defaults() -> None:
    settings_ = parse({}).for_node({}, {})
    assert settings_.colocation == COLOCATION_DEFAULTS
    assert settings_.node_slo == slo_defaults.default_node_slo()
    assert settings_.cpu_normalization.enable is False
    assert settings_.resource_amplification.enable is False


def test_default_then_cluster_then_item_then_annotation_then_label() -> None:
    config = parse(
        config_map(
            colocation_config={
                "enable": True,
                "cpuReclaimThresholdPercent": 61,
                "memoryReclaimThresholdPercent": 71,
                "degradeTimeMinutes": 11,
                "midUnallocatedPercent": 1,
                "nodeConfigs": [
                    pool("a", memoryReclaimThresholdPercent=72, cpuReclaimThresholdPercent=62, midUnallocatedPercent=2)
                ],
            }
        )
    )
    annotations: dict[str, str] = {
        names.ANNOTATION_COLOCATION_STRATEGY: '{"cpuReclaimThresholdPercent":63,"midUnallocatedPercent":3}'
    }
    labels = {"pool": "a", names.LABEL_CPU_RECLAIM_RATIO: "0.8"}
    colocation = config.for_node(labels, annotations).colocation
    assert colocation.metric_report_interval_seconds == 60  # default
    assert colocation.degrade_time_minutes == 11  # cluster
    assert colocation.memory_reclaim_threshold_percent == 72  # item
    assert colocation.mid_unallocated_percent == 3  # annotation
    assert colocation.cpu_reclaim_threshold_percent == 80  # label


@pytest.mark.parametrize(
    ("text", "percent"),
    [("0.8", 80), ("0", 0), ("1.5", 150), ("0.57", 56), ("-0.1", None), ("x", None), ("1e400", None), ("nan", None)],
)
def test_a_ratio_label_is_cut_to_whole_percent_and_ignored_where_it_is_no_ratio(text: str, percent: int | None) -> None:
    colocation = parse({}).for_node({names.LABEL_CPU_RECLAIM_RATIO: text}, {}).colocation
    assert colocation.cpu_reclaim_threshold_percent == (60 if percent is None else percent)


@pytest.mark.parametrize("annotation", ["{", "[]", '{"cpuReclaimThresholdPercent":"x"}'])
def test_a_bad_annotation_is_ignored(annotation: str) -> None:
    settings_ = parse({}).for_node({}, {names.ANNOTATION_COLOCATION_STRATEGY: annotation})
    assert settings_.colocation == COLOCATION_DEFAULTS


def test_the_first_matching_item_wins() -> None:
    items = [pool("b", cpuSuppressThresholdPercent=50), pool("a", cpuSuppressThresholdPercent=60)]
    items += [pool("a", cpuSuppressThresholdPercent=70, memoryEvictThresholdPercent=80)]
    config = parse(config_map(resource_threshold_config={"nodeStrategies": items}))
    strategy = config.for_node({"pool": "a"}, {}).node_slo.resource_used_threshold_with_be
    assert strategy is not None
    assert (strategy.cpu_suppress_threshold_percent, strategy.memory_evict_threshold_percent) == (60, 70)


@pytest.mark.parametrize(
    ("selector", "picked"),
    [
        ({}, False),  # no selector at all
        ({"nodeSelector": None}, False),
        ({"nodeSelector": {}}, True),
        ({"nodeSelector": {"matchExpressions": [{"key": "pool", "operator": "In", "values": []}]}}, False),
    ],
)
def test_which_nodes_a_selector_picks(selector: dict[str, Any], picked: bool) -> None:
    config = parse(config_map(cpu_burst_config={"nodeStrategies": [{"policy": "auto", **selector}]}))
    burst = config.for_node({"pool": "a"}, {}).node_slo.cpu_burst_strategy
    assert burst is not None
    assert burst.policy == ("auto" if picked else "none")


def test_host_applications_of_a_node_replace_those_of_the_cluster() -> None:
    config = parse(
        config_map(
            host_application_config={
                "applications": [{"name": "a"}, {"name": "b"}],
                "nodeConfigs": [pool("x", applications=[{"name": "c"}]), pool("y")],
            }
        )
    )

    def names_on(value: str) -> list[str]:
        return [app.name for app in config.for_node({"pool": value}, {}).node_slo.host_applications]

    assert names_on("x") == ["c"]
    assert names_on("y") == []
    assert names_on("z") == ["a", "b"]


def test_a_node_may_say_its_bandwidth() -> None:
    config = parse(config_map(system_config={"clusterStrategy": {"minFreeKbytesFactor": 100}}))
    own = config.for_node({}, {names.ANNOTATION_NETWORK_BANDWIDTH: "10G"}).node_slo.system_strategy
    assert own is not None
    assert (own.total_network_bandwidth, own.min_free_kbytes_factor) == ("10G", 100)
    assert config.for_node({}, {names.ANNOTATION_NETWORK_BANDWIDTH: "fast"}).node_slo.system_strategy is None


def test_layers_are_named_as_users_know_them() -> None:
    config = parse(
        config_map(
            colocation_config={"enable": True, "nodeConfigs": [pool("b"), pool("a", degradeTimeMinutes=3)]},
            resource_threshold_config={"clusterStrategy": {"enable": True}, "nodeStrategies": [pool("a")]},
        )
    )
    settings_ = config.for_node({"pool": "a", names.LABEL_CPU_RECLAIM_RATIO: "0.5"}, {})
    assert [layer.where for layer in settings_.colocation_layers] == [
        "colocation-config",
        "colocation-config.nodeConfigs[1]",
        f"node label {names.LABEL_CPU_RECLAIM_RATIO}",
    ]
    assert [layer.where for layer in settings_.threshold_layers] == [
        "resource-threshold-config.clusterStrategy",
        "resource-threshold-config.nodeStrategies[0]",
    ]


def test_parse_reports_the_faults_of_all_sections_with_their_paths() -> None:
    data = config_map(
        colocation_config={
            "metricReportIntervalSeconds": 0,
            "nodeConfigs": [pool("a"), pool("b", cpuReclaimThresholdPercent=-1)],
        },
        resource_threshold_config={"clusterStrategy": {"cpuSuppressThresholdPercent": 101}},
        resource_qos_config={"clusterStrategy": {"beClass": {"cpuQOS": {"groupIdentity": 3}}}},
    )
    data["cpu-burst-config"] = "{"
    with pytest.raises(Invalid) as caught:
        parse(data)
    assert [fault.path for fault in caught.value.faults] == [
        "colocation-config.metricReportIntervalSeconds",
        "colocation-config.nodeConfigs[1].cpuReclaimThresholdPercent",
        "resource-threshold-config.clusterStrategy.cpuSuppressThresholdPercent",
        "resource-qos-config.clusterStrategy.beClass.cpuQOS.groupIdentity",
        "cpu-burst-config",
    ]


def test_without_a_map_the_defaults_hold_and_node_metrics_freeze() -> None:
    config, problems = reload(parse(config_map(colocation_config={"enable": True})), None)
    assert config == SloConfig(colocation_state="stale")
    assert problems == ()


def test_a_key_that_goes_away_means_its_defaults() -> None:
    old = parse(
        config_map(colocation_config={"enable": True}, cpu_burst_config={"clusterStrategy": {"policy": "auto"}})
    )
    assert reload(old, {"colocation-config": ""}) == (SloConfig(), ())


BAD_JSON = {
    "colocation-config": "ColocationCfgUnmarshalFailed",
    "resource-threshold-config": "SLOCfgUnmarshalFailed",
    "resource-qos-config": "SLOCfgUnmarshalFailed",
    "cpu-burst-config": "SLOCfgUnmarshalFailed",
    "system-config": "SLOCfgUnmarshalFailed",
    "host-application-config": "SLOCfgUnmarshalFailed",
    "cpu-normalization-config": "CPUNormalizationCfgUnmarshalFailed",
    "resource-amplification-config": "ResourceAmplificationCfgUnmarshalFailed",
}


@pytest.mark.parametrize("key", BAD_JSON)
def test_bad_json_keeps_the_old_value_of_its_key_only(key: str) -> None:
    good = config_map(
        colocation_config={"enable": True},
        resource_threshold_config={"clusterStrategy": {"enable": True}},
        resource_qos_config={"clusterStrategy": {"beClass": {"cpuQOS": {"enable": True}}}},
        cpu_burst_config={"clusterStrategy": {"policy": "auto"}},
        system_config={"clusterStrategy": {"watermarkScaleFactor": 150}},
        host_application_config={"applications": [{"name": "a"}]},
        cpu_normalization_config={"enable": True, "defaultRatio": 1.5},
        resource_amplification_config={"enable": True, "resourceAmplificationRatio": {"cpu": 2}},
    )
    old = parse(good)
    new, problems = reload(old, {**good, key: "{not json"})
    kept = old if key != "colocation-config" else replace(old, colocation_state="stale")
    assert new == kept
    assert [(problem.key, problem.kind, problem.event_reason) for problem in problems] == [
        (key, "unparsable", BAD_JSON[key])
    ]


def test_colocation_that_is_bad_at_start_up_is_unavailable_until_it_is_good() -> None:
    bad = {"colocation-config": "{"}
    first, _ = reload(None, bad)
    assert first.colocation_state == "unavailable"
    second, _ = reload(first, bad)
    assert second.colocation_state == "unavailable"
    third, _ = reload(second, {"colocation-config": "{}"})
    assert third.colocation_state == "current"


def test_an_invalid_cluster_setting_keeps_the_old_section() -> None:
    old = parse(config_map(colocation_config={"enable": True}))
    new, problems = reload(old, config_map(colocation_config={"enable": False, "degradeTimeMinutes": 0}))
    assert new.colocation == ColocationConfig(enable=True)
    assert new.colocation_state == "stale"
    assert [problem.kind for problem in problems] == ["invalid"]
    assert "colocation-config.degradeTimeMinutes" in str(problems[0])


def test_an_invalid_item_gives_its_nodes_the_values_of_the_cluster() -> None:
    items = [pool("a", cpuReclaimThresholdPercent=-1, degradeTimeMinutes=3), pool("a", degradeTimeMinutes=4)]
    data = config_map(colocation_config={"enable": True, "cpuReclaimThresholdPercent": 61, "nodeConfigs": items})
    new, problems = reload(None, data)
    colocation = new.for_node({"pool": "a"}, {}).colocation
    assert (colocation.cpu_reclaim_threshold_percent, colocation.degrade_time_minutes) == (61, 15)
    assert new.colocation_state == "current"
    assert [problem.kind for problem in problems] == ["invalid-item"]


def test_an_item_whose_selector_is_wrong_picks_no_node() -> None:
    bad = {"nodeSelector": {"matchExpressions": [{"key": "pool", "operator": "Near"}]}, "degradeTimeMinutes": 3}
    data = config_map(colocation_config={"nodeConfigs": [bad, pool("a", degradeTimeMinutes=4)]})
    new, problems = reload(None, data)
    assert new.for_node({"pool": "a"}, {}).colocation.degrade_time_minutes == 4
    assert len(problems) == 1


def test_unknown_fields_do_not_stop_a_running_manager() -> None:
    new, problems = reload(None, config_map(colocation_config={"enable": True, "fromTheFuture": 1}))
    assert new.colocation.enable is True
    assert problems == ()


def test_conflicts_of_a_node_are_its_matching_items() -> None:
    config = parse(
        config_map(colocation_config={"nodeConfigs": [pool("a"), pool("b"), {"nodeSelector": {}}]}, system_config={})
    )
    matching = config.matching_items({"pool": "a"})
    assert matching["colocation-config"] == (0, 2)
    assert matching["system-config"] == ()


@settings(max_examples=60, deadline=None)
@given(structs(SloConfig))
def test_what_is_written_reads_back_the_same(config: SloConfig) -> None:
    written = replace(config, colocation_state="current")
    again = parse(written.manifest_data())
    assert again == written
    assert again.manifest_data() == written.manifest_data()


@settings(max_examples=40, deadline=None)
@given(structs(SloConfig))
def test_reloading_good_data_is_parsing_it(config: SloConfig) -> None:
    data = replace(config, colocation_state="current").manifest_data()
    assert reload(None, data) == (parse(data), ())
    assert reload(config, data) == (parse(data), ())
