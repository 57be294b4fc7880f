"""All faults of an input at once, each with its path and what would be right."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Literal

import pytest
from msgspec import Meta

from koord.api.machinery.faults import BadInput, Fault, Invalid, check, join
from koord.api.machinery.struct import EMPTY, Struct, json_name


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


def _even(value: object) -> None:
    if isinstance(value, int) and value % 2:
        raise ValueError("must be even")


class Inner(Struct):
    percent: Annotated[int, Meta(ge=0, le=100)] = 0
    policy: Literal["auto", "none"] = "auto"
    even: Annotated[int, Meta(extra={"check": _even})] = 0


class Outer(Struct):
    name: str
    inner: Inner | None = None
    items: tuple[Inner, ...] = ()
    weights: Mapping[str, Annotated[int, Meta(ge=1)]] = EMPTY
    size: int | str = 0
    colour: Colour = Colour.RED
    ratio: Annotated[float, Meta(gt=0, le=1)] = 1.0


def faults_of(data: object) -> dict[str, str]:
    with pytest.raises(Invalid) as refused:
        check(Outer, data, "settings")
    return {fault.path: fault.message for fault in refused.value.faults}


def test_good_input_becomes_the_typed_object() -> None:
    found = check(Outer, {"name": "a", "items": [{"percent": 7}], "weights": {"cpu": 2}, "size": "10%"}, "settings")
    assert found == Outer("a", items=(Inner(percent=7),), weights={"cpu": 2}, size="10%")


def test_every_fault_is_reported_with_its_path() -> None:
    found = faults_of(
        {
            "inner": {"percent": 101, "policy": "always"},
            "items": [{}, {"percent": "7"}, 3],
            "weights": {"cpu": 0, "kubernetes.io/batch-cpu": "x"},
            "size": [],
            "colour": "green",
            "ratio": 0,
        }
    )
    assert set(found) == {
        "name",
        "inner.percent",
        "inner.policy",
        "items[1].percent",
        "items[2]",
        "weights.cpu",
        "weights[kubernetes.io/batch-cpu]",
        "size",
        "colour",
        "ratio",
    }


@pytest.mark.parametrize(
    ("data", "path", "said"),
    [
        ({"name": "a", "inner": {"percent": 101}}, "inner.percent", ["from 0 to 100", "101"]),
        ({"name": "a", "inner": {"policy": "always"}}, "inner.policy", ["auto", "none", "always"]),
        ({"name": "a", "inner": {"even": 3}}, "inner.even", ["even"]),
        ({"name": "a", "ratio": 0}, "ratio", ["above 0"]),
        ({"name": "a", "weights": {"cpu": 0}}, "weights.cpu", ["at least 1"]),
        ({"name": "a", "colour": ["red"]}, "colour", ["red", "blue"]),
        ({"name": True}, "name", ["string", "true"]),
        ({"name": "a", "nmae": "b"}, "nmae", ["unknown", "did you mean name"]),
        ({}, "name", ["required"]),
    ],
)
def test_a_fault_says_what_would_be_valid(data: object, path: str, said: list[str]) -> None:
    message = faults_of(data)[path]
    assert all(word in message for word in said), message


def test_nulls_count_as_absent() -> None:
    assert check(Outer, {"name": "a", "inner": None, "items": None, "weights": {"cpu": None}}, "x") == Outer("a")


def test_unknown_fields_can_be_allowed() -> None:
    assert check(Outer, {"name": "a", "extra": 1}, "settings", allow_unknown=True) == Outer("a")


def test_a_refusal_is_bad_input_and_names_what_was_refused() -> None:
    one = Invalid("settings", [Fault("a.b", "is required")])
    many = Invalid("settings", [Fault("a", "is required"), Fault("", "is empty")])
    assert isinstance(one, BadInput)
    assert str(one) == "settings: a.b: is required"
    assert str(many).splitlines() == ["settings: 2 faults", "  a: is required", "  is empty"]


def test_paths_join_as_users_write_them() -> None:
    assert join("spec", "[0]") == "spec[0]"
    assert join("spec", "a.b") == "spec.a.b"
    assert Fault("b", "x").under("a") == Fault("a.b", "x")


@pytest.mark.parametrize(
    ("python", "json"),
    [
        ("name", "name"),
        ("node_name", "nodeName"),
        ("mid_cpu_threshold_percent", "midCPUThresholdPercent"),
        ("cpu_qos", "cpuQOS"),
        ("host_ip", "hostIP"),
        ("continue_", "continue"),
        ("read_iops", "readIOPS"),
    ],
)
def test_json_names_follow_from_python_names(python: str, json: str) -> None:
    assert json_name(python) == json
