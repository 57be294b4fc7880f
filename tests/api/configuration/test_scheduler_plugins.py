"""Which plugins run: kube-scheduler's rules, and the shipped profile."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koord.api.configuration.component_config import PluginRef, PluginSet
from koord.api.configuration.scheduler_plugins import (
    DEFAULT_PLUGINS,
    IMPLEMENTS,
    POINTS,
    SHIPPED_PLUGINS,
    Plugins,
    resolve,
)


def plugin_set(enabled: str = "", disabled: str = "") -> PluginSet:
    def refs(text: str) -> tuple[PluginRef, ...]:
        pairs = (word.partition(":") for word in text.split())
        return tuple(PluginRef(name, int(weight) if weight else None) for name, _, weight in pairs)

    return PluginSet(refs(enabled), refs(disabled))


def test_the_default_filters_run_in_kubernetes_order() -> None:
    resolved, faults = resolve(None)
    assert faults == ()
    assert resolved.at["filter"] == (
        "NodeUnschedulable",
        "NodeName",
        "TaintToleration",
        "NodeAffinity",
        "NodePorts",
        "NodeResourcesFit",
        "VolumeRestrictions",
        "NodeVolumeLimits",
        "VolumeBinding",
        "VolumeZone",
        "PodTopologySpread",
        "InterPodAffinity",
        "DynamicResources",
    )


def test_the_default_weights() -> None:
    weights = dict(resolve(None)[0].weights)
    assert weights.pop("VolumeBinding") == 1
    assert weights == {
        "TaintToleration": 3,
        "NodeAffinity": 2,
        "NodeResourcesFit": 1,
        "PodTopologySpread": 2,
        "InterPodAffinity": 2,
        "DynamicResources": 2,
        "NodeResourcesBalancedAllocation": 1,
        "ImageLocality": 1,
    }


def test_the_shipped_profile_adds_its_plugins_after_the_default_ones() -> None:
    resolved, faults = resolve(SHIPPED_PLUGINS)
    assert faults == ()
    assert resolved.at["filter"][-6:] == (
        "InterPodAffinity",
        "DynamicResources",
        "LoadAwareScheduling",
        "NodeNUMAResource",
        "DeviceShare",
        "Reservation",
    )
    assert resolved.at["postFilter"] == ("Reservation", "Coscheduling", "ElasticQuota", "DefaultPreemption")
    assert resolved.at["bind"] == ("Reservation", "DefaultBinder")
    assert resolved.at["queueSort"] == ("PrioritySort",)
    assert {name: resolved.weights[name] for name in ("LoadAwareScheduling", "NodeNUMAResource", "DeviceShare")} == {
        "LoadAwareScheduling": 1,
        "NodeNUMAResource": 1,
        "DeviceShare": 1,
    }
    assert resolved.weights["Reservation"] == 5000


def test_disabling_all_at_a_point_leaves_the_explicit_ones() -> None:
    resolved, _ = resolve(Plugins(score=plugin_set("ImageLocality:7", "*")))
    assert resolved.at["score"] == ("ImageLocality",)
    assert dict(resolved.weights) == {"ImageLocality": 7}
    assert "NodeAffinity" in resolved.at["filter"]


def test_a_plugin_can_be_disabled_at_one_point_only() -> None:
    resolved, _ = resolve(Plugins(score=plugin_set(disabled="NodeAffinity")))
    assert "NodeAffinity" not in resolved.at["score"]
    assert "NodeAffinity" in resolved.at["filter"]


def test_a_default_that_is_enabled_again_comes_first_and_its_weight_counts() -> None:
    resolved, _ = resolve(Plugins(score=plugin_set("LoadAwareScheduling:3 ImageLocality:9")))
    assert resolved.at["score"][0] == "ImageLocality"
    assert resolved.at["score"][-1] == "LoadAwareScheduling"
    assert (resolved.weights["ImageLocality"], resolved.weights["LoadAwareScheduling"]) == (9, 3)


def test_multi_point_enables_a_plugin_wherever_it_has_a_part() -> None:
    resolved, faults = resolve(Plugins(multi_point=plugin_set("LoadAwareScheduling:4")))
    assert faults == ()
    assert [point for point in POINTS if "LoadAwareScheduling" in resolved.at[point]] == [
        "preFilter",
        "filter",
        "score",
        "reserve",
    ]
    assert resolved.weights["LoadAwareScheduling"] == 4


def test_a_weight_at_the_point_wins_over_that_of_multi_point() -> None:
    custom = Plugins(multi_point=plugin_set("LoadAwareScheduling:4"), score=plugin_set("LoadAwareScheduling:6"))
    assert resolve(custom)[0].weights["LoadAwareScheduling"] == 6


def test_disabling_all_of_multi_point_drops_the_defaults() -> None:
    custom = Plugins(multi_point=plugin_set("PrioritySort NodeName DefaultBinder", "*"))
    resolved, faults = resolve(custom)
    assert faults == ()
    assert resolved.names == {"PrioritySort", "NodeName", "DefaultBinder"}


def test_a_weight_of_nothing_or_zero_is_one() -> None:
    custom = Plugins(score=plugin_set("LoadAwareScheduling DeviceShare:0"))
    weights = resolve(custom)[0].weights
    assert (weights["LoadAwareScheduling"], weights["DeviceShare"]) == (1, 1)


@pytest.mark.parametrize(
    ("custom", "path", "message"),
    [
        (Plugins(filter=plugin_set("LoadAware")), "filter.enabled[0].name", "did you mean LoadAwareScheduling?"),
        (
            Plugins(filter=plugin_set("ImageLocality")),
            "filter.enabled[0].name",
            "ImageLocality has no filter (it has score)",
        ),
        (Plugins(filter=plugin_set(disabled="Nothing")), "filter.disabled[0].name", "there is no plugin 'Nothing'"),
        (Plugins(filter=plugin_set("DeviceShare DeviceShare")), "filter.enabled[1].name", "enabled twice"),
        (Plugins(queue_sort=plugin_set(disabled="*")), "queueSort", "needs exactly one plugin, but has none"),
        (Plugins(bind=plugin_set(disabled="*")), "bind", "needs at least one plugin"),
        (Plugins(score=plugin_set("DeviceShare:-1")), "score.enabled[0].weight", "must be 0"),
    ],
)
def test_sets_that_make_no_sense_are_refused(custom: Plugins, path: str, message: str) -> None:
    faults = resolve(custom)[1]
    assert [fault.path for fault in faults] == [path]
    assert message in faults[0].message


@pytest.mark.parametrize("disabled", ["", "*"])
def test_profiles_of_older_releases_still_run(disabled: str) -> None:
    old = Plugins(
        queue_sort=plugin_set("Coscheduling", disabled), filter=plugin_set("LoadAwareScheduling BatchResourceFit")
    )
    resolved, faults = resolve(old)
    assert faults == ()
    assert resolved.at["queueSort"] == ("PrioritySort",)
    assert "NodeResourcesFit" in resolved.at["filter"]
    assert "BatchResourceFit" not in resolved.names


@pytest.mark.parametrize("name", ["NodeResourcesFitPlus", "ScarceResourceAvoidance"])
def test_plugins_that_score_may_be_listed_before_scoring_as_koordinator_needs_it(name: str) -> None:
    resolved, faults = resolve(Plugins(pre_score=plugin_set(name), score=plugin_set(f"{name}:2")))
    assert faults == ()
    assert resolved.weights[name] == 2


KNOWN = st.sampled_from(sorted(IMPLEMENTS))
SETS = st.builds(
    PluginSet,
    st.lists(KNOWN.map(PluginRef), unique_by=lambda plugin: plugin.name, max_size=4).map(tuple),
    st.lists(st.one_of(KNOWN, st.just("*")).map(PluginRef), max_size=3).map(tuple),
)


@settings(max_examples=60, deadline=None)
@given(st.builds(Plugins, filter=SETS, score=SETS, multi_point=SETS))
def test_nothing_runs_twice_and_nothing_disabled_runs_unless_enabled(custom: Plugins) -> None:
    resolved, _ = resolve(custom)
    for point, plugins in resolved.at.items():
        assert len(plugins) == len(set(plugins))
        explicit = {plugin.name for plugin in custom.at(point).enabled}
        assert explicit <= set(plugins)
        if "*" in custom.at(point).disabled_names:
            assert set(plugins) == explicit
        assert not (custom.at(point).disabled_names & set(plugins)) - explicit
    assert set(resolved.weights) == set(resolved.at["score"])


def test_the_default_plugins_are_all_known() -> None:
    names = [plugin.name for plugin in DEFAULT_PLUGINS.multi_point.enabled]
    assert set(names) <= set(IMPLEMENTS)
    assert len(names) == 19
