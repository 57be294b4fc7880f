"""LimitRanges: what pods of a namespace may ask for. Smallest, usual and largest amounts must be in that order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from koord.api.kubernetes.pod_admission import LIMIT_KEYS, default_limit_range
from koord.api.kubernetes.resource_names import may_overcommit
from koord.api.text import formats
from koord.api.text.quantity import Number, canonical, compare, milli, value
from koord_minicluster.apiserver.builtin.checks import Faults, Part, add_all
from koord_minicluster.apiserver.builtin.resource_amounts import (
    container_resource_name,
    resource_name,
)
from koord_minicluster.apiserver.printing import CREATED_AT, NAME
from koord_minicluster.apiserver.resource import Obj, Strategy
from koord_minicluster.apiserver.status import Cause, duplicate, forbidden, invalid, required

_TYPES: Final = ("Pod", "Container", "PersistentVolumeClaim")
_LARGEST_IN_THOUSANDTHS: Final = (2**63 - 1) // 1000

Amounts = Mapping[str, Number]


def validate(obj: Obj) -> Sequence[Cause]:
    faults: Faults = []
    seen: set[str] = set()
    for i, item in enumerate((obj.get("spec") or {}).get("limits") or ()):
        path, kind = f"spec.limits[{i}]", item.get("type", "")
        _type(faults, kind, f"{path}.type")
        if kind in seen:
            faults.append(duplicate(f"{path}.type", kind))
        seen.add(kind)
        _item(faults, item, kind, path)
    return faults


def _type(faults: Faults, kind: str, path: str) -> None:
    if texts := formats.label_key(kind):
        add_all(faults, path, kind, texts)
    elif "/" not in kind and kind not in _TYPES:
        faults.append(invalid(path, kind, "must be a standard limit type or fully qualified"))


def _item(faults: Faults, item: Part, kind: str, path: str) -> None:
    name_check = container_resource_name if kind in ("Pod", "Container") else resource_name
    amounts: dict[str, Amounts] = {key: item.get(key) or {} for key in LIMIT_KEYS}
    if kind == "Pod":
        for key in ("default", "defaultRequest"):
            if amounts[key]:
                faults.append(forbidden(f"{path}.{key}", "may not be specified when `type` is 'Pod'"))
            amounts[key] = {}
    for key in LIMIT_KEYS[:4]:
        _names(faults, amounts[key], f"{path}.{key}", name_check)
    if kind == "PersistentVolumeClaim" and "storage" not in amounts["min"] and "storage" not in amounts["max"]:
        text = "either minimum or maximum storage value is required, but neither was provided"
        faults.append(required(f"{path}.limits", text))
    _names(faults, amounts["maxLimitRequestRatio"], f"{path}.maxLimitRequestRatio", name_check)
    for name in sorted({name for amounts_of in amounts.values() for name in amounts_of}):
        faults += _order(name, [amounts[key].get(name) for key in LIMIT_KEYS], path)


def _names(faults: Faults, amounts: Amounts, path: str, check: Callable[[Faults, str, str], None]) -> None:
    for name in sorted(amounts):
        check(faults, name, f"{path}[{name}]")


def _order(name: str, of_keys: Sequence[Number | None], path: str) -> Iterator[Cause]:
    """That of one resource no amount contradicts another."""
    most, least, usual, request, ratio = of_keys

    def above(one: Number | None, other: Number | None) -> bool:
        return one is not None and other is not None and compare(one, other) > 0

    def fault(key: str, amount: Number | None, text: str) -> Cause:
        return invalid(f"{path}.{key}[{name}]", canonical(amount or 0), text)

    if above(least, most):
        yield fault("min", least, f"min value {least} is greater than max value {most}")
    if above(least, request):
        yield fault("defaultRequest", request, f"min value {least} is greater than default request value {request}")
    if above(request, most):
        yield fault("defaultRequest", request, f"default request value {request} is greater than max value {most}")
    if above(request, usual):
        text = f"default request value {request} is greater than default limit value {usual}"
        yield fault("defaultRequest", request, text)
    if above(least, usual):
        yield fault("default", least, f"min value {least} is greater than default value {usual}")
    if above(usual, most):
        yield fault("default", most, f"default value {usual} is greater than max value {most}")
    if ratio is not None and compare(ratio, 1) < 0:
        yield fault("maxLimitRequestRatio", ratio, f"ratio {ratio} is less than 1")
    if ratio is not None and least is not None and most is not None:
        asked, limit = _ratio(ratio, least, most)
        if asked > limit:
            yield fault("maxLimitRequestRatio", ratio, f"ratio {ratio} is greater than max/min = {limit:f}")
    if not may_overcommit(name) and usual is not None and request is not None and compare(usual, request) != 0:
        text = f"default value {usual} must equal to defaultRequest value {request} in {name}"
        yield fault("defaultRequest", request, text)


def _ratio(ratio: Number, least: Number, most: Number) -> tuple[float, float]:
    """The ratio asked for, and the one between the largest amount and the smallest."""
    asked, low, high = float(value(ratio)), value(least), value(most)
    if max(value(ratio), low, high) < _LARGEST_IN_THOUSANDTHS:
        asked, low, high = milli(ratio) / 1000, milli(least), milli(most)
    if low == 0:
        return asked, float("inf")
    return asked, high / low


LIMIT_RANGE: Final = Strategy(
    default=default_limit_range,
    validate=validate,
    columns=(NAME, CREATED_AT),
    has_status=False,
    has_generation=False,
    allow_create_on_update=True,
)
