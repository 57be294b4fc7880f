"""The descheduler's configuration file and the arguments of its plugins."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koord.api.configuration.component_config import PluginArgs
from koord.api.configuration.descheduler_args import (
    ARGS,
    AnomalyCondition,
    Arbitration,
    LowNodeLoadArgs,
    MigrationControllerArgs,
    ObjectLimiter,
    ScaleDownBinPackArgs,
)
from koord.api.configuration.descheduler_config import ALL_ARGS, IMPLEMENTS, parse
from koord.api.machinery.codec import encode
from koord.api.machinery.faults import Invalid, check
from tests.api.config_strategies import structs


def read(plugin: str, **args: Any) -> PluginArgs:
    config = parse({"profiles": [{"pluginConfig": [{"name": plugin, "args": args}]}]})
    return config.profiles[0].written_args(plugin)


def paths(**config: Any) -> list[str]:
    with pytest.raises(Invalid) as caught:
        parse(config)
    return [fault.path for fault in caught.value.faults]


def args_paths(plugin: str, **args: Any) -> list[str]:
    prefix = "profiles[0].pluginConfig[0].args."
    found = paths(profiles=[{"pluginConfig": [{"name": plugin, "args": args}]}])
    return [path.removeprefix(prefix).removeprefix(prefix[:-1]) for path in found]


def test_an_empty_file() -> None:
    config = parse({})
    assert (config.leader_election.resource_namespace, config.leader_election.resource_name) == (
        "koordinator-system",
        "koord-descheduler",
    )
    assert (config.client_connection.qps, config.client_connection.burst) == (50, 100)
    assert (config.healthz_bind_address, config.metrics_bind_address) == ("0.0.0.0:10251", "0.0.0.0:10251")
    assert (config.descheduling_interval, config.dry_run, config.node_selector) == ("0s", False, None)
    limits = (
        config.max_no_of_pods_to_evict_per_node,
        config.max_no_of_pods_to_evict_per_namespace,
        config.max_no_of_pods_to_evict_total,
    )
    assert limits == (None, None, None)
    assert [profile.name for profile in config.profiles] == ["koord-descheduler"]
    assert config.profiles[0].resolved() == {
        "deschedule": (),
        "balance": (),
        "evict": ("MigrationController",),
        "filter": ("MigrationController",),
        "sort": ("MigrationController",),
    }


def test_disabling_all_drops_the_migration_controller_where_it_may_be_missing() -> None:
    everything = {"disabled": [{"name": "*"}]}
    resolved = parse({"profiles": [{"plugins": {"filter": everything, "sort": everything}}]}).profiles[0].resolved()
    assert (resolved["evict"], resolved["filter"], resolved["sort"]) == (("MigrationController",), (), ())
    assert paths(profiles=[{"plugins": {"evict": everything}}]) == ["profiles[0].plugins.evict"]


MIGRATION = {
    "dry_run": False,
    "max_concurrent_reconciles": 1,
    "evict_failed_bare_pods": False,
    "evict_all_bare_pods": False,
    "evict_local_storage_pods": False,
    "evict_system_critical_pods": False,
    "ignore_pvc_pods": False,
    "node_fit": False,
    "priority_threshold": None,
    "label_selector": None,
    "namespaces": None,
    "node_selector": "",
    "skip_eviction_gates": (),
    "max_migrating_globally": None,
    "max_migrating_per_node": 2,
    "max_migrating_per_namespace": None,
    "max_migrating_per_workload": None,
    "max_unavailable_per_workload": None,
    "skip_check_expected_replicas": False,
    "object_limiters": {"workload": ObjectLimiter(duration="5m0s")},
    "default_job_mode": "ReservationFirst",
    "default_job_ttl": "5m0s",
    "scheduler_names": ("koord-scheduler",),
    "evict_qps": 10,
    "evict_burst": 1,
    "eviction_policy": "Eviction",
    "default_delete_options": {},
    "arbitration_args": Arbitration(enabled=True, interval="500ms"),
}
LOW_NODE_LOAD = {
    "paused": False,
    "dry_run": False,
    "number_of_nodes": 0,
    "node_metric_expiration_seconds": 180,
    "evictable_namespaces": None,
    "node_selector": None,
    "pod_selectors": (),
    "node_fit": True,
    "use_deviation_thresholds": False,
    "high_thresholds": {},
    "low_thresholds": {},
    "prod_high_thresholds": {},
    "prod_low_thresholds": {},
    "resource_weights": {"cpu": 1, "memory": 1},
    "anomaly_condition": AnomalyCondition("1m0s", 5, 3),
    "detector_cache_timeout": "5m0s",
    "node_pools": (),
}
OTHERS = {
    "CustomPriority": {"paused": False, "dry_run": False, "auto_cordon": False, "node_fit": True, "mode": "BestEffort"},
    "FragmentationAware": {
        "paused": False,
        "dry_run": False,
        "node_fit": True,
        "resources": ("cpu", "memory"),
        "imbalance_threshold": 0.15,
        "min_improvement_threshold": 0.02,
    },
    "ScaleDownBinPack": {
        "paused": False,
        "strategy": "CalculateOnly",
        "resources": ("cpu", "memory"),
        "resource_weights": {"cpu": 1.0, "memory": 1.0},
    },
}
DEFAULTS: dict[str, dict[str, Any]] = {"MigrationController": MIGRATION, "LowNodeLoad": LOW_NODE_LOAD, **OTHERS}


@pytest.mark.parametrize("plugin", DEFAULTS)
def test_the_default_of_every_argument(plugin: str) -> None:
    args = ARGS[plugin]().completed()
    assert {name: getattr(args, name) for name in DEFAULTS[plugin]} == DEFAULTS[plugin]


def test_json_names_are_those_of_the_protocol() -> None:
    fields = MigrationControllerArgs.__struct_encode_fields__
    assert {"ignorePvcPods", "evictQPS", "defaultJobTTL", "maxMigratingPerWorkload"} <= set(fields)


@pytest.mark.parametrize(("written", "rate"), [(10, 10.0), (2.5, 2.5), ("10", 10.0), ("0.5", 0.5)])
def test_the_eviction_rate_is_a_number_also_in_quotes(written: Any, rate: float) -> None:
    args = read("MigrationController", evictQPS=written)
    assert isinstance(args, MigrationControllerArgs)
    assert args.evictions_per_s == rate


def test_an_arbitration_block_without_enabled_is_off_and_has_the_default_interval() -> None:
    args = read("MigrationController", arbitrationArgs={}).completed()
    assert isinstance(args, MigrationControllerArgs)
    assert args.arbitration_args == Arbitration(enabled=False, interval="500ms")


def test_node_pools_inherit_what_they_lack() -> None:
    args = read(
        "LowNodeLoad",
        highThresholds={"cpu": 75},
        lowThresholds={"cpu": 45},
        anomalyCondition={"consecutiveAbnormalities": 7},
        nodePools=[{"name": "a", "highThresholds": {"cpu": 60}}, {"name": "b", "anomalyCondition": {"timeout": "2m"}}],
    ).completed()
    assert isinstance(args, LowNodeLoadArgs)
    first, second = args.node_pools
    assert (first.high_thresholds, first.low_thresholds) == ({"cpu": 60}, {"cpu": 45})
    assert first.anomaly_condition == AnomalyCondition("1m0s", 7, 3)
    assert second.anomaly_condition == AnomalyCondition("2m", 7, 3)
    assert second.resource_weights == {"cpu": 1, "memory": 1}


def test_weights_cover_every_resource_with_a_threshold() -> None:
    args = read("LowNodeLoad", highThresholds={"gpu": 80}, resourceWeights={"cpu": 3, "memory": 0}).completed()
    assert isinstance(args, LowNodeLoadArgs)
    assert args.resource_weights == {"cpu": 3, "memory": 1, "gpu": 1}


def test_detectors_outlive_a_round() -> None:
    config = parse({"deschedulingInterval": "10m", "profiles": [{"pluginConfig": [{"name": "LowNodeLoad"}]}]})
    args = config.profiles[0].args_of("LowNodeLoad", LowNodeLoadArgs)
    assert args.detector_cache_timeout == "10m"


def test_bin_packing_fills_weights_up() -> None:
    args = read("ScaleDownBinPack", resources=["cpu", "gpu"], resourceWeights={"gpu": 2}).completed()
    assert isinstance(args, ScaleDownBinPackArgs)
    assert args.resource_weights == {"cpu": 1.0, "gpu": 2}


LEVEL = {"name": "a", "nodeSelector": {"matchLabels": {"tier": "a"}}}
REFUSED: list[tuple[str, dict[str, Any], list[str]]] = [
    ("MigrationController", {"skipEvictionGates": ["PVC", "Nope"]}, ["skipEvictionGates[1]"]),
    ("MigrationController", {"maxMigratingPerNode": -1}, ["maxMigratingPerNode"]),
    ("MigrationController", {"maxMigratingPerWorkload": "ten"}, ["maxMigratingPerWorkload"]),
    ("MigrationController", {"maxUnavailablePerWorkload": -1}, ["maxUnavailablePerWorkload"]),
    ("MigrationController", {"objectLimiters": {"pod": {"duration": "5m"}}}, ["objectLimiters.pod"]),
    ("MigrationController", {"evictQPS": 0}, ["evictQPS"]),
    ("MigrationController", {"evictQPS": "fast"}, ["evictQPS"]),
    ("MigrationController", {"evictBurst": 0}, ["evictBurst"]),
    ("MigrationController", {"maxConcurrentReconciles": 0}, ["maxConcurrentReconciles"]),
    ("MigrationController", {"defaultJobMode": "Later"}, ["defaultJobMode"]),
    ("MigrationController", {"defaultJobTTL": "-1s"}, ["defaultJobTTL"]),
    ("MigrationController", {"namespaces": {"include": ["a"], "exclude": ["b"]}}, ["namespaces"]),
    ("MigrationController", {"nodeSelector": "a in"}, ["nodeSelector"]),
    ("LowNodeLoad", {"numberOfNodes": -1}, ["numberOfNodes"]),
    ("LowNodeLoad", {"highThresholds": {"cpu": -1}}, ["highThresholds.cpu"]),
    ("LowNodeLoad", {"lowThresholds": {"cpu": 60}, "highThresholds": {"cpu": 50}}, ["lowThresholds.cpu"]),
    ("LowNodeLoad", {"prodHighThresholds": {"cpu": 60}, "highThresholds": {"cpu": 50}}, ["prodHighThresholds.cpu"]),
    ("LowNodeLoad", {"prodLowThresholds": {"cpu": 60}, "prodHighThresholds": {"cpu": 50}}, ["prodLowThresholds.cpu"]),
    (
        "LowNodeLoad",
        {"lowThresholds": {"cpu": 40}, "nodePools": [{"highThresholds": {"cpu": 30}}]},
        ["nodePools[0].lowThresholds.cpu"],
    ),
    ("LowNodeLoad", {"evictableNamespaces": {"include": ["a"], "exclude": ["b"]}}, ["evictableNamespaces"]),
    ("CustomPriority", {"evictionOrder": [LEVEL]}, ["evictionOrder"]),
    ("CustomPriority", {"evictionOrder": [LEVEL, LEVEL]}, ["evictionOrder[1].name"]),
    ("CustomPriority", {"evictionOrder": [LEVEL, {"name": "b"}]}, ["evictionOrder[1].nodeSelector"]),
    ("CustomPriority", {"evictionOrder": [LEVEL, {**LEVEL, "name": "B!"}]}, ["evictionOrder[1].name"]),
    (
        "CustomPriority",
        {"evictionOrder": [LEVEL, {**LEVEL, "name": "b", "keepThreshold": {"cpu": 101}}]},
        ["evictionOrder[1].keepThreshold.cpu"],
    ),
    ("FragmentationAware", {"resources": ["cpu", "cpu"]}, ["resources[1]"]),
    ("FragmentationAware", {"imbalanceThreshold": -0.1}, ["imbalanceThreshold"]),
    ("ScaleDownBinPack", {"strategy": "EvictDirectly"}, ["maxPodsToEvict"]),
    ("ScaleDownBinPack", {"resourceWeights": {"cpu": 0}}, ["resourceWeights.cpu"]),
    ("PodLifeTime", {}, [""]),
    ("PodLifeTime", {"states": ["Running", "Asleep"]}, ["states[1]"]),
    ("PodLifeTime", {"maxPodLifeTimeSeconds": 1, "conditions": [{}]}, ["conditions[0]"]),
    ("PodLifeTime", {"exitCodes": [1], "ownerKinds": {"include": ["Job"], "exclude": ["Pod"]}}, ["ownerKinds"]),
    ("RemoveDuplicates", {"namespaces": {"include": ["a"], "exclude": ["b"]}}, ["namespaces"]),
    ("RemovePodsHavingTooManyRestarts", {}, ["podRestartThreshold"]),
    ("RemovePodsHavingTooManyRestarts", {"podRestartThreshold": 1, "states": ["Failed"]}, ["states[0]"]),
    ("RemovePodsViolatingNodeAffinity", {}, ["nodeAffinityType"]),
    ("RemovePodsViolatingNodeAffinity", {"nodeAffinityType": ["sometimes"]}, ["nodeAffinityType[0]"]),
    ("RemovePodsViolatingTopologySpreadConstraint", {"constraints": ["Never"]}, ["constraints[0]"]),
]


@pytest.mark.parametrize(("plugin", "args", "expected"), REFUSED)
def test_what_is_refused(plugin: str, args: dict[str, Any], expected: list[str]) -> None:
    assert set(expected) <= set(args_paths(plugin, **args))


@pytest.mark.parametrize("name", ["HighNodeUtilization", "DefaultEvictor", "RemovePodsViolatingNodeTaints"])
def test_plugins_that_koord_does_not_have_are_refused_with_those_that_it_has(name: str) -> None:
    with pytest.raises(Invalid) as caught:
        parse({"profiles": [{"plugins": {"deschedule": {"enabled": [{"name": name}]}}}]})
    (fault,) = caught.value.faults
    assert fault.path == "profiles[0].plugins.deschedule.enabled[0].name"
    assert all(each in fault.message for each in IMPLEMENTS)


def test_a_plugin_that_cannot_do_without_arguments_asks_for_them() -> None:
    enabled = [{"name": "PodLifeTime"}, {"name": "RemovePodsViolatingNodeAffinity"}]
    found = paths(profiles=[{"plugins": {"deschedule": {"enabled": enabled}}}])
    assert found == [f"profiles[0].plugins.deschedule.enabled[{i}].name" for i in range(2)]


def test_all_faults_come_at_once() -> None:
    assert set(
        paths(
            metricsBindAddress="nowhere",
            deschedulingInterval="-1s",
            maxNoOfPodsToEvictTotal=-1,
            nodeSelector={"matchExpressions": [{"key": "a", "operator": "In"}]},
            profiles=[
                {
                    "name": "a",
                    "plugins": {
                        "balance": {"enabled": [{"name": "LowNodeLod"}, {"name": "PodLifeTime"}]},
                        "evict": {"enabled": [{"name": "DefaultEvictor"}]},
                    },
                    "pluginConfig": [{"name": "LowNodeLoad", "args": {"numberOfNodes": -1}}, {"name": "Nope"}],
                },
                {"name": "a"},
            ],
        )
    ) == {
        "metricsBindAddress",
        "deschedulingInterval",
        "maxNoOfPodsToEvictTotal",
        "nodeSelector.matchExpressions[0].values",
        "profiles[0].plugins.balance.enabled[0].name",
        "profiles[0].plugins.balance.enabled[1].name",
        "profiles[0].plugins.evict",
        "profiles[0].plugins.evict.enabled[0].name",
        "profiles[0].pluginConfig[0].args.numberOfNodes",
        "profiles[0].pluginConfig[1].name",
        "profiles[1].name",
    }


@pytest.mark.parametrize(
    ("written", "read_as"),
    [
        (":9000", "0.0.0.0:9000"),
        ("127.0.0.1", "127.0.0.1:10251"),
        ("::1", "[::1]:10251"),
        ("localhost:1", "localhost:1"),
    ],
)
def test_addresses_are_completed(written: str, read_as: str) -> None:
    assert parse({"healthzBindAddress": written}).healthz_bind_address == read_as


@pytest.mark.parametrize("plugin", ALL_ARGS)
def test_arguments_that_are_written_read_back_the_same(plugin: str) -> None:
    count = st.sampled_from((3, "10%"))
    fixed = {
        "evict_qps": st.sampled_from((10, 0.5, "10")),
        "max_migrating_per_workload": count,
        "max_unavailable_per_workload": count,
        "object_limiters": st.dictionaries(st.just("workload"), structs(ObjectLimiter, max_migrating=count)),
    }

    @settings(max_examples=25, deadline=None)
    @given(structs(ALL_ARGS[plugin], **fixed))
    def holds(args: PluginArgs) -> None:
        assert check(ALL_ARGS[plugin], json.loads(encode(args)), plugin) == args
        assert args.completed() == args.completed().completed()

    holds()


def test_a_file_that_is_written_reads_back_the_same() -> None:
    config = parse(
        {
            "deschedulingInterval": "10s",
            "maxNoOfPodsToEvictPerNode": 3,
            "profiles": [
                {
                    "name": "koord-descheduler",
                    "plugins": {"balance": {"enabled": [{"name": "LowNodeLoad"}]}},
                    "pluginConfig": [
                        {"name": "MigrationController", "args": {"evictQPS": "10", "evictBurst": 2}},
                        {"name": "LowNodeLoad", "args": {"lowThresholds": {"cpu": 45}, "highThresholds": {"cpu": 75}}},
                    ],
                }
            ],
        }
    )
    assert parse(config.manifest()) == config
