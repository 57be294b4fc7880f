"""Functions of lists, sets and optional values, by the identifiers of their overloads."""

from __future__ import annotations

from collections.abc import Callable
from functools import cmp_to_key
from itertools import pairwise
from typing import Any, Final

from koord.api.cel import standard
from koord.api.cel.syntax import CelError, CostExceeded
from koord.api.cel.types import SIMPLE
from koord.api.cel.values import NONE, Duration, Maybe, Uint, compare, equal, is_zero, type_name

_LONGEST: Final = 1_000_000
_ZEROS: Final[dict[str, Any]] = {"int": 0, "uint": Uint(0), "double": 0.0, "duration": Duration(0)}
_SUMS: Final = {"int": "add_int64", "uint": "add_uint64", "double": "add_double", "duration": "add_duration_duration"}
_COMPARABLE: Final = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")


def _sum(kind: str) -> Callable[[list[Any]], Any]:
    zero, add = _ZEROS[kind], standard.OVERLOADS[_SUMS[kind]]

    def total(items: list[Any]) -> Any:
        total = zero
        for item in items:
            total = add(total, item)
        return total

    return total


def _is_sorted(items: list[Any]) -> bool:
    return all(compare(before, after) <= 0 for before, after in pairwise(items))


def _extreme(name: str, sign: int) -> Callable[[list[Any]], Any]:
    def find(items: list[Any]) -> Any:
        if not items:
            raise CelError(f"{name} called on empty list")
        extreme = items[0]
        for item in items[1:]:
            if compare(item, extreme) == sign:
                extreme = item
        return extreme

    return find


def _index_of(items: list[Any], wanted: Any) -> int:
    return next((i for i, item in enumerate(items) if equal(item, wanted)), -1)


def _last_index_of(items: list[Any], wanted: Any) -> int:
    return next((i for i in reversed(range(len(items))) if equal(items[i], wanted)), -1)


def _holds_all(items: list[Any], others: list[Any]) -> bool:
    return all(standard.contains(wanted, items) for wanted in others)


def _slice(items: list[Any], start: int, end: int) -> list[Any]:
    if start < 0 or end < 0:
        raise CelError(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise CelError(f"cannot slice({start}, {end}), start index must be less than or equal to end index")
    if len(items) < end:
        raise CelError(f"cannot slice({start}, {end}), list is length {len(items)}")
    return list(items[start:end])


def _flatten(items: list[Any], depth: int = 1) -> list[Any]:
    if depth < 0:
        raise CelError("level must be non-negative")
    made: list[Any] = []
    for item in items:
        if isinstance(item, list) and depth:
            made += _flatten(item, depth - 1)
        else:
            made.append(item)
    return made


def _range(count: int) -> list[int]:
    if count > _LONGEST:
        raise CostExceeded
    return list(range(count))


def _distinct(items: list[Any]) -> list[Any]:
    made: list[Any] = []
    for item in items:
        if not any(equal(item, other) for other in made):
            made.append(item)
    return made


def _sorted_by(items: list[Any], keys: list[Any]) -> list[Any]:
    if len(items) != len(keys):
        text = "@sortByAssociatedKeys() expected a list of the same size as the associated keys list"
        raise CelError(f"{text}, but got {len(items)} and {len(keys)} elements respectively")
    if len({type_name(key) for key in keys}) > 1:
        raise CelError("list elements must have the same type")
    pairs: list[tuple[Any, Any]] = list(zip(keys, items, strict=True))
    pairs.sort(key=cmp_to_key(_compare_keys))
    return [item for _, item in pairs]


def _compare_keys(one: tuple[Any, Any], other: tuple[Any, Any]) -> int:
    return compare(one[0], other[0])


def _sorted(items: list[Any]) -> list[Any]:
    return _sorted_by(items, items)


def _inserted(into: dict[Any, Any], *more: Any) -> dict[Any, Any]:
    new = {more[0]: more[1]} if len(more) == 2 else more[0]
    for key in new:
        if key in into:
            raise CelError(f"insert failed: key {standard.text_of(key)} already exists")
    return {**into, **new}


def _value(optional: Maybe) -> Any:
    if not optional.has_value:
        raise CelError("optional.none() dereference")
    return optional.value


def _unwrapped(items: list[Any]) -> list[Any]:
    for item in items:
        if not isinstance(item, Maybe):
            raise CelError(f"value {item} is not optional")
    return [item.value for item in items if item.has_value]


OVERLOADS: Final[dict[str, Callable[..., Any]]] = {
    **{f"list_{kind}_is_sorted_bool": _is_sorted for kind in _COMPARABLE},
    **{f"list_{kind}_max_{kind}": _extreme("max", 1) for kind in _COMPARABLE},
    **{f"list_{kind}_min_{kind}": _extreme("min", -1) for kind in _COMPARABLE},
    **{f"list_{SIMPLE[kind].name}_sort": _sorted for kind in _COMPARABLE},
    **{f"list_{SIMPLE[kind].name}_sortByAssociatedKeys": _sorted_by for kind in _COMPARABLE},
    **{f"list_{kind}_sum_{kind}": _sum(kind) for kind in _SUMS},
    "list_a_index_of_int": _index_of,
    "list_a_last_index_of_int": _last_index_of,
    "list_sets_contains_list": _holds_all,
    "list_sets_equivalent_list": lambda one, other: _holds_all(one, other) and _holds_all(other, one),
    "list_sets_intersects_list": lambda one, other: any(standard.contains(item, other) for item in one),
    "list_slice": _slice,
    "list_flatten": _flatten,
    "list_flatten_int": _flatten,
    "lists_range": _range,
    "list_reverse": lambda items: list(reversed(items)),
    "list_distinct": _distinct,
    "@mapInsert_map_key_value": _inserted,
    "@mapInsert_map_map": _inserted,
    "optional_of": Maybe,
    "optional_ofNonZeroValue": lambda value: NONE if is_zero(value) else Maybe(value),
    "optional_none": lambda: NONE,
    "optional_unwrap": _unwrapped,
    "optional_unwrapOpt": _unwrapped,
    "optional_value": _value,
    "optional_hasValue": lambda optional: optional.has_value,
    "list_first": lambda items: Maybe(items[0]) if items else NONE,
    "list_last": lambda items: Maybe(items[-1]) if items else NONE,
}
