"""What selectors see of a device."""

from __future__ import annotations

import pytest

from koord.api.kubernetes.dynamic_resources import Device
from koord.api.machinery.codec import convert
from koord.scheduler.plugins.dynamic_resources.expressions import device_value, selects

DEVICE = device_value(
    "gpu.example.com",
    convert(
        Device,
        {
            "name": "gpu-0",
            "attributes": {
                "model": {"string": "a100"},
                "driverVersion": {"version": "1.2.3"},
                "x.org/nodes": {"int": 3},
                "ecc": {"bool": True},
            },
            "capacity": {"memory": {"value": "80Gi"}},
        },
    ),
)
OWN = 'device.attributes["gpu.example.com"]'


@pytest.mark.parametrize(
    "expression",
    [
        'device.driver == "gpu.example.com"',
        f'{OWN}.model == "a100" && {OWN}.ecc',
        f'{OWN}.driverVersion.isGreaterThan(semver("1.0.0"))',
        f"{OWN}.driverVersion.major() == 1",
        'device.attributes["x.org"].nodes > 2',
        'device.capacity["gpu.example.com"].memory.compareTo(quantity("80Gi")) == 0',
        "!device.allowMultipleAllocations",
        '!("other.org" in device.attributes) && !has(device.attributes["other.org"].model)',
        f'cel.bind(own, {OWN}, has(own.model) && own.model.startsWith("a"))',
        f'{OWN}.?model.orValue("") in ["a100", "h100"]',
    ],
)
def test_a_device_is_selected_by(expression: str) -> None:
    assert selects(expression, DEVICE) is True


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        (f"{OWN}.absent == 1", "CEL runtime error: no "),
        ('device.attributes["other.org"].model == ""', "CEL runtime error: no "),
        (f"{OWN}.model", "CEL runtime error: the result is not a bool: a100"),
        ("1 +", "CEL compile error: "),
        ('"a100"', "CEL compile error: must evaluate to bool or the unknown type, not string"),
        ("device.absent", "CEL compile error: "),
        ("true" + " || true" * 2000, "CEL compile error: too long: 16004 characters, at most 10240 are allowed"),
    ],
)
def test_why_it_cannot_be_told(expression: str, why: str) -> None:
    answer = selects(expression, DEVICE)
    assert isinstance(answer, str)
    assert answer.startswith(why)


def test_what_an_expression_may_cost_is_bounded() -> None:
    loops = "[1,2,3,4,5,6,7,8,9,10]"
    many = "true"
    for name in "abcdefg":
        many = f"{loops}.all({name}, {many})"
    assert selects(many, DEVICE) == "CEL runtime error: operation cancelled: actual cost limit exceeded"
