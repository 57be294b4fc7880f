"""NodeMetric, NodeSLO and the quotas of profiles: what their specs should be."""

from __future__ import annotations

import json
from typing import Any

import pytest

from koord.api.configuration.slo_config import reload
from koord.api.configuration.slo_defaults import default_node_slo
from koord.api.kubernetes.node import Node
from koord.api.machinery.codec import convert
from koord.api.protocol.annotations.quota import default_tree_id
from koord.api.protocol.crd.elastic_quota import ElasticQuota, ElasticQuotaProfile
from koord.api.protocol.crd.node_metric import NodeMetricCollectPolicy, NodeMetricSpec
from koord.api.text.selector import SelectorError
from koord.manager import node_metric, node_slo
from koord.manager.node_slo import merge_patch, spec_patch
from koord.manager.quota_profile import NodePart, node_part, wanted_quota
from tests.manager.builders import config, config_of

DEFAULT = NodeMetricCollectPolicy(300, 60)


@pytest.mark.parametrize(
    ("given", "aggregate_s", "report_s"),
    [
        ({"metricReportIntervalSeconds": 20}, 300, 20),
        ({"metricAggregateDurationSeconds": 60}, 60, 60),
        ({"enable": False, "metricReportIntervalSeconds": 20}, 300, 60),
        ({"nodeConfigs": [{"nodeSelector": {"matchLabels": {"a": "b"}}, "metricReportIntervalSeconds": 7}]}, 300, 7),
        ({"nodeConfigs": [{"nodeSelector": {"matchLabels": {"a": "c"}}, "metricReportIntervalSeconds": 7}]}, 300, 60),
    ],
)
def test_a_node_measures_as_its_strategy_says_where_that_is_on(
    given: dict[str, Any], aggregate_s: int, report_s: int
) -> None:
    slo = config(**given)
    spec = node_metric.wanted_spec(slo, slo.for_node({"a": "b"}, {}).colocation, None)
    policy = spec.metric_collect_policy
    assert policy is not None
    assert (policy.aggregate_duration_seconds, policy.report_interval_seconds) == (aggregate_s, report_s)
    assert policy.node_memory_collect_policy == "usageWithoutPageCache"
    assert policy.node_aggregate_policy is not None
    assert policy.node_aggregate_policy.durations == ("5m0s", "10m0s", "30m0s")


def test_while_the_configuration_cannot_be_read_a_spec_that_exists_stays() -> None:
    good = config(metricReportIntervalSeconds=20)
    bad, problems = reload(good, {"colocation-config": "{"})
    assert problems
    present = NodeMetricSpec(NodeMetricCollectPolicy(report_interval_seconds=5))
    strategy = bad.for_node({}, {}).colocation
    assert node_metric.wanted_spec(bad, strategy, present) is present
    fresh = node_metric.wanted_spec(bad, strategy, None).metric_collect_policy
    assert fresh is not None
    assert fresh.report_interval_seconds == 20


def test_a_node_slo_is_the_defaults_where_nothing_is_said() -> None:
    assert node_slo.wanted_spec(config().for_node({}, {})) == default_node_slo()


def test_a_setting_that_was_taken_out_goes_from_the_node_slo() -> None:
    on = config_of({"resource-threshold-config": {"clusterStrategy": {"enable": True, "cpuEvictThresholdPercent": 80}}})
    off = config_of({})
    before, after = (node_slo.wanted_spec(slo_config.for_node({}, {})) for slo_config in (on, off))
    patch = spec_patch(before, after)
    assert patch is not None
    assert patch["resourceUsedThresholdWithBE"] == {"enable": False, "cpuEvictThresholdPercent": None}
    assert spec_patch(after, after) is None


def test_host_applications_of_a_node_replace_those_of_the_cluster() -> None:
    slo = config_of(
        {
            "host-application-config": {
                "applications": [{"name": "a"}],
                "nodeConfigs": [{"nodeSelector": {"matchLabels": {"x": "y"}}, "applications": [{"name": "b"}]}],
            }
        }
    )
    assert [
        application.name for application in node_slo.wanted_spec(slo.for_node({"x": "y"}, {})).host_applications
    ] == ["b"]
    assert [application.name for application in node_slo.wanted_spec(slo.for_node({}, {})).host_applications] == ["a"]


@pytest.mark.parametrize(
    ("old", "new", "patch"),
    [
        ({}, {}, {}),
        ({"a": 1}, {"a": 1}, {}),
        ({"a": 1}, {}, {"a": None}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1}}, {"a": {"c": None}}),
        ({"a": [1]}, {"a": [1, 2]}, {"a": [1, 2]}),
        ({}, {"a": {}}, {"a": {}}),
    ],
)
def test_a_merge_patch_leads_from_one_object_to_the_other(old: Any, new: Any, patch: Any) -> None:
    assert merge_patch(old, new) == patch


def _node(name: str, labels: dict[str, str], ready: bool = True, cordoned: bool = False) -> NodePart:
    node = convert(
        Node,
        {
            "metadata": {"name": name, "labels": labels},
            "spec": {"unschedulable": cordoned},
            "status": {
                "allocatable": {"cpu": "10", "memory": "20Gi", "nvidia.com/gpu": "3"},
                "conditions": [{"type": "Ready", "status": "True" if ready else "Unknown"}],
            },
        },
    )
    return node_part(node)


NODES = (
    _node("n1", {"pool": "a"}),
    _node("n2", {"pool": "a"}, ready=False),
    _node("n3", {"pool": "a"}, cordoned=True),
    _node("n4", {"pool": "b"}),
)


def profile(**given: Any) -> ElasticQuotaProfile:
    spec = {"quotaName": "root-a", "nodeSelector": {"matchLabels": {"pool": "a"}}, **given.pop("spec", {})}
    return convert(ElasticQuotaProfile, {"metadata": {"name": "a", "namespace": "kube-system", **given}, "spec": spec})


def test_a_profile_makes_a_quota_of_its_nodes() -> None:
    wanted = wanted_quota(profile(spec={"quotaLabels": {"team": "x"}}), NODES)
    assert wanted.min == {"cpu": "30", "memory": "60Gi"}
    assert wanted.max == {"cpu": "4611686018427387", "memory": "4611686018427387"}
    prefix = "quota.scheduling.koordinator.sh"
    assert wanted.labels == {
        f"{prefix}/profile": "a",
        "team": "x",
        f"{prefix}/tree-id": default_tree_id("kube-system", "a"),
        f"{prefix}/is-root": "true",
    }
    assert json.loads(wanted.annotations[f"{prefix}/total-resource"])["nvidia.com/gpu"] == "9"
    assert json.loads(wanted.annotations[f"{prefix}/unschedulable-resource"])["cpu"] == "20"


@pytest.mark.parametrize(
    ("ratio", "cpu"), [("0.9", "27"), ("1", "30"), ("0", "30"), ("1.1", "30"), ("much", "30"), ("0.333", "9990m")]
)
def test_a_ratio_from_0_to_1_scales_the_quota(ratio: str, cpu: str) -> None:
    assert wanted_quota(profile(spec={"resourceRatio": ratio}), NODES).min["cpu"] == cpu


def test_resource_keys_and_tree_ids_may_be_given() -> None:
    prefix = "quota.scheduling.koordinator.sh"
    wanted = wanted_quota(
        profile(
            annotations={f"{prefix}/resource-keys": '["cpu","nvidia.com/gpu","gone"]'},
            labels={f"{prefix}/tree-id": "t"},
        ),
        NODES,
    )
    assert wanted.min == {"cpu": "30", "nvidia.com/gpu": "9", "gone": "0"}
    assert wanted.labels[f"{prefix}/tree-id"] == "t"


def test_a_quota_that_is_as_wanted_is_recognised() -> None:
    wanted = wanted_quota(profile(), NODES)
    quota = convert(
        ElasticQuota,
        {
            "metadata": {"labels": {**wanted.labels, "own": "x"}, "annotations": dict(wanted.annotations)},
            "spec": {"min": {"cpu": "30000m", "memory": "60Gi"}, "max": dict(wanted.max)},
        },
    )
    assert wanted.is_in(quota)
    assert not wanted_quota(profile(spec={"resourceRatio": "0.5"}), NODES).is_in(quota)


@pytest.mark.parametrize("operator", ["In", "Near"])
def test_a_selector_that_makes_no_sense_is_refused(operator: str) -> None:
    bad = {"nodeSelector": {"matchExpressions": [{"key": "a", "operator": operator}]}}
    with pytest.raises(SelectorError):
        wanted_quota(profile(spec=bad), NODES)
