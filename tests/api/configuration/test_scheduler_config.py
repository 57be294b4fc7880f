"""The scheduler's configuration file."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koord.api.configuration.component_config import LeaderElection, PluginConfig, PluginRef, PluginSet
from koord.api.configuration.scheduler_args import ARGS, LoadAwareSchedulingArgs, NodeResourcesFitArgs
from koord.api.configuration.scheduler_config import SHIPPED, SchedulerConfiguration, SchedulerProfile, parse
from koord.api.configuration.scheduler_plugins import IMPLEMENTS, POINTS, Plugins
from koord.api.machinery.faults import Invalid
from tests.api.config_strategies import structs


def paths(**config: Any) -> list[str]:
    with pytest.raises(Invalid) as caught:
        parse(config)
    return [fault.path for fault in caught.value.faults]


def test_an_empty_file_is_one_default_profile() -> None:
    config = parse({})
    assert [profile.scheduler_name for profile in config.profiles] == ["default-scheduler"]
    assert config.parallelism == 16
    assert config.percentage_of_nodes_to_score == 0
    assert (config.pod_initial_backoff_seconds, config.pod_max_backoff_seconds) == (1, 10)
    assert (config.client_connection.qps, config.client_connection.burst) == (50, 100)
    assert config.leader_election == LeaderElection(
        leader_elect=True,
        lease_duration="15s",
        renew_deadline="10s",
        retry_period="2s",
        resource_lock="leases",
        resource_name="koord-scheduler",
        resource_namespace="koordinator-system",
    )


def test_the_shipped_profile_has_the_load_filter_off() -> None:
    profile = SHIPPED.profile("koord-scheduler")
    assert profile is not None
    load = profile.args_of("LoadAwareScheduling", LoadAwareSchedulingArgs)
    assert load.usage_thresholds == {"cpu": 0, "memory": 0}
    assert (load.filter_expired_node_metrics, load.node_metric_expiration_seconds) == (False, 300)
    fit = profile.args_of("NodeResourcesFit", NodeResourcesFitArgs)
    assert [resource.name for resource in fit.scoring_strategy.resources] == [
        "cpu",
        "memory",
        "kubernetes.io/batch-cpu",
        "kubernetes.io/batch-memory",
    ]


@pytest.mark.parametrize("version", ["v1", "v1beta3", "v1beta2"])
def test_older_versions_are_read_too(version: str) -> None:
    group = f"kubescheduler.config.k8s.io/{version}"
    args = {"apiVersion": group, "kind": "CoschedulingArgs", "controllerWorkers": 2}
    document = {
        "apiVersion": group,
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "koord-scheduler", "pluginConfig": [{"name": "Coscheduling", "args": args}]}],
    }
    if version != "v1":
        document["healthzBindAddress"] = ":10251"
    assert parse(document).profiles[0].written_args("Coscheduling") == ARGS["Coscheduling"](controller_workers=2)


def test_all_faults_come_at_once() -> None:
    assert set(
        paths(
            parallelism=0,
            paralelism=3,
            percentageOfNodesToScore=101,
            podInitialBackoffSeconds=5,
            podMaxBackoffSeconds=4,
            leaderElection={"leaseDuration": "5s", "resourceLock": "endpoints"},
            extenders=[{"urlPrefix": "http://example"}],
            profiles=[
                {
                    "schedulerName": "a",
                    "plugins": {"score": {"enabled": [{"name": "Nope"}]}, "queuesort": {}},
                    "pluginConfig": [
                        {"name": "Coscheduling", "args": {"kind": "OtherArgs", "controllerWorkers": 0}},
                        {"name": "Coscheduling"},
                        {"name": "Nope"},
                    ],
                },
                {"schedulerName": "a"},
            ],
        )
    ) == {
        "parallelism",
        "paralelism",
        "percentageOfNodesToScore",
        "podMaxBackoffSeconds",
        "leaderElection.leaseDuration",
        "leaderElection.resourceLock",
        "extenders",
        "profiles[0].plugins.score.enabled[0].name",
        "profiles[0].plugins.queuesort",
        "profiles[0].pluginConfig[0].args.kind",
        "profiles[0].pluginConfig[0].args.controllerWorkers",
        "profiles[0].pluginConfig[1].name",
        "profiles[0].pluginConfig[2].name",
        "profiles[1].schedulerName",
    }


def test_several_profiles_need_names_and_one_way_to_sort_their_queue() -> None:
    assert paths(profiles=[{"schedulerName": "a"}, {}]) == ["profiles[1].schedulerName"]
    other = {"queueSort": {"enabled": [{"name": "PrioritySort"}], "disabled": [{"name": "*"}]}}
    assert parse({"profiles": [{"schedulerName": "a"}, {"schedulerName": "b", "plugins": other}]}).profiles


@pytest.mark.parametrize(
    "document", [None, [], "text", {"profiles": "x"}, {"profiles": ["x"]}, {"profiles": [{"plugins": 1}]}]
)
def test_any_shape_gives_a_report_and_never_a_traceback(document: Any) -> None:
    with pytest.raises(Invalid):
        parse(document)


def plugin_configs() -> st.SearchStrategy[tuple[PluginConfig, ...]]:
    # Those whose fields cannot contradict each other.
    plain = ("Coscheduling", "SchedulingHint", "ScarceResourceAvoidance", "InterPodAffinity", "NodeResourcesFitPlus")
    one = st.sampled_from(plain).flatmap(
        lambda name: structs(ARGS[name]).map(lambda args: PluginConfig(name=name, args=args))
    )
    return st.lists(one, unique_by=lambda config: config.name, max_size=3).map(tuple)


def plugin_sets() -> st.SearchStrategy[Plugins]:
    """Sets that make sense: plugins at points that they have, one queueSort, a bind."""
    points = [point for point in POINTS if point not in ("queueSort", "bind")]

    def at(point: str) -> st.SearchStrategy[PluginSet]:
        having = sorted(name for name, points in IMPLEMENTS.items() if point in points)
        refs = st.builds(PluginRef, st.sampled_from(having), st.none() | st.integers(0, 9))
        enabled = st.lists(refs, unique_by=lambda plugin: plugin.name, max_size=3).map(tuple)
        disabled = st.lists(st.sampled_from(["*", *having]).map(PluginRef), max_size=2).map(tuple)
        return st.builds(PluginSet, enabled, disabled)

    return st.fixed_dictionaries({}, optional={POINTS[point]: at(point) for point in points}).map(
        lambda sets: Plugins(**sets)
    )


PROFILES = st.lists(
    st.builds(
        SchedulerProfile,
        scheduler_name=st.sampled_from("abc"),
        percentage_of_nodes_to_score=st.none() | st.integers(0, 100),
        plugins=st.none() | plugin_sets(),
        plugin_config=plugin_configs(),
    ),
    min_size=1,
    max_size=2,
    unique_by=lambda profile: profile.scheduler_name,
).map(tuple)


@settings(max_examples=60, deadline=None)
@given(
    structs(
        SchedulerConfiguration,
        extenders=st.just(()),
        leader_election=st.sampled_from((LeaderElection(resource_name="a"), LeaderElection(False, resource_name="b"))),
        pod_initial_backoff_seconds=st.integers(1, 10),
        pod_max_backoff_seconds=st.integers(10, 300),
        profiles=PROFILES,
    ).filter(lambda config: config.profiles != ())
)
def test_what_is_written_reads_back_the_same(config: SchedulerConfiguration) -> None:
    assert parse(config.manifest()) == config


def test_the_shipped_configuration_reads_back_the_same() -> None:
    assert parse(SHIPPED.manifest()) == SHIPPED
