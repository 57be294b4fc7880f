"""What a call costs when it is made, by its arguments: the figures of cel-go and Kubernetes.

Most calls cost 1. Others cost by how much they look at; these are priced before they run, so that a dear one never
does. Only of those that make lists and texts the result has to be known.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from koord.api.cel.estimate_calls import CHEAP, COMPARES, COPIES, READS, REGEX_FACTOR, STRING_FACTOR, WALKS
from koord.api.cel.kubernetes import FORMATS
from koord.api.cel.values import Cidr, Format, Ip, Quantity, Semver, Url, cost_size, traversal_cost

Price = Callable[..., int]
"""Given the arguments of a call."""

_OPAQUE: Final = (Quantity, Ip, Cidr, Format, Url, Semver)
_LIST_BASE: Final = 11
"Of a call that makes a list: the call and the list."


def walk(size: int, factor: float = STRING_FACTOR) -> int:
    """The cost of one pass over a number of characters."""
    return math.ceil(size * factor)


def _pattern(text: Any, pattern: Any) -> int:
    return math.ceil((1 + cost_size(text)) * STRING_FACTOR) * math.ceil(cost_size(pattern) * REGEX_FACTOR)


def compared(one: Any, other: Any) -> int:
    if isinstance(one, _OPAQUE):
        return 1
    return walk(min(cost_size(one), cost_size(other)))


def _selector(_target: Any, text: Any) -> int:
    size = cost_size(text)
    return 10 + walk(size) + math.ceil(math.ceil(size * 0.5) * 50)


def _contains_ip(overload: str) -> Price:
    parses = overload.endswith("_string")
    is_cidr = overload.startswith("cidr_contains_cidr")

    def price(cidr: Any, other: Any) -> int:
        size = cost_size(cidr)
        cost = walk(size + size)
        if is_cidr:
            cost += walk(size) + 1
        return cost + (walk(cost_size(other)) if parses else 0)

    return price


def _validated(format_: Any, text: Any) -> int:
    pattern = FORMATS[format_.name][1]
    return math.ceil((1 + cost_size(text)) * STRING_FACTOR) * math.ceil(pattern * REGEX_FACTOR)


def _self_compared(items: Any) -> int:
    size = cost_size(items)
    is_text = bool(items) and isinstance(items[0], str | bytes)
    return int(size * size * (2 + STRING_FACTOR if is_text else 2.0)) + _LIST_BASE


def _sets(factor: int) -> Price:
    return lambda one, other: 1 + int(float(cost_size(one) * cost_size(other)) * factor)


def _first(factor: float = STRING_FACTOR) -> Price:
    return lambda *args: walk(cost_size(args[0]), factor)


_BY_OVERLOAD: Final[dict[str, Price]] = {
    **dict.fromkeys(
        ("starts_with_string", "ends_with_string", "string_to_bytes", "bytes_to_string", "strings_quote"), _first()
    ),
    "string_format": _first(),
    "in_list": lambda _value, items: cost_size(items),
    **dict.fromkeys(COMPARES, compared),
    "add_string": lambda one, other: walk(cost_size(one) + cost_size(other)),
    "add_bytes": lambda one, other: walk(cost_size(one) + cost_size(other)),
    "matches_string": _pattern,
    "contains_string": lambda text, part: walk(cost_size(text)) * walk(cost_size(part)),
    "list_flatten": lambda items: cost_size(items) + _LIST_BASE,
    "list_flatten_int": lambda items, depth: int(cost_size(items) * float(depth)) + _LIST_BASE,
    "lists_range": lambda count: max(count, 0) + _LIST_BASE,
    "list_reverse": lambda items: cost_size(items) + _LIST_BASE,
    "list_slice": lambda _items, start, end: max(end - start, 0) + _LIST_BASE,
    "list_distinct": _self_compared,
    "list_sets_contains_list": _sets(1),
    "list_sets_intersects_list": _sets(1),
    "list_sets_equivalent_list": _sets(2),
}
_BY_FUNCTION: Final[dict[str, Price]] = {
    **dict.fromkeys(("fieldSelector", "labelSelector"), _selector),
    **dict.fromkeys(WALKS, lambda *args: traversal_cost(args[0])),
    **dict.fromkeys((*COPIES, *READS, "url", "ip"), _first()),
    **dict.fromkeys(("replace", "split", "ip.isCanonical"), _first(2 * STRING_FACTOR)),
    **dict.fromkeys(("find", "findAll"), lambda *args: _pattern(args[0], args[1])),
    "validate": _validated,
}


def price_of(function: str, overload: str) -> int | Price:
    """A fixed price, or how to tell it from the arguments. `overload` is empty where it shows only at run time."""
    if overload.endswith("_sort"):
        return _self_compared
    if overload.endswith("_sortByAssociatedKeys"):
        return lambda _items, keys: _self_compared(keys)
    if overload in ("list_flatten", "list_flatten_int", "list_reverse", "list_slice", "list_distinct", "lists_range"):
        return _BY_OVERLOAD[overload]
    if function == "check":
        return 350_000
    if function in CHEAP or overload == "cidr_ip":
        return 1
    if function in ("containsIP", "containsCIDR"):
        return _contains_ip(overload)
    by_function = _BY_FUNCTION.get(function)
    if by_function is not None:
        return by_function
    return _BY_OVERLOAD.get(overload, 1)


def joined_price(result: str) -> int:
    """Of a text that was put together from a list's items."""
    return walk(len(result), 2 * STRING_FACTOR)
