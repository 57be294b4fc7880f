"""CEL selectors of devices: whether a device is one that a class or a request means.

An expression sees one variable, `device`, with its driver, attributes and capacity. The name of an attribute without a
domain belongs to the domain of the driver. A domain that a device does not have is an empty map. An expression that
fails on a device does not select it, and the failure is reported.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from koord.api.cel import types
from koord.api.cel.expressions import Expression, compiled
from koord.api.cel.kubernetes import OVERLOADS
from koord.api.cel.signatures import QUANTITY
from koord.api.cel.syntax import CelError
from koord.api.cel.types import BOOL, DYN, STRING, Type
from koord.api.cel.values import Absent
from koord.api.kubernetes.dynamic_resources import Device, DeviceAttribute

LONGEST: Final = 10 * 1024
_DEVICE: Final = Type(
    "struct",
    "kubernetes.DRADevice",
    fields={
        "driver": STRING,
        "allowMultipleAllocations": BOOL,
        "attributes": types.map_of(STRING, types.map_of(STRING, DYN)),
        "capacity": types.map_of(STRING, types.map_of(STRING, QUANTITY)),
    },
)
_semver: Final = OVERLOADS["string_to_semver"]
_quantity: Final = OVERLOADS["string_to_quantity"]


@lru_cache(4096)
def selector(source: str) -> Expression | CelError:
    """The expression, or why it is none."""
    if len(source) > LONGEST:
        return CelError(f"too long: {len(source)} characters, at most {LONGEST} are allowed")
    try:
        expression = compiled(source, {"device": _DEVICE}, binds=True)
    except CelError as error:
        return error
    if expression.type not in (BOOL, DYN):
        return CelError(f"must evaluate to bool or the unknown type, not {expression.type}")
    return expression


def selects(source: str, device: Mapping[str, Any]) -> bool | str:
    """Whether an expression means a device (`device_value` of it); in words, why that cannot be told."""
    expression = selector(source)
    if isinstance(expression, CelError):
        return f"CEL compile error: {expression}"
    value, _ = expression.evaluate({"device": device})
    if isinstance(value, CelError):
        return f"CEL runtime error: {value}"
    if not isinstance(value, bool):
        return f"CEL runtime error: the result is not a bool: {value}"
    return value


def device_value(driver: str, device: Device) -> Mapping[str, Any]:
    """A device as expressions see it."""
    attributes, capacity = Absent(), Absent()
    for name, attribute in device.attributes.items():
        domain, _, key = name.rpartition("/")
        value = _attribute(attribute)
        if value is not None:
            attributes.setdefault(domain or driver, {})[key] = value
    for name, amount in device.capacity.items():
        domain, _, key = name.rpartition("/")
        capacity.setdefault(domain or driver, {})[key] = _quantity(str(amount.value))
    return {
        "driver": driver,
        "allowMultipleAllocations": device.allow_multiple_allocations,
        "attributes": attributes,
        "capacity": capacity,
    }


def _attribute(attribute: DeviceAttribute) -> Any:
    if attribute.version is not None:
        try:
            return _semver(attribute.version)
        except CelError:
            return None
    plain = (attribute.int_, attribute.bool_, attribute.string)
    return next((value for value in plain if value is not None), None)
