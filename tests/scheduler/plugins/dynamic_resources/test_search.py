"""Which devices claims get: the worked examples."""

from __future__ import annotations

from typing import Any

import pytest

from koord.api.kubernetes.dynamic_resources import DeviceClass, DeviceTaintRule
from koord.api.machinery.codec import convert
from koord.scheduler.plugins.dynamic_resources.requests import Unanswerable, wanted_of
from tests.scheduler.plugins.dynamic_resources.build import (
    ANY,
    allocated,
    claim,
    device,
    having,
    holding,
    names,
    of_model,
    request,
    slice_,
)

NUMA = "d/numa"


def on_numa(name: str, numa: int) -> dict[str, Any]:
    return {"name": name, "attributes": {"numa": {"int": numa}}}


def test_devices_are_tried_by_pool_then_slice_then_as_listed() -> None:
    slices = [
        slice_("t", "w", pool="b"),
        slice_("s2", "x", "y", pool="a", count=2),
        slice_("s1", "z", pool="a", count=2),
    ]
    assert names(allocated([claim("c", request(count=2))], slices)) == [["r: a/z", "r: a/x"]]


def test_a_pool_whose_other_slices_are_for_other_nodes_is_complete() -> None:
    mine, other = (slice_(name, "x", node=name, generation=2, count=2) for name in ("n1", "n2"))
    assert names(allocated([claim("c")], [mine, other])) == [["r: p/x"]]


def test_a_pool_with_a_missing_slice_is_not_used() -> None:
    assert allocated([claim("c")], [slice_("n1", "x", generation=2, count=2)]) == "no"


def test_a_pool_with_a_newer_generation_elsewhere_is_not_used() -> None:
    old, new = slice_("s1", "x", count=2), slice_("s2", "x", node="n2", generation=2, count=1)
    assert allocated([claim("c")], [old, new]) == "no"
    # The only slice of its generation is used as long as the driver does not replace it.
    assert names(allocated([claim("c")], [slice_("s1", "x", count=1), new])) == [["r: p/x"]]


def test_two_devices_of_one_name_make_a_pool_invalid() -> None:
    assert allocated([claim("c")], [slice_("s1", "x", count=2), slice_("s2", "x", count=2)]) == "no"


def test_devices_with_one_value_of_an_attribute_are_found_behind_others() -> None:
    slices = [slice_("s", on_numa("d1", 0), on_numa("d2", 1), on_numa("d3", 0))]
    wanted = claim("c", request(count=2), constraints=[{"matchAttribute": NUMA}])
    assert names(allocated([wanted], slices)) == [["r: p/d1", "r: p/d3"]]


def test_devices_with_distinct_values_of_an_attribute() -> None:
    slices = [slice_("s", on_numa("d1", 0), on_numa("d2", 0), on_numa("d3", 1))]
    wanted = claim("c", request(count=2), constraints=[{"distinctAttribute": NUMA}])
    assert names(allocated([wanted], slices)) == [["r: p/d1", "r: p/d3"]]
    assert allocated([claim("c", request(count=3), constraints=[{"distinctAttribute": NUMA}])], slices) == "no"


def test_an_earlier_claim_leaves_a_device_that_only_a_later_one_can_use() -> None:
    slices = [slice_("s", device("x", "a"), device("y", "b"))]
    claims = [claim("A"), claim("B", request(where=[of_model("a")]))]
    assert names(allocated(claims, slices)) == [["r: p/y"], ["r: p/x"]]


def test_the_first_alternative_that_is_available_is_taken() -> None:
    either = {
        "name": "r",
        "firstAvailable": [
            {"name": "s0", **request(count=2, where=[of_model("a")])["exactly"]},
            {"name": "s1", **request(where=[of_model("b")])["exactly"]},
        ],
    }
    slices = [slice_("s", device("x", "a"), device("y", "b"))]
    assert names(allocated([claim("c", either)], slices)) == [["r/s1: p/y"]]
    both = [slice_("s", device("x", "a"), device("y", "b"), device("z", "a"))]
    assert names(allocated([claim("c", either)], both)) == [["r/s0: p/x", "r/s0: p/z"]]


def test_admin_access_uses_a_device_that_another_claim_has() -> None:
    admin, normal = request("r0", adminAccess=True), request("r1")
    slices = [slice_("s", "x")]
    assert allocated([claim("c", admin, normal)], slices) == "no"
    assert names(allocated([claim("a"), claim("b", admin)], slices)) == [["r: p/x"], ["r0: p/x"]]
    assert names(allocated([claim("b", admin)], slices, usage=holding(a=having("x")))) == [["r0: p/x"]]
    assert allocated([claim("b")], slices, usage=holding(a=having("x"))) == "no"
    seen = holding(a=having("x", adminAccess=True))
    assert names(allocated([claim("b")], slices, usage=seen)) == [["r: p/x"]]


def shared(value: str, **policy: Any) -> dict[str, Any]:
    capacity = {"value": value, **({"requestPolicy": policy} if policy else {})}
    return {"name": "x", "allowMultipleAllocations": True, "capacity": {"memory": capacity}}


@pytest.mark.parametrize(
    ("policy", "asked", "gets"),
    [
        # max(2, 3) = 3, rounded up to 2 + 1 * 2 = 4
        ({"default": "2Gi", "validRange": {"min": "2Gi", "step": "2Gi", "max": "12Gi"}}, "3Gi", "4Gi"),
        ({"default": "2Gi", "validRange": {"min": "2Gi", "step": "2Gi", "max": "12Gi"}}, "13Gi", None),
        ({"default": "2Gi", "validRange": {"min": "2Gi"}}, "1Gi", "2Gi"),
        ({"default": "1", "validRange": {"min": "500m", "step": "250m"}}, "600m", "750m"),
        ({"default": "10Gi", "validValues": ["10Gi", "20Gi"]}, "11Gi", "20Gi"),
        ({"default": "10Gi", "validValues": ["10Gi", "20Gi"]}, "21Gi", None),
        ({"default": "10Gi", "validValues": ["10Gi", "20Gi"]}, None, "10Gi"),
        ({}, "7Gi", "7Gi"),
        ({}, None, "40Gi"),
        ({}, "41Gi", None),
    ],
)
def test_what_a_share_consumes(policy: dict[str, Any], asked: str | None, gets: str | None) -> None:
    more: dict[str, Any] = {"capacity": {"requests": {"memory": asked}}} if asked else {}
    wanted = request(**more)
    result = allocated([claim("c", wanted)], [slice_("s", shared("40Gi", **policy))])
    if gets is None:
        assert result == "no"
        return
    assert not isinstance(result, str)
    (share,) = result[0].devices.results
    assert share.consumed_capacity == {"memory": gets}
    assert len(share.share_id) == 36


def test_shares_of_a_device_do_not_exceed_it() -> None:
    usage = holding(a=having("x", shareID="one", consumedCapacity={"memory": "30Gi"}))
    slices = [slice_("s", shared("40Gi"))]

    def asking(amount: str) -> list[list[str]] | str:
        wanted = request(capacity={"requests": {"memory": amount}})
        return names(allocated([claim("c", wanted)], slices, usage=usage))

    assert asking("11Gi") == "no"
    assert asking("10Gi") == [["r: p/x"]]
    # Two shares in one search count together: 6 + 6 > 10.
    halves = [claim(name, request(capacity={"requests": {"memory": "6Gi"}})) for name in ("c", "d")]
    assert allocated(halves, slices, usage=usage) == "no"


def test_a_request_for_a_capacity_that_is_too_large_keeps_off_exclusive_devices() -> None:
    small, large = (
        {"name": name, "capacity": {"memory": {"value": value}}} for name, value in (("s", "16Gi"), ("l", "40Gi"))
    )
    wanted = request(capacity={"requests": {"memory": "20Gi"}})
    result = allocated([claim("c", wanted)], [slice_("s", small, large, "none")])
    assert names(result) == [["r: p/l"]]
    assert not isinstance(result, str)
    assert not result[0].devices.results[0].consumed_capacity


def part(name: str, amount: str) -> dict[str, Any]:
    consumes = [{"counterSet": "card", "counters": {"memory": {"value": amount}}}]
    return {"name": name, "consumesCounters": consumes}


def test_parts_of_a_card_share_its_counters() -> None:
    card: dict[str, Any] = {"sharedCounters": [{"name": "card", "counters": {"memory": {"value": "40Gi"}}}]}
    slices = [
        slice_("a", part("whole", "40Gi"), part("half-1", "20Gi"), part("half-2", "20Gi"), count=2),
        slice_("b", count=2, **card),
    ]
    assert names(allocated([claim("c")], slices)) == [["r: p/whole"]]
    usage = holding(other=having("half-1"))
    assert names(allocated([claim("c")], slices, usage=usage)) == [["r: p/half-2"]]
    assert allocated([claim("c", request(count=2))], slices, usage=usage) == "no"
    unknown = [slice_("a", part("whole", "40Gi"))]
    assert allocated([claim("c")], unknown) == "no"


def test_a_tainted_device_needs_a_toleration() -> None:
    tainted = device("x", taints=[{"key": "broken", "effect": "NoSchedule"}])
    tolerant = request(tolerations=[{"key": "broken", "operator": "Exists"}])
    assert allocated([claim("c")], [slice_("s", tainted)]) == "no"
    assert names(allocated([claim("c", tolerant)], [slice_("s", tainted)])) == [["r: p/x"]]
    harmless = device("x", taints=[{"key": "old", "effect": "None"}])
    assert names(allocated([claim("c")], [slice_("s", harmless)])) == [["r: p/x"]]


def test_a_rule_taints_the_devices_that_it_means() -> None:
    selector = {"driver": "d", "pool": "p", "device": "x"}
    rule = convert(
        DeviceTaintRule, {"spec": {"deviceSelector": selector, "taint": {"key": "broken", "effect": "NoExecute"}}}
    )
    assert names(allocated([claim("c")], [slice_("s", "x", "y")], rules=[rule])) == [["r: p/y"]]


def test_all_devices_means_also_those_that_are_taken() -> None:
    everything = claim("c", request(allocationMode="All"))
    assert names(allocated([everything], [slice_("s", "x", "y")])) == [["r: p/x", "r: p/y"]]
    assert allocated([everything], [slice_("s", "x", "y")], usage=holding(a=having("y"))) == "no"
    assert allocated([everything], []) == "no"


def test_all_devices_waits_for_pools_of_their_driver_only() -> None:
    everything = claim("c", request(allocationMode="All"))
    whole, changing = slice_("s", "x"), slice_("t", "y", pool="q", count=2)
    why = "request r: asks for all devices, but resource pool d/q is currently being updated"
    assert allocated([everything], [whole, changing]) == why
    others = slice_("t", "y", pool="q", driver="other", count=2)
    of_d = claim("c", request(allocationMode="All", where=['device.driver == "d"']))
    assert names(allocated([of_d], [whole, others])) == [["r: p/x"]]


def test_a_selector_that_fails_on_a_device_does_not_select_it_and_says_so() -> None:
    fragile = 'device.attributes["d"].model == "a"'
    slices = [slice_("s", device("x", "a"), "y")]
    assert names(allocated([claim("c", request(where=[fragile]))], slices)) == [["r: p/x"]]
    for more in ({"count": 2}, {"allocationMode": "All"}):
        why = allocated([claim("c", request(where=[fragile], **more))], slices)
        assert isinstance(why, str)
        assert why.startswith("class any: selector #0 on device d/p/y: CEL runtime error: no ")


def test_a_claim_cannot_have_more_than_32_devices() -> None:
    requests = [request(f"r{i}", count=11) for i in range(3)]
    with pytest.raises(Unanswerable, match="number of requested devices 33 exceeds the claim limit of 32"):
        wanted_of(claim("c", *requests), {"any": ANY})
    with pytest.raises(Unanswerable, match="request r: device class none does not exist"):
        wanted_of(claim("c", request(device_class="none")), {})


def test_devices_that_must_be_prepared_come_last() -> None:
    prepared = device("x", bindingConditions=["ready"], bindsToNode=True)
    slices = [slice_("s", prepared, pool="a", node=None, allNodes=True), slice_("t", "y", pool="b")]
    assert names(allocated([claim("c")], slices)) == [["r: b/y"]]
    result = allocated([claim("c", request(count=2))], slices)
    assert names(result) == [["r: b/y", "r: a/x"]]
    assert not isinstance(result, str)
    assert result[0].allocation_timestamp is not None
    assert result[0].devices.results[1].binding_conditions == ("ready",)


def test_which_nodes_can_use_the_devices_of_a_claim() -> None:
    def selector_of(*slices: Any, **labels: Any) -> Any:
        result = allocated([claim("c", request(count=len(slices)))], slices, **labels)
        assert not isinstance(result, str)
        return result[0].node_selector

    on_node = selector_of(slice_("s", "x"))
    assert on_node.node_selector_terms[0].match_fields[0].values == ("n1",)
    assert selector_of(slice_("s", "x", node=None, allNodes=True)) is None
    rack = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "rack", "operator": "In", "values": ["r1"]}]}]}
    slices = [slice_(name, name, pool=name, node=None, nodeSelector=rack) for name in ("s", "t")]
    (term,) = selector_of(*slices, rack="r1").node_selector_terms
    assert [item.key for item in term.match_expressions] == ["rack"]


def test_a_device_may_say_itself_where_it_can_be_used() -> None:
    here, there = device("x", nodeName="n2"), device("y", nodeName="n1")
    slices = [slice_("s", here, there, node=None, perDeviceNodeSelection=True)]
    assert names(allocated([claim("c")], slices)) == [["r: p/y"]]
    assert names(allocated([claim("c")], slices, node="n2")) == [["r: p/x"]]


def test_configurations_of_classes_and_claims_are_passed_on() -> None:
    config = {"opaque": {"driver": "d", "parameters": {"mode": "fast"}}}
    class_ = convert(DeviceClass, {"metadata": {"name": "fast"}, "spec": {"config": [config]}})
    wanted = claim(
        "c",
        request("r0", "fast"),
        request("r1", "fast"),
        config=[{"requests": ["r1"], **config}, {"requests": ["other"], **config}, config],
    )
    result = allocated([wanted], [slice_("s", "x", "y")], classes={"fast": class_})
    assert not isinstance(result, str)
    said = [(item.source, item.requests) for item in result[0].devices.config]
    assert said == [("FromClass", ("r0", "r1")), ("FromClaim", ("r1",)), ("FromClaim", ())]


def test_a_search_that_is_too_hard_ends_and_says_so() -> None:
    slices = [slice_("s", *(on_numa(f"d{i}", i) for i in range(40)))]
    wanted = claim("c", request(count=12), constraints=[{"matchAttribute": "d/absent"}])
    assert allocated([wanted], slices) == "no"
    hard = claim(
        "c", request("a", count=10), request("b", count=10), constraints=[{"requests": ["b"], "matchAttribute": NUMA}]
    )
    assert allocated([hard], slices) == "no allocation was found within 20000 steps"


def test_a_shared_device_without_enough_left_is_none_of_all_devices() -> None:
    usage = holding(a=having("x", shareID="one", consumedCapacity={"memory": "30Gi"}))
    wanted = request(allocationMode="All", capacity={"requests": {"memory": "20Gi"}})
    slices = [slice_("s", shared("40Gi"), {**shared("40Gi"), "name": "y"})]
    assert names(allocated([claim("c", wanted)], slices, usage=usage)) == [["r: p/y"]]


def test_a_pool_comes_last_also_for_devices_of_other_nodes_that_must_be_prepared() -> None:
    elsewhere = device("x", bindingConditions=["ready"], nodeName="n2")
    mixed = slice_("s", elsewhere, device("y", nodeName="n1"), pool="a", node=None, perDeviceNodeSelection=True)
    assert names(allocated([claim("c")], [mixed, slice_("t", "z", pool="b")])) == [["r: b/z"]]
