"""Arguments of scheduler plugins: the protocol's tables, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings

from koord.api.configuration.component_config import PluginArgs
from koord.api.configuration.scheduler_args import ARGS
from koord.api.configuration.scheduler_config import SchedulerProfile, parse
from koord.api.machinery.codec import encode
from koord.api.machinery.faults import Invalid, check
from tests.api.config_strategies import structs

MAX = str((2**63 - 1) // 5)

DEFAULTS: dict[str, dict[str, Any]] = {
    "LoadAwareScheduling": {
        "filterExpiredNodeMetrics": True,
        "nodeMetricExpirationSeconds": 180,
        "enableScheduleWhenNodeMetricsExpired": False,
        "resourceWeights": {"cpu": 1, "memory": 1},
        "dominantResourceWeight": 0,
        "usageThresholds": {"cpu": 65, "memory": 95},
        "prodUsageThresholds": {},
        "prodUsageIncludeSys": False,
        "scoreAccordingProdUsage": False,
        "estimator": "",
        "estimatedScalingFactors": {"cpu": 85, "memory": 70},
        "estimatedSecondsAfterPodScheduled": None,
        "estimatedSecondsAfterInitialized": None,
        "allowCustomizeEstimation": False,
        "aggregated": None,
        "supportedResources": [],
    },
    "NodeNUMAResource": {
        "defaultCPUBindPolicy": "FullPCPUs",
        "scoringStrategy.type": "LeastAllocated",
        "scoringStrategy.resources": [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}],
        "numaScoringStrategy.type": "LeastAllocated",
        "numaScoringStrategy.resources": [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}],
    },
    "Reservation": {
        "enablePreemption": False,
        "minCandidateNodesPercentage": 10,
        "minCandidateNodesAbsolute": 100,
        "controllerWorkers": 1,
        "gcDurationSeconds": 86400,
        "gcIntervalSeconds": 60,
        "disableGarbageCollection": False,
        "resyncIntervalSeconds": 60,
        "preAllocationConfig.enableClusterMode": False,
        "preAllocationConfig.clusterLabelKey": "pod.koordinator.sh/is-pre-allocatable",
        "preAllocationConfig.clusterPriorityAnnotationKey": "pod.koordinator.sh/pre-allocatable-priority",
        "preAllocationConfig.preferNoPreAllocatedPods": False,
        "ignoredResources": [],
        "ignoredResourceGroups": [],
        "reservationSelectorIndex.enabled": False,
    },
    "ElasticQuota": {
        "delayEvictTime": "2m0s",
        "revokePodInterval": "1s",
        "defaultQuotaGroupMax": {"cpu": MAX, "memory": MAX},
        "systemQuotaGroupMax": {"cpu": MAX, "memory": MAX},
        "quotaGroupNamespace": "koordinator-system",
        "monitorAllQuotas": False,
        "enableCheckParentQuota": False,
        "enableRuntimeQuota": True,
        "enableMinQuotaScale": True,
        "disableDefaultQuotaPreemption": True,
        "enableQueueHint": False,
        "quotaSnapshotUpdateInterval": "2m0s",
        "hookPlugins": [],
    },
    "Coscheduling": {
        "defaultTimeout": "10m0s",
        "controllerWorkers": 1,
        "skipCheckScheduleCycle": False,
        "enablePreemption": False,
        "awareNetworkTopology": False,
        "defaultMatchPolicy": "once-satisfied",
    },
    "DeviceShare": {
        "allocator": "",
        "scoringStrategy.type": "LeastAllocated",
        "scoringStrategy.resources": [
            {"name": f"koordinator.sh/{name}", "weight": 1}
            for name in ("gpu-memory-ratio", "gpu-memory", "rdma", "fpga")
        ],
        "disableDeviceNUMATopologyAlignment": False,
        "gpuSharedResourceTemplatesConfig.configMapNamespace": "koordinator-system",
        "gpuSharedResourceTemplatesConfig.configMapName": "gpu-shared-resource-templates",
        "gpuSharedResourceTemplatesConfig.matchedResources": ["huawei.com/npu-core"],
        "gpuShareUnsupportedModels": [],
    },
    "SchedulingHint": {"maxHintNodes": 100},
    "ScarceResourceAvoidance": {"resources": []},
    "NodeResourcesFitPlus": {"resources": {}},
    "NodeResourcesFit": {
        "scoringStrategy.type": "LeastAllocated",
        "scoringStrategy.resources": [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}],
    },
    "NodeResourcesBalancedAllocation": {"resources": [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}]},
    "InterPodAffinity": {"hardPodAffinityWeight": 1, "ignorePreferredTermsOfExistingPods": False},
    "PodTopologySpread": {"defaultConstraints": [], "defaultingType": "System"},
    "NodeAffinity": {"addedAffinity": None},
    "DefaultPreemption": {"minCandidateNodesPercentage": 10, "minCandidateNodesAbsolute": 100},
    "VolumeBinding": {"bindTimeoutSeconds": 600},
}


def whole(args: PluginArgs) -> dict[str, Any]:
    """Every field of the arguments by its JSON path, also those that are at their defaults."""
    found: dict[str, Any] = {}

    def walk(struct: Any, prefix: str) -> None:
        for name, json_name in zip(struct.__struct_fields__, struct.__struct_encode_fields__, strict=True):
            value = getattr(struct, name)
            if hasattr(value, "__struct_fields__"):
                walk(value, f"{prefix}{json_name}.")
            else:
                found[prefix + json_name] = weights(value) if isinstance(value, tuple) else value

    def weights(values: tuple[Any, ...]) -> list[Any]:
        return [{"name": v.name, "weight": v.weight} if hasattr(v, "weight") else v for v in values]

    walk(args, "")
    return found


@pytest.mark.parametrize("plugin", DEFAULTS)
def test_the_default_of_every_argument(plugin: str) -> None:
    effective = whole(ARGS[plugin]().completed())
    assert {path: effective[path] for path in DEFAULTS[plugin]} == DEFAULTS[plugin]


def read(plugin: str, **args: Any) -> PluginArgs:
    config = parse({"profiles": [{"pluginConfig": [{"name": plugin, "args": args}]}]})
    return config.profiles[0].written_args(plugin)


def faults(plugin: str, **args: Any) -> list[str]:
    with pytest.raises(Invalid) as caught:
        read(plugin, **args)
    prefix = "profiles[0].pluginConfig[0].args."
    assert all(fault.path.startswith(prefix) for fault in caught.value.faults)
    return [fault.path.removeprefix(prefix) for fault in caught.value.faults]


def test_thresholds_that_are_given_replace_the_default_ones_whole() -> None:
    args = read("LoadAwareScheduling", usageThresholds={"cpu": 50}).completed()
    assert whole(args)["usageThresholds"] == {"cpu": 50}


def test_missing_scaling_factors_are_filled_in() -> None:
    args = read("LoadAwareScheduling", estimatedScalingFactors={"cpu": 50, "gpu": 10}).completed()
    assert whole(args)["estimatedScalingFactors"] == {"cpu": 50, "gpu": 10, "memory": 70}


def test_weights_have_no_default_where_the_dominant_resource_has_one() -> None:
    args = read("LoadAwareScheduling", dominantResourceWeight=1).completed()
    assert whole(args)["resourceWeights"] == {}


REFUSED: list[tuple[str, dict[str, Any], list[str]]] = [
    ("LoadAwareScheduling", {"nodeMetricExpirationSeconds": 0}, ["nodeMetricExpirationSeconds"]),
    ("LoadAwareScheduling", {"resourceWeights": {"cpu": 0}}, ["resourceWeights.cpu"]),
    ("LoadAwareScheduling", {"resourceWeights": {"cpu": 101}}, ["resourceWeights.cpu"]),
    ("LoadAwareScheduling", {"dominantResourceWeight": -1}, ["dominantResourceWeight"]),
    (
        "LoadAwareScheduling",
        {"usageThresholds": {"cpu": 101, "memory": -1}},
        ["usageThresholds.cpu", "usageThresholds.memory"],
    ),
    ("LoadAwareScheduling", {"estimatedScalingFactors": {"cpu": 0}}, ["estimatedScalingFactors.cpu"]),
    ("LoadAwareScheduling", {"resourceWeights": {"gpu": 1}}, ["estimatedScalingFactors"]),
    ("LoadAwareScheduling", {"aggregated": {"usageAggregationType": "p42"}}, ["aggregated.usageAggregationType"]),
    ("LoadAwareScheduling", {"aggregated": {"usageAggregatedDuration": "-1s"}}, ["aggregated.usageAggregatedDuration"]),
    ("NodeNUMAResource", {"defaultCPUBindPolicy": "ConstrainedBurst"}, ["defaultCPUBindPolicy"]),
    (
        "NodeNUMAResource",
        {"scoringStrategy": {"resources": [{"name": "cpu", "weight": 101}]}},
        ["scoringStrategy.resources[0].weight"],
    ),
    ("NodeNUMAResource", {"numaScoringStrategy": {"type": "Best"}}, ["numaScoringStrategy.type"]),
    ("Reservation", {"minCandidateNodesPercentage": 101}, ["minCandidateNodesPercentage"]),
    ("Reservation", {"minCandidateNodesAbsolute": -1}, ["minCandidateNodesAbsolute"]),
    ("Reservation", {"gcDurationSeconds": -1}, ["gcDurationSeconds"]),
    (
        "Reservation",
        {"ignoredResources": ["cpu", "kubernetes.io/batch-cpu", "example.com/gpu"]},
        ["ignoredResources[0]", "ignoredResources[1]"],
    ),
    (
        "Reservation",
        {"ignoredResourceGroups": ["a/b", "kubernetes.io", "example.com"]},
        ["ignoredResourceGroups[0]", "ignoredResourceGroups[1]"],
    ),
    ("ElasticQuota", {"defaultQuotaGroupMax": {"cpu": "-1"}}, ["defaultQuotaGroupMax.cpu"]),
    ("ElasticQuota", {"systemQuotaGroupMax": {"cpu": "much"}}, ["systemQuotaGroupMax.cpu"]),
    ("ElasticQuota", {"delayEvictTime": "-1s"}, ["delayEvictTime"]),
    ("ElasticQuota", {"revokePodInterval": 5}, ["revokePodInterval"]),
    ("Coscheduling", {"defaultTimeout": "-1s"}, ["defaultTimeout"]),
    ("Coscheduling", {"controllerWorkers": 0}, ["controllerWorkers"]),
    (
        "DeviceShare",
        {"scoringStrategy": {"resources": [{"name": "x", "weight": 0}]}},
        ["scoringStrategy.resources[0].weight"],
    ),
    ("SchedulingHint", {"maxHintNodes": 0}, ["maxHintNodes"]),
    (
        "NodeResourcesFit",
        {"scoringStrategy": {"type": "RequestedToCapacityRatio"}},
        ["scoringStrategy.requestedToCapacityRatio.shape"],
    ),
    (
        "NodeResourcesFit",
        {
            "scoringStrategy": {
                "type": "RequestedToCapacityRatio",
                "requestedToCapacityRatio": {
                    "shape": [{"utilization": 50, "score": 0}, {"utilization": 50, "score": 10}]
                },
            }
        },
        ["scoringStrategy.requestedToCapacityRatio.shape[1].utilization"],
    ),
    (
        "NodeResourcesFit",
        {"scoringStrategy": {"requestedToCapacityRatio": {"shape": [{"utilization": 101, "score": 11}]}}},
        [
            "scoringStrategy.requestedToCapacityRatio.shape[0].utilization",
            "scoringStrategy.requestedToCapacityRatio.shape[0].score",
        ],
    ),
    ("NodeResourcesFit", {"ignoredResourceGroups": ["a/b"]}, ["ignoredResourceGroups[0]"]),
    ("NodeResourcesBalancedAllocation", {"resources": [{"name": "cpu", "weight": 2}]}, ["resources[0].weight"]),
    ("NodeResourcesBalancedAllocation", {"resources": [{"name": "cpu"}, {"name": "cpu"}]}, ["resources[1].name"]),
    ("InterPodAffinity", {"hardPodAffinityWeight": 101}, ["hardPodAffinityWeight"]),
    (
        "DefaultPreemption",
        {"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 0},
        ["minCandidateNodesPercentage"],
    ),
    ("VolumeBinding", {"bindTimeoutSeconds": -1}, ["bindTimeoutSeconds"]),
    (
        "PodTopologySpread",
        {"defaultConstraints": [{"maxSkew": 0, "topologyKey": "", "whenUnsatisfiable": "Perhaps"}]},
        [
            "defaultingType",
            "defaultConstraints[0].maxSkew",
            "defaultConstraints[0].topologyKey",
            "defaultConstraints[0].whenUnsatisfiable",
        ],
    ),
    (
        "NodeAffinity",
        {"addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}},
        ["addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"],
    ),
    ("Coscheduling", {"defaultTimout": "1s"}, ["defaultTimout"]),
]


@pytest.mark.parametrize(
    ("plugin", "args", "paths"), REFUSED, ids=lambda value: value if isinstance(value, str) else ""
)
def test_what_is_refused(plugin: str, args: dict[str, Any], paths: list[str]) -> None:
    assert sorted(faults(plugin, **args)) == sorted(paths)


@pytest.mark.parametrize("plugin", ARGS)
def test_arguments_that_are_written_read_back_the_same(plugin: str) -> None:
    @settings(max_examples=25, deadline=None)
    @given(structs(ARGS[plugin]))
    def holds(args: PluginArgs) -> None:
        assert check(ARGS[plugin], json.loads(encode(args)), plugin) == args
        assert args.completed() == args.completed().completed()

    holds()


def test_arguments_of_another_plugin_are_refused_by_their_type() -> None:
    profile = SchedulerProfile()
    with pytest.raises(TypeError, match="Reservation"):
        profile.args_of("Reservation", ARGS["Coscheduling"])


def test_a_profile_without_arguments_has_the_default_ones() -> None:
    assert (
        SchedulerProfile().args_of("LoadAwareScheduling", ARGS["LoadAwareScheduling"])
        == ARGS["LoadAwareScheduling"]().completed()
    )


FIELDS = [(plugin, field) for plugin, type_ in ARGS.items() for field in type_.__struct_encode_fields__]


@pytest.mark.parametrize(("plugin", "name"), FIELDS)
def test_nonsense_is_refused_with_the_place_where_it_stands(plugin: str, name: str) -> None:
    """No argument may have a map of lists."""
    given = {"name": plugin, "args": {name: {"no": [["such"]]}}}
    with pytest.raises(Invalid) as caught:
        parse({"profiles": [{"pluginConfig": [given]}]})
    assert f"profiles[0].pluginConfig[0].args.{name}" in str(caught.value)


@pytest.mark.parametrize("plugin", ARGS)
def test_an_argument_that_does_not_exist_is_named_in_full(plugin: str) -> None:
    with pytest.raises(Invalid, match=r"profiles\[0\]\.pluginConfig\[0\]\.args\.noSuchThing"):
        parse({"profiles": [{"pluginConfig": [{"name": plugin, "args": {"noSuchThing": 1}}]}]})


@pytest.mark.parametrize("plugin", ["NodeResourcesFit", "NodeNUMAResource", "DeviceShare"])
def test_a_strategy_is_written_with_its_type(plugin: str) -> None:
    """Others who read the file refuse one without."""
    given = {"scoringStrategy": {"resources": [{"name": "cpu", "weight": 5}]}}
    config = parse({"profiles": [{"pluginConfig": [{"name": plugin, "args": given}]}]})
    (written,) = config.manifest()["profiles"][0]["pluginConfig"]
    assert written["args"]["scoringStrategy"]["type"] == "LeastAllocated"
    assert parse(config.manifest()) == config
