"""From a KubeSchedulerConfiguration to the engine's profiles."""

from __future__ import annotations

from typing import Any

import pytest

from koord.api.configuration.scheduler_config import SHIPPED, SchedulerConfiguration, parse
from koord.api.configuration.scheduler_plugins import IMPLEMENTS
from koord.scheduler import registry
from koord.scheduler.framework.engine import Engine
from koord.scheduler.framework.plugin import Plugin
from koord.scheduler.profiles import profiles_of
from koord.scheduler.state.cluster import Cluster
from tests.scheduler.builders import ask, node


def config(**plugins: Any) -> SchedulerConfiguration:
    return parse({"profiles": [{"plugins": plugins}]})


def names(configuration: SchedulerConfiguration) -> list[str]:
    (profile,) = profiles_of(configuration).profiles.values()
    return [plugin.name for plugin in profile.plugins]


@pytest.mark.parametrize("name", registry.PLUGINS)
def test_a_plugin_in_the_list_can_be_made_and_is_one_that_configurations_know(name: str) -> None:
    assert registry.make(name, None).name == name
    assert name in IMPLEMENTS


def test_plugins_filter_in_the_order_of_the_spec() -> None:
    order = [
        *("NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodePorts", "NodeResourcesFit"),
        *("VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone", "PodTopologySpread"),
        *("InterPodAffinity", "DynamicResources", "LoadAwareScheduling", "NodeClosing", "NodeNUMAResource"),
        *("DeviceShare", "Reservation"),
    ]
    ours = [name for name in names(SHIPPED) if "filter" in IMPLEMENTS[name]]
    assert ours == [name for name in order if name in registry.PLUGINS]


def test_weights_are_those_of_kubernetes_by_default() -> None:
    (profile,) = profiles_of(parse({})).profiles.values()
    default = {
        "TaintToleration": 3,
        "NodeAffinity": 2,
        "NodeResourcesFit": 1,
        "PodTopologySpread": 2,
        "InterPodAffinity": 2,
        "DynamicResources": 2,
        "NodeResourcesBalancedAllocation": 1,
        "ImageLocality": 1,
        "VolumeBinding": 1,
    }
    assert profile.weights == {name: weight for name, weight in default.items() if name in registry.PLUGINS}


def test_a_weight_can_be_set_and_a_plugin_switched_off() -> None:
    chosen = config(
        score={"enabled": [{"name": "NodeResourcesFit", "weight": 7}], "disabled": [{"name": "NodeResourcesFit"}]},
        multiPoint={"disabled": [{"name": "NodeAffinity"}]},
    )
    (profile,) = profiles_of(chosen).profiles.values()
    assert profile.weights["NodeResourcesFit"] == 7
    assert "NodeAffinity" not in names(chosen)
    assert "NodeAffinity" not in profile.weights


def test_a_plugin_whose_filter_is_off_still_scores() -> None:
    chosen = config(filter={"disabled": [{"name": "NodeResourcesFit"}]})
    (profile,) = profiles_of(chosen).profiles.values()
    cluster = Cluster()
    cluster.put_node(node("small", cpu="1"))
    cluster.put_node(node("smaller", cpu="500m"))
    placed = Engine(cluster, profile).place(ask("big", cpu="4"), explain=True)
    assert placed.node is not None
    assert "NodeResourcesFit" in placed.scores


def test_arguments_reach_their_plugin() -> None:
    most = {"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}]}}
    args = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "NodeResourcesFitArgs", **most}
    only_fit = {"enabled": [{"name": "NodeResourcesFit"}], "disabled": [{"name": "*"}]}
    chosen = parse(
        {
            "profiles": [
                {"plugins": {"score": only_fit}, "pluginConfig": [{"name": "NodeResourcesFit", "args": args}]},
            ]
        }
    )
    (profile,) = profiles_of(chosen).profiles.values()
    cluster = Cluster()
    cluster.put_node(node("empty", cpu="64"))
    cluster.put_node(node("tight", cpu="2"))
    assert Engine(cluster, profile).place(ask("web", cpu="1")).node == "tight"


def test_what_koord_does_not_have_yet_is_named() -> None:
    missing = sorted(profiles_of_missing(SHIPPED))
    told = profiles_of(SHIPPED).warnings
    assert bool(missing) == bool(told)
    for name in missing:
        assert any(name in warning for warning in told)


def profiles_of_missing(configuration: SchedulerConfiguration) -> set[str]:
    wanted = {name for profile in configuration.profiles for name in profile.resolved().names}
    return wanted - set(registry.PLUGINS) - registry.SHELL


def test_every_profile_gets_plugins_of_its_own_and_all_share_one_queue() -> None:
    chosen = parse({"profiles": [{"schedulerName": "a"}, {"schedulerName": "b"}]})
    profiles = profiles_of(chosen)
    assert list(profiles.profiles) == ["a", "b"]
    one, other = profiles.profiles["a"], profiles.profiles["b"]
    assert all(isinstance(plugin, Plugin) for plugin in (*one.plugins, *other.plugins))
    assert not set(map(id, one.plugins)) & set(map(id, other.plugins))
    assert len(profiles.queue()) == 0


def test_backoffs_are_those_of_the_configuration() -> None:
    profiles = profiles_of(parse({"podInitialBackoffSeconds": 2, "podMaxBackoffSeconds": 30}))
    assert (profiles.first_backoff_s, profiles.longest_backoff_s) == (2.0, 30.0)


@pytest.mark.parametrize(
    ("written", "named"),
    [
        ({"percentageOfNodesToScore": 40}, "percentageOfNodesToScore"),
        ({"profiles": [{"schedulerName": "a", "percentageOfNodesToScore": 40}]}, "percentageOfNodesToScore"),
        ({"parallelism": 4}, "parallelism"),
        ({"delayCacheUntilActive": True}, "delayCacheUntilActive"),
    ],
)
def test_a_setting_that_is_accepted_without_effect_is_named_in_one_warning(written: dict[str, Any], named: str) -> None:
    usual = profiles_of(parse({})).warnings
    (told,) = [
        warning for warning in profiles_of(parse(written)).warnings if warning.replace("(of a)", "") not in usual
    ]
    assert told.startswith(f"{named} has no effect")
