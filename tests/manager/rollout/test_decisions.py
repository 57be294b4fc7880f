"""Careful roll-out: which nodes, what is configured for them, when it goes on, and when it stops."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from koord.admission.slo_config import verdict
from koord.api.configuration.slo_config import SloConfig, parse
from koord.api.machinery.faults import BadInput, Invalid
from koord.manager.colocation_switch import standing
from koord.manager.rollout.features import (
    FEATURES,
    Feature,
    RolloutError,
    begun,
    ended,
    everywhere,
    feature_of,
    obstacle,
)
from koord.manager.rollout.state import Limits, Rollout, Suffering, checked, chosen, parse_steps, render
from koord.manager.rollout.state import parse as parse_rollout
from koord.manager.rollout.steps import PodHealth, SlowedService, next_of, resumed, suffering

LENDING = feature_of("lending")
NAMES = [f"node-{i}" for i in range(200)]


def on(config: SloConfig, feature: Feature, labels: dict[str, str]) -> bool:
    """Whether the feature is on for a node."""
    if feature.is_lending:
        return standing(config, labels, {}).on
    settings_of_node = config.for_node(labels, {})
    slo = settings_of_node.node_slo
    match feature.name:
        case "adaptive":
            return settings_of_node.colocation.cpu_calculate_policy == "adaptive"
        case "suppress":
            assert slo.resource_used_threshold_with_be is not None
            return bool(slo.resource_used_threshold_with_be.enable)
        case "cpu-burst":
            assert slo.cpu_burst_strategy is not None
            return slo.cpu_burst_strategy.policy == "auto"
        case _:
            assert slo.resource_qos_strategy is not None
            of_batch = slo.resource_qos_strategy.be_class
            return bool(of_batch is not None and of_batch.memory_qos is not None and of_batch.memory_qos.enable)


@given(
    st.lists(st.sampled_from(NAMES), unique=True),
    st.integers(0, 100),
    st.integers(0, 100),
    st.sets(st.sampled_from(NAMES), max_size=5),
)
@settings(max_examples=50)
def test_a_smaller_share_is_part_of_a_larger_one_and_has_as_many_nodes_as_it_says(
    pool: list[str], one: int, other: int, new: set[str]
) -> None:
    less, more = sorted((one, other))
    small, large = chosen(pool, less), chosen(pool, more)
    assert small <= large
    assert len(large) == -(-len(pool) * more // 100)
    # Nodes that come push no node out, and nodes that go leave the others in.
    grown = chosen({*pool, *new}, more, already=large)
    assert large <= grown
    gone = set(pool[:3])
    assert chosen(set(pool) - gone, more, already=large) >= large - gone


def test_nodes_where_services_suffered_are_left_out_and_nobody_stands_in_for_them() -> None:
    ten = chosen(NAMES, 10)
    suffering_ = sorted(ten)[:3]
    assert chosen(NAMES, 10, already=ten - set(suffering_), without=suffering_) <= ten | set(NAMES)
    assert not chosen(NAMES, 100, without=suffering_) & set(suffering_)
    assert chosen(["a", "b"], 50, without=[next(iter(chosen(["a", "b"], 50)))]) != chosen(["a", "b"], 50)


@pytest.mark.parametrize("feature", FEATURES, ids=lambda each: each.name)
def test_a_roll_out_that_begins_switches_nothing_on_but_what_has_the_label(feature: Feature) -> None:
    data = {feature.section: begun({}, feature, [("n1", {})])}
    config = parse(data)
    assert not on(config, feature, {})
    assert not on(config, feature, {"pool": "a"})
    assert on(config, feature, {feature.label: "on"})
    # What is stored is a configuration like any other.
    assert verdict(data, None, {"n1": {}, "n2": {feature.label: "on"}}, names_required=True)[0] == ""
    # Twice is once.
    assert begun(data, feature, [("n1", {})]) == data[feature.section]


@pytest.mark.parametrize("feature", FEATURES, ids=lambda each: each.name)
@pytest.mark.parametrize("finished", [True, False])
def test_the_end_leaves_nothing_of_the_roll_out(feature: Feature, finished: bool) -> None:
    data = {feature.section: begun({}, feature, [])}
    text = ended(data, feature, on=finished)
    assert text is not None
    assert "rollout" not in text
    config = parse({feature.section: text})
    assert on(config, feature, {}) == on(config, feature, {feature.label: "on"}) == finished
    assert ended({feature.section: text}, feature, on=finished) is None
    if finished:
        assert json.loads(everywhere({}, feature)) == json.loads(text)


def test_pools_keep_their_settings_and_get_back_their_selectors() -> None:
    pool = {"name": "a", "nodeSelector": {"matchLabels": {"pool": "a"}}, "cpuReclaimThresholdPercent": 40}
    before = {"colocation-config": json.dumps({"metricReportIntervalSeconds": 30, "nodeConfigs": [pool]})}
    data = {"colocation-config": begun(before, LENDING, [])}
    config = parse(data)
    inside, outside = {"pool": "a", LENDING.label: "on"}, {"pool": "a"}
    assert config.for_node(inside, {}).colocation.cpu_reclaim_threshold_percent == 40
    assert on(config, LENDING, inside)
    assert not on(config, LENDING, outside)
    # No node is picked twice, so that none refuses it.
    assert verdict(data, None, {"n1": inside, "n2": outside, "n3": {}}, names_required=True)[0] == ""
    undone = json.loads(ended(data, LENDING, on=False) or "")
    assert undone == {"metricReportIntervalSeconds": 30, "enable": False, "nodeConfigs": [pool]}


def test_an_item_that_would_lose_its_effect_is_named() -> None:
    item = {"name": "a", "nodeSelector": {"matchLabels": {"pool": "a"}}, "cpuSuppressThresholdPercent": 50}
    data = {"resource-threshold-config": json.dumps({"nodeStrategies": [item]})}
    with pytest.raises(RolloutError, match=r"resource-threshold-config.nodeStrategies\[0\] picks node n1 too"):
        begun(data, feature_of("suppress"), [("n1", {"pool": "a"})])
    assert begun(data, feature_of("suppress"), [("n2", {"pool": "b"})])


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"colocation-config": '{"enable":true}'}, "colocation-config.enable is true: nodes lend already"),
        ({"colocation-config": "{"}, "colocation-config is not JSON"),
        ({"colocation-config": "[]"}, "must be a JSON object"),
        ({"colocation-config": '{"nodeConfigs":{}}'}, None),
        ({"colocation-config": '{"nodeConfigs":"x"}'}, "colocation-config.nodeConfigs must be a list"),
    ],
)
def test_configuration_that_cannot_be_built_upon_is_refused(data: dict[str, str], said: str | None) -> None:
    if said is None:
        assert begun(data, LENDING, [])
        return
    with pytest.raises(BadInput, match=said):
        begun(data, LENDING, [])


def test_what_keeps_a_roll_out_from_going_on_is_said() -> None:
    data = {"colocation-config": begun({}, LENDING, [])}
    assert obstacle(data, LENDING) == ""
    assert "has no item koord-rollout-lending any more" in obstacle({}, LENDING)
    assert "is not JSON" in obstacle({"colocation-config": "{"}, LENDING)
    off = {"colocation-config": json.dumps({**json.loads(data["colocation-config"]), "enable": False})}
    assert "co-location was turned off" in obstacle(off, LENDING)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"steps": []}, "steps: must have at least one share"),
        ({"steps": [50, 5]}, "steps: must rise"),
        ({"steps": [101]}, "steps"),
        ({"selector": "a in"}, "selector"),
        ({"every_seconds": 0}, "everySeconds"),
        ({"limits": {"unready": -1}}, "limits.unready"),
        ({"state": "asleep"}, "state"),
    ],
)
def test_a_stored_roll_out_that_makes_no_sense_names_the_field(change: dict[str, Any], said: str) -> None:
    raw = {**json.loads(render(Rollout())), **{_camel(key): each for key, each in change.items()}}
    with pytest.raises(Invalid) as error:
        parse_rollout("lending", json.dumps(raw))
    assert said in str(error.value)


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(each.title() for each in rest)


@pytest.mark.parametrize("text", ["", "0", "101", "five", "5,,10", "-5"])
def test_steps_that_are_no_shares_are_refused(text: str) -> None:
    with pytest.raises(RolloutError, match="--steps"):
        parse_steps(text)


def test_steps_may_be_written_with_percent_signs() -> None:
    assert parse_steps("5%, 50 ,100") == (5, 50, 100)


RUNNING = Rollout(steps=(10, 50, 100), every_seconds=60.0, since_s=1000.0)


def test_a_roll_out_goes_from_step_to_step_and_is_complete_after_the_last() -> None:
    fine = Suffering()
    assert next_of(RUNNING, fine, 1059.0) is RUNNING
    second = next_of(RUNNING, fine, 1060.0)
    assert (second.step, second.percent, second.since_s) == (1, 50, 1060.0)
    third = next_of(second, fine, 1120.0)
    assert (third.percent, third.state) == (100, "running")
    last = next_of(third, fine, 1180.0)
    assert last.state == "complete"
    assert next_of(last, fine, 9999.0) is last


def service(name: str, node: str = "n1", **more: Any) -> PodHealth:
    return PodHealth(f"shop/{name}", name, node, **{"is_service": True, "ready": True, "started_s": 100.0, **more})


@pytest.mark.parametrize(
    ("pod", "suffers"),
    [
        (service("web"), False),
        (service("web", ready=False, turned_s=1010.0), True),
        # It was unready before the step began.
        (service("web", ready=False, turned_s=990.0), False),
        # It is only starting.
        (service("web", ready=False, turned_s=1011.0, started_s=1010.0), False),
        (service("web", ready=False, turned_s=1100.0, started_s=1010.0), True),
        # It is on its way out.
        (service("web", ready=False, turned_s=1010.0, leaving=True), False),
        (service("job", ready=False, turned_s=1010.0, is_service=False), False),
    ],
)
def test_a_service_suffers_if_it_was_ready_and_is_not(pod: PodHealth, suffers: bool) -> None:
    found = suffering(RUNNING, [pod], [], 0)
    assert (found.unready == (pod.key,)) == suffers
    after = next_of(RUNNING, found, 1020.0)
    assert (after.state == "stopped") == suffers
    if suffers:
        assert after.reason == "1 service pod turned unready (shop/web)"
        assert after.taken_back == ("n1",)
        assert after.step == RUNNING.step


def test_services_that_agents_find_slowed_down_stop_it_too() -> None:
    slowed = [SlowedService("shop/web", "n2", 1010.0), SlowedService("shop/old", "n3", 900.0)]
    found = suffering(RUNNING, [], slowed, 0)
    after = next_of(RUNNING, found, 1020.0)
    assert after.reason == "1 service slowed down by batch pods (shop/web)"
    assert after.taken_back == ("n2",)


def test_evictions_over_the_limit_stop_it_and_those_below_do_not() -> None:
    limited = replace(RUNNING, limits=Limits(evictions=3))
    assert next_of(limited, Suffering(evictions=3), 1020.0).state == "running"
    assert next_of(limited, Suffering(evictions=4), 1020.0).reason == "4 pods evicted, and 3 are accepted in a step"


def test_what_is_accepted_does_not_stop_it() -> None:
    patient = replace(RUNNING, limits=Limits(unready=1, slowed=1), on_stop="hold")
    one = Suffering(unready=("shop/a",), slowed=("shop/a",), nodes=("n1",))
    assert next_of(patient, one, 1020.0).state == "running"
    two = replace(one, unready=("shop/a", "shop/b"))
    after = next_of(patient, two, 1020.0)
    assert (after.state, after.taken_back) == ("stopped", ())


def test_a_stopped_roll_out_stays_so_until_it_is_resumed_and_begins_the_step_anew() -> None:
    after = next_of(RUNNING, Suffering(unready=("shop/a",), nodes=("n1",)), 1020.0)
    assert next_of(after, Suffering(), 9999.0) is after
    again = resumed(after, 2000.0, again=False)
    assert (again.state, again.since_s, again.taken_back, again.reason) == ("running", 2000.0, ("n1",), "")
    assert resumed(after, 2000.0, again=True).taken_back == ()


def test_a_clock_that_is_set_back_keeps_no_step_for_ever() -> None:
    back = next_of(RUNNING, Suffering(), 500.0)
    assert back.since_s == 500.0
    assert next_of(back, Suffering(), 560.0).step == 1


def test_a_step_lasts_as_long_as_asked_for_once_its_nodes_have_the_feature() -> None:
    assert next_of(RUNNING, Suffering(), 5000.0, lacking_s=5000.0) is RUNNING
    assert next_of(RUNNING, Suffering(), 5059.0, lacking_s=5000.0) is RUNNING
    assert next_of(RUNNING, Suffering(), 5060.0, lacking_s=5000.0).step == 1


@pytest.mark.parametrize("since_s", [0.0, -1e300])
def test_a_roll_out_written_by_hand_begins_with_its_first_step(since_s: float) -> None:
    written = replace(RUNNING, since_s=since_s)
    begun = next_of(written, Suffering(), 5000.0)
    assert (begun.step, begun.since_s) == (0, 5000.0)
    assert next_of(begun, Suffering(), 5060.0).step == 1


def test_a_roll_out_survives_being_stored() -> None:
    assert parse_rollout("lending", render(RUNNING)) == checked(RUNNING) == RUNNING
