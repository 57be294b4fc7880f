"""Which slo-controller-config is refused, and why."""

from __future__ import annotations

import json
from typing import Any

import pytest

from koord.api.configuration.slo_config_check import judge


def config_map(**sections: Any) -> dict[str, str]:
    return {key.replace("_", "-"): json.dumps(value) for key, value in sections.items()}


def pool(value: str, **fields: Any) -> dict[str, Any]:
    return {"nodeSelector": {"matchLabels": {"pool": value}}, **fields}


def paths(data: dict[str, str], **options: Any) -> list[str]:
    return [fault.path for fault in judge(data, **options).faults]


def colocation(**fields: Any) -> dict[str, str]:
    return config_map(colocation_config=fields)


def cluster(key: str, **fields: Any) -> dict[str, str]:
    return {key: json.dumps({"clusterStrategy": fields})}


MONTH_S = 30 * 24 * 3600

# key, field, values that pass, values that are refused: the protocol's ranges.
RANGES: list[tuple[str, str, list[Any], list[Any]]] = [
    ("colocation-config", "metricAggregateDurationSeconds", [1, 300, MONTH_S], [0, -1, MONTH_S + 1]),
    ("colocation-config", "metricReportIntervalSeconds", [1, MONTH_S], [0, 10**12]),
    ("colocation-config", "cpuReclaimThresholdPercent", [0, 60, 100, 150, 200], [-1, 201, 100_000, 10**12]),
    ("colocation-config", "memoryReclaimThresholdPercent", [0, 150], [-1, 201]),
    ("colocation-config", "cpuCalculatePolicy", ["usage", "maxUsageRequest"], ["request", "x"]),
    ("colocation-config", "memoryCalculatePolicy", ["usage", "request", "maxUsageRequest"], ["x"]),
    ("colocation-config", "degradeTimeMinutes", [1, MONTH_S // 60], [0, MONTH_S // 60 + 1]),
    ("colocation-config", "updateTimeThresholdSeconds", [1, MONTH_S], [0, 10**12]),
    ("colocation-config", "resourceDiffThreshold", [0.1, 1], [0, 1.1]),
    ("colocation-config", "midReclaimMode", ["static"], ["dynamo"]),
    ("colocation-config", "midCPUThresholdPercent", [0, 100], [-1, 101]),
    ("colocation-config", "midMemoryThresholdPercent", [0, 100], [-1, 101]),
    ("colocation-config", "midUnallocatedPercent", [0, 100], [-1, 101]),
    ("colocation-config", "midStaticCPUReservedPercent", [0, 100], [-1, 101]),
    ("colocation-config", "midStaticMemoryReservedPercent", [0, 100], [-1, 101]),
    ("colocation-config", "batchCPUThresholdPercent", [0, 200], [-1, 201]),
    ("colocation-config", "batchMemoryThresholdPercent", [0, 200], [-1, 201]),
    ("resource-threshold-config", "cpuSuppressThresholdPercent", [0, 100], [-1, 101]),
    ("resource-threshold-config", "cpuSuppressMinPercent", [0, 100], [-1, 101]),
    ("resource-threshold-config", "cpuSuppressPolicy", ["cpuset", "cfsQuota"], ["x"]),
    ("resource-threshold-config", "memoryEvictThresholdPercent", [0, 100], [-1, 101]),
    ("resource-threshold-config", "cpuEvictBEUsageThresholdPercent", [0, 100], [-1, 101]),
    ("resource-threshold-config", "cpuEvictTimeWindowSeconds", [1], [0]),
    ("resource-threshold-config", "memoryAllocatableEvictThresholdPercent", [0, 110], [-1]),
    ("resource-threshold-config", "allocatableEvictPriorityThreshold", [0, 7999], [-1, 8000]),
    ("cpu-burst-config", "policy", ["none", "cpuBurstOnly", "cfsQuotaBurstOnly", "auto"], ["x"]),
    ("cpu-burst-config", "cpuBurstPercent", [1, 10000], [0, 10001]),
    ("cpu-burst-config", "cfsQuotaBurstPercent", [100, 300], [99]),
    ("cpu-burst-config", "cfsQuotaBurstPeriodSeconds", [-1, 0], [-2]),
    ("cpu-burst-config", "sharePoolThresholdPercent", [0, 100], [-1, 101]),
    ("system-config", "minFreeKbytesFactor", [1], [0]),
    ("system-config", "watermarkScaleFactor", [1, 400], [0, 401]),
    ("system-config", "memcgReapBackGround", [0, 1], [2]),
    ("system-config", "totalNetworkBandwidth", ["10G", 0], ["fast"]),
    ("cpu-normalization-config", "defaultRatio", [1.0, 5.0], [0.9, 5.1]),
]


@pytest.mark.parametrize(
    ("key", "field", "good", "bad"), RANGES, ids=lambda value: value if isinstance(value, str) else ""
)
def test_ranges(key: str, field: str, good: list[Any], bad: list[Any]) -> None:
    inline = key in ("colocation-config", "cpu-normalization-config")
    where = f"{key}.{field}" if inline else f"{key}.clusterStrategy.{field}"

    def written(value: Any) -> dict[str, str]:
        return {key: json.dumps({field: value} if inline else {"clusterStrategy": {field: value}})}

    for value in good:
        assert paths(written(value)) == []
    for value in bad:
        assert paths(written(value)) == [where]


QOS_RANGES: list[tuple[str, list[int], list[int]]] = [
    ("cpuQOS.groupIdentity", [-1, 2], [-2, 3]),
    ("cpuQOS.schedIdle", [0, 1], [2]),
    ("memoryQOS.minLimitPercent", [0, 100], [101]),
    ("memoryQOS.wmarkRatio", [0, 100], [-1, 101]),
    ("memoryQOS.wmarkScalePermill", [1, 1000], [0, 1001]),
    ("memoryQOS.wmarkMinAdj", [-25, 50], [-26, 51]),
    ("memoryQOS.priority", [0, 12], [13]),
    ("resctrlQOS.mbaPercent", [0, 100], [101]),
]


@pytest.mark.parametrize(("path", "good", "bad"), QOS_RANGES, ids=lambda value: value if isinstance(value, str) else "")
def test_ranges_of_qos_classes(path: str, good: list[int], bad: list[int]) -> None:
    part, field = path.split(".")
    for value in good:
        assert paths(cluster("resource-qos-config", beClass={part: {field: value}})) == []
    for value in bad:
        found = paths(cluster("resource-qos-config", beClass={part: {field: value}}))
        assert found == [f"resource-qos-config.clusterStrategy.beClass.{path}"]


@pytest.mark.parametrize(
    ("lower", "upper"),
    [
        ("memoryEvictLowerPercent", "memoryEvictThresholdPercent"),
        ("cpuEvictLowerPercent", "cpuEvictThresholdPercent"),
        ("cpuEvictBESatisfactionLowerPercent", "cpuEvictBESatisfactionUpperPercent"),
        ("memoryAllocatableEvictLowerPercent", "memoryAllocatableEvictThresholdPercent"),
        ("cpuAllocatableEvictLowerPercent", "cpuAllocatableEvictThresholdPercent"),
    ],
)
def test_every_lower_bound_is_below_its_threshold(lower: str, upper: str) -> None:
    key = "resource-threshold-config"
    assert paths(cluster(key, **{lower: 60, upper: 61})) == []
    refused = judge(cluster(key, **{lower: 61, upper: 61})).faults
    assert [fault.path for fault in refused] == [f"{key}.clusterStrategy.{lower}"]
    assert upper in refused[0].message


def test_a_threshold_alone_is_fine() -> None:
    assert paths(cluster("resource-threshold-config", memoryEvictThresholdPercent=60)) == []


def test_a_lower_bound_is_held_against_the_threshold_that_results_for_the_node() -> None:
    item = pool("a", memoryEvictLowerPercent=75)
    assert paths(config_map(resource_threshold_config={"nodeStrategies": [item]})) == [
        "resource-threshold-config.nodeStrategies[0].memoryEvictLowerPercent"
    ]
    above = {"clusterStrategy": {"memoryEvictThresholdPercent": 80}, "nodeStrategies": [item]}
    assert paths(config_map(resource_threshold_config=above)) == []


def test_the_cache_range_starts_before_it_ends() -> None:
    cache = {"catRangeStartPercent": 30, "catRangeEndPercent": 30}
    assert paths(cluster("resource-qos-config", beClass={"resctrlQOS": cache})) == [
        "resource-qos-config.clusterStrategy.beClass.resctrlQOS.catRangeStartPercent"
    ]


def network(**requests: Any) -> dict[str, Any]:
    return {name: {"networkQOS": {"ingressRequest": value}} for name, value in requests.items()}


@pytest.mark.parametrize(
    ("requests", "bandwidth", "passes"),
    [
        ({"lsClass": 60, "beClass": 40}, None, True),
        ({"lsClass": 60, "beClass": 41}, None, False),
        ({"lsClass": "6M", "beClass": "4M"}, "10M", True),
        ({"lsClass": "6M", "beClass": "5M"}, "10M", False),
        ({"lsClass": "6M", "beClass": "5M"}, None, True),  # what exists is unknown
        ({"lsClass": "6M", "beClass": 40}, "10M", False),
        ({"beClass": 101}, None, False),
        ({"beClass": "fast"}, None, False),
    ],
)
def test_network_requests_fit_into_what_there_is(requests: dict[str, Any], bandwidth: str | None, passes: bool) -> None:
    data = cluster("resource-qos-config", **network(**requests))
    if bandwidth is not None:
        data |= cluster("system-config", totalNetworkBandwidth=bandwidth)
    assert (paths(data) == []) is passes


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"egressRequest": 30, "egressLimit": 20}, "egressLimit: must not be below egressRequest (30), as 20 is"),
        ({"egressRequest": "3G", "egressLimit": "2G"}, "egressLimit: must not be below egressRequest (3G), as 2G is"),
        ({"egressRequest": 30, "egressLimit": "2G"}, "egressLimit: must not be below egressRequest (30), as 2G is"),
        ({"ingressRequest": "3G", "ingressLimit": 20}, "ingressLimit: must not be below ingressRequest (3G), as 20 is"),
        ({"egressLimit": 0}, "egressLimit: must not be 0"),
        ({"ingressLimit": "0"}, "ingressLimit: must not be 0"),
        ({"egressLimit": "-5M"}, "egressLimit: must be at least 0"),
        ({"egressRequest": 30, "egressLimit": 30}, ""),
        ({"egressRequest": 30, "egressLimit": "4G"}, ""),
        ({"egressRequest": 0, "egressLimit": 40}, ""),
        ({"enable": False, "egressRequest": 0, "egressLimit": 0}, ""),
    ],
)
def test_a_network_limit_is_above_zero_and_not_below_its_request(settings: dict[str, Any], told: str) -> None:
    data = cluster("resource-qos-config", beClass={"networkQOS": {"enable": True, **settings}})
    data |= cluster("system-config", totalNetworkBandwidth="10G")
    faults = [str(fault) for fault in judge(data).faults]
    assert len(faults) == bool(told)
    assert all(fault.startswith(f"resource-qos-config.clusterStrategy.beClass.networkQOS.{told}") for fault in faults)


def test_a_network_limit_is_held_against_the_request_that_results_for_the_node() -> None:
    cluster_wide = {"beClass": {"networkQOS": {"enable": True, "egressRequest": 30, "egressLimit": 40}}}
    item = pool("a", beClass={"networkQOS": {"egressLimit": 20}})
    section = {"clusterStrategy": cluster_wide, "nodeStrategies": [item]}
    assert paths(config_map(resource_qos_config=section)) == [
        "resource-qos-config.nodeStrategies[0].beClass.networkQOS.egressLimit"
    ]


def test_amplification_below_one_is_refused() -> None:
    data = config_map(resource_amplification_config={"resourceAmplificationRatio": {"cpu": 0.9, "memory": 1}})
    assert paths(data) == ["resource-amplification-config.resourceAmplificationRatio[cpu]"]


@pytest.mark.parametrize("selector", [None, {}, {"matchLabels": {}}])
def test_a_selector_must_say_something(selector: Any) -> None:
    data = colocation(nodeConfigs=[{"nodeSelector": selector}])
    assert paths(data) == ["colocation-config.nodeConfigs[0].nodeSelector"]


def test_a_selector_must_make_sense() -> None:
    selector = {"matchExpressions": [{"key": "pool", "operator": "In", "values": []}]}
    data = colocation(nodeConfigs=[{"nodeSelector": selector}])
    assert paths(data) == ["colocation-config.nodeConfigs[0].nodeSelector.matchExpressions[0].values"]


def test_names_matter_only_where_that_is_switched_on() -> None:
    items = [pool("a", name="x"), pool("b", name="x"), pool("c")]
    assert paths(colocation(nodeConfigs=items)) == []
    assert paths(colocation(nodeConfigs=items), names_required=True) == [
        "colocation-config.nodeConfigs[1].name",
        "colocation-config.nodeConfigs[2].name",
    ]


def exists(key: str) -> dict[str, Any]:
    return {"nodeSelector": {"matchExpressions": [{"key": key, "operator": "Exists"}]}}


def one_of(key: str, *values: str) -> dict[str, Any]:
    return {"nodeSelector": {"matchExpressions": [{"key": key, "operator": "In", "values": list(values)}]}}


@pytest.mark.parametrize(
    ("first", "second", "overlap"),
    [
        (pool("a"), pool("b"), False),
        (pool("a"), pool("a"), True),
        (pool("a"), {"nodeSelector": {"matchLabels": {"pool": "a", "zone": "z"}}}, True),
        (pool("a"), {"nodeSelector": {"matchLabels": {"zone": "z"}}}, False),  # no node need have both
        (one_of("pool", "a", "b"), one_of("pool", "b", "c"), True),
        (one_of("pool", "a", "b"), one_of("pool", "c"), False),
        (exists("pool"), pool("a"), True),
        (exists("pool"), exists("pool"), True),
    ],
)
def test_selectors_of_one_key_do_not_overlap(first: dict[str, Any], second: dict[str, Any], overlap: bool) -> None:
    refusals = judge(colocation(nodeConfigs=[first, second])).refusals
    assert [refusal.reason for refusal in refusals] == (["NodeStrategiesOverlap"] if overlap else [])
    if overlap:
        assert refusals[0].fault.path == "colocation-config.nodeConfigs[1].nodeSelector"
        assert "nodeConfigs[0]" in refusals[0].fault.message


def test_no_existing_node_is_picked_twice() -> None:
    items = [pool("a", name="by-pool"), {"nodeSelector": {"matchLabels": {"zone": "z"}}}]
    nodes = {"n1": {"pool": "a"}, "n2": {"pool": "a", "zone": "z"}}
    refusals = judge(colocation(nodeConfigs=items), nodes=nodes).refusals
    assert [refusal.reason for refusal in refusals] == ["ExistNodeConfict"]
    assert "n2" in refusals[0].fault.message
    assert "by-pool" in refusals[0].fault.message


def test_only_what_changed_is_judged() -> None:
    bad = colocation(degradeTimeMinutes=0)
    assert paths(bad) != []
    assert paths(bad, old=bad) == []
    assert paths({**bad, "system-config": "{"}, old=bad) == ["system-config"]
    assert paths({"colocation-config": ""}) == []


def test_text_that_is_no_json_has_a_reason_of_its_own() -> None:
    assert [refusal.reason for refusal in judge({"system-config": "{"}).refusals] == ["ParseConfigFail"]


def test_a_misspelt_field_is_a_warning_with_a_suggestion() -> None:
    verdict = judge(colocation(enabled=True))
    assert verdict.refusals == ()
    assert [str(fault) for fault in verdict.warnings] == [
        "colocation-config.enabled: unknown field (did you mean enable?)"
    ]


def test_all_faults_of_all_keys_come_at_once() -> None:
    data = {
        **config_map(
            colocation_config={
                "degradeTimeMinutes": 0,
                "cpuCalculatePolicy": "x",
                "nodeConfigs": [pool("a", midUnallocatedPercent=101), pool("a"), {"name": "z"}],
            },
            resource_threshold_config={
                "clusterStrategy": {"cpuSuppressThresholdPercent": 200, "memoryEvictLowerPercent": 90}
            },
            cpu_burst_config={"clusterStrategy": {"policy": 3}, "nodeStrategies": [{"cpuBurstPercent": 0}]},
        ),
        "system-config": "nope",
    }
    assert set(paths(data)) == {
        "colocation-config.degradeTimeMinutes",
        "colocation-config.cpuCalculatePolicy",
        "colocation-config.nodeConfigs[0].midUnallocatedPercent",
        "colocation-config.nodeConfigs[1].nodeSelector",
        "colocation-config.nodeConfigs[2].nodeSelector",
        "resource-threshold-config.clusterStrategy.cpuSuppressThresholdPercent",
        "resource-threshold-config.clusterStrategy.memoryEvictLowerPercent",
        "cpu-burst-config.clusterStrategy.policy",
        "cpu-burst-config.nodeStrategies[0].cpuBurstPercent",
        "cpu-burst-config.nodeStrategies[0].nodeSelector",
        "system-config",
    }


def test_settings_that_the_policy_does_not_read_are_warned_of() -> None:
    section = {
        "cpuCalculatePolicy": "adaptive",
        "cpuReclaimThresholdPercent": 60,
        "memoryReclaimThresholdPercent": 65,
        "nodeConfigs": [
            {"nodeSelector": {"matchLabels": {"a": "b"}}, "cpuCalculatePolicy": "usage", "cpuSafetyMarkPercent": 80}
        ],
    }
    verdict = judge({"colocation-config": json.dumps(section)})
    assert not verdict.refusals
    assert [str(warning) for warning in verdict.warnings] == [
        "colocation-config.cpuReclaimThresholdPercent: has no effect with cpuCalculatePolicy adaptive",
        "colocation-config.nodeConfigs[0].cpuSafetyMarkPercent: has no effect without cpuCalculatePolicy adaptive",
    ]


def test_a_safety_mark_is_a_percentage_above_nothing() -> None:
    for mark in (0, 101, "85"):
        section = {"cpuCalculatePolicy": "adaptive", "cpuSafetyMarkPercent": mark}
        (refusal,) = judge({"colocation-config": json.dumps(section)}).refusals
        assert "cpuSafetyMarkPercent" in str(refusal.fault)
