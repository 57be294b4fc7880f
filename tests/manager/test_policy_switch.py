"""Switching the policy of lending: what is written, that it holds, and that the way back leaves nothing behind."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.api.configuration.slo_config import parse
from koord.api.text.selector import LabelSelector
from koord.manager.colocation_switch import SwitchError
from koord.manager.lending.policy import Resource
from koord.manager.policy_switch import PolicyChoice, require_effect, switched

POOL = LabelSelector({"pool": "batch"})
BOTH: tuple[Resource, ...] = ("cpu", "memory")


def stored(**section: Any) -> dict[str, str]:
    return {"colocation-config": json.dumps(section)}


def after(data: Mapping[str, str], name: str, pool: LabelSelector | None = None, **given: Any) -> dict[str, Any]:
    section: dict[str, Any] = json.loads(switched(data, PolicyChoice(name, **given), pool))
    return section


def test_the_cluster_is_switched_and_other_settings_stay() -> None:
    assert after(stored(enable=True, cpuReclaimThresholdPercent=70), "adaptive", mark_percent=80) == {
        "enable": True,
        "cpuReclaimThresholdPercent": 70,
        "cpuCalculatePolicy": "adaptive",
        "memoryCalculatePolicy": "adaptive",
        "cpuSafetyMarkPercent": 80,
    }


def test_the_default_policy_is_not_written_but_what_it_replaces_is_taken_away() -> None:
    adaptive = after(stored(enable=True), "adaptive", mark_percent=80)
    assert after(stored(**adaptive), "usage") == {"enable": True}


def test_one_resource_is_switched_alone() -> None:
    assert after(stored(), "request", resources=("memory",)) == {"memoryCalculatePolicy": "request"}


def test_a_pool_has_an_item_of_its_own_which_goes_when_it_says_nothing_more() -> None:
    section = after(stored(enable=True), "adaptive", POOL)
    (item,) = section["nodeConfigs"]
    assert item["nodeSelector"] == {"matchLabels": {"pool": "batch"}}
    assert item["cpuCalculatePolicy"] == item["memoryCalculatePolicy"] == "adaptive"
    assert after(stored(**section), "usage", POOL) == {"enable": True}


def test_a_pool_may_keep_the_default_where_the_cluster_does_not() -> None:
    section = after(stored(cpuCalculatePolicy="adaptive", memoryCalculatePolicy="adaptive"), "usage", POOL)
    assert section["nodeConfigs"][0]["cpuCalculatePolicy"] == "usage"
    config = parse(stored(**section))
    assert config.for_node({"pool": "batch"}, {}).node_slo.lending_strategy is None
    assert config.for_node({}, {}).colocation.cpu_calculate_policy == "adaptive"


@given(st.lists(st.tuples(st.sampled_from(["usage", "maxUsageRequest", "adaptive"]), st.booleans()), max_size=6))
def test_whatever_was_switched_the_way_back_leaves_the_section_as_it_was(steps: list[tuple[str, bool]]) -> None:
    data = stored(enable=True, nodeConfigs=[{"name": "own", "nodeSelector": {"matchLabels": {"a": "b"}}}])
    for name, of_pool in steps:
        data = {"colocation-config": switched(data, PolicyChoice(name), POOL if of_pool else None)}
    data = {"colocation-config": switched(data, PolicyChoice("usage"), None)}
    section = json.loads(switched(data, PolicyChoice("usage"), POOL))
    assert section == {
        "enable": True,
        "nodeConfigs": [{"name": "own", "nodeSelector": {"matchLabels": {"a": "b"}}}],
    }


@pytest.mark.parametrize(
    ("name", "given_", "message"),
    [
        ("fancy", {}, "no policy 'fancy' for cpu: it must be usage or maxUsageRequest or adaptive"),
        ("request", {}, "no policy 'request' for cpu"),
        ("usage", {"mark_percent": 80}, "a safety mark goes with the policy adaptive"),
        ("adaptive", {"resources": ("memory",), "mark_percent": 80}, "a safety mark goes with the policy adaptive"),
    ],
)
def test_what_makes_no_sense_is_refused(name: str, given_: dict[str, Any], message: str) -> None:
    with pytest.raises(SwitchError, match=message):
        PolicyChoice(name, **given_)


def test_adaptive_is_refused_where_suppression_was_switched_off_by_hand() -> None:
    data = {**stored(enable=True), "resource-threshold-config": json.dumps({"clusterStrategy": {"enable": False}})}
    choice = PolicyChoice("adaptive")
    config = parse({**data, "colocation-config": switched(data, choice, None)})
    with pytest.raises(SwitchError, match=r"resource-threshold-config\.clusterStrategy\.enable is false"):
        require_effect(config, choice, [("n1", {})], of_pool=False)
    memory = PolicyChoice("adaptive", ("memory",))
    require_effect(
        parse({**data, "colocation-config": switched(data, memory, None)}), memory, [("n1", {})], of_pool=False
    )


def test_a_pool_whose_nodes_another_item_picks_first_is_refused() -> None:
    first = {"name": "first", "nodeSelector": {"matchLabels": {"zone": "a"}}, "cpuReclaimThresholdPercent": 50}
    data, choice = stored(enable=True, nodeConfigs=[first]), PolicyChoice("adaptive")
    config = parse({"colocation-config": switched(data, choice, POOL)})
    require_effect(config, choice, [("n1", {"pool": "batch"})], of_pool=True)
    with pytest.raises(SwitchError, match=r"nodeConfigs\[0\] picks node n2 too"):
        require_effect(config, choice, [("n2", {"pool": "batch", "zone": "a"})], of_pool=True)
