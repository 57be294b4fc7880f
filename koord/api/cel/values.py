"""The values of CEL in Python: what they are, when they are equal, which is less, and how large they are.

Integers, floats, strings, bytes, booleans, None, lists and dicts are themselves; an unsigned integer is a `Uint`. An
object of a schema is an `Obj`: a dict of its visible fields, by their escaped names. Everything else is frozen.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final

from koord.api.cel.syntax import CelError

INT_MIN: Final = -(2**63)
INT_MAX: Final = 2**63 - 1
UINT_MAX: Final = 2**64 - 1


class Uint(int):
    """An unsigned integer."""

    __slots__ = ()


def weight(value: Any) -> int:
    """How many values are in a value, itself included."""
    if isinstance(value, StoredMap | StoredList):
        return value.weight
    if isinstance(value, list):
        return 1 + sum(map(weight, value))
    return 1 + sum(map(weight, value.values())) if isinstance(value, dict) else 1


class StoredMap(dict[str, Any]):
    """A map that is part of an object; those that expressions make are plain dicts. `weight`: of all within it."""

    __slots__ = ("weight",)

    def __init__(self, entries: dict[str, Any]) -> None:
        super().__init__(entries)
        self.weight = 1 + sum(map(weight, entries.values()))


class Absent(dict[str, dict[str, Any]]):
    """A map of maps where every key that it does not have leads to an empty map. Only `in` tells the difference."""

    __slots__ = ()

    def __missing__(self, key: object) -> dict[str, Any]:
        return {}


class Obj(StoredMap):
    """An object. `hidden`: how many of its fields cannot be seen; they count for its size."""

    __slots__ = ("hidden",)

    def __init__(self, fields: dict[str, Any], hidden: int = 0) -> None:
        super().__init__(fields)
        self.hidden = hidden


class StoredList(list[Any]):
    """A list that is part of an object; those that expressions make are plain ones. `weight`: of all within it."""

    __slots__ = ("weight",)

    def __init__(self, items: list[Any]) -> None:
        super().__init__(items)
        self.weight = 1 + sum(map(weight, items))


class KeyedList(StoredList):
    """A list whose items are told apart by keys: their order does not matter for equality."""

    __slots__ = ("keys",)

    def __init__(self, items: list[Any], keys: tuple[str, ...]) -> None:
        super().__init__(items)
        self.keys = keys

    def key_of(self, item: Any) -> tuple[str, ...]:
        return tuple(repr(item.get(key)) for key in self.keys) if isinstance(item, dict) else ()


class SetList(StoredList):
    """A list that is a set: its order does not matter for equality."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, order=True)
class Duration:
    ns: int


@dataclass(frozen=True, slots=True, order=True)
class Timestamp:
    """`offset_s`: of the zone that it was written in, for showing it."""

    ns: int
    offset_s: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class TypeValue:
    name: str


@dataclass(frozen=True, slots=True)
class Maybe:
    """An optional value."""

    value: Any = None
    has_value: bool = True


NONE: Final = Maybe(has_value=False)


@dataclass(frozen=True, slots=True)
class Quantity:
    """`scale`: the power of ten that it is held in, None if it is held as a decimal of any size; whether it counts as
    an integer depends on that."""

    amount: Fraction
    scale: int | None = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Url:
    scheme: str = ""
    host: str = ""
    path: str = ""
    query: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class Ip:
    address: ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True, slots=True)
class Cidr:
    address: ipaddress.IPv4Address | ipaddress.IPv6Address
    bits: int


@dataclass(frozen=True, slots=True)
class Semver:
    numbers: tuple[int, int, int]
    pre: tuple[tuple[bool, int, str], ...] = ()
    "Of each part: whether it is a word, its number, its text."
    build: tuple[str, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class Format:
    """A named format of strings."""

    name: str


_NAMES: Final[dict[type, str]] = {
    bool: "bool", int: "int", Uint: "uint", float: "double", str: "string", bytes: "bytes", type(None): "null_type",
    list: "list", StoredList: "list", KeyedList: "list", SetList: "list", dict: "map", StoredMap: "map", Obj: "map",
    Absent: "map", Duration: "google.protobuf.Duration",
    Timestamp: "google.protobuf.Timestamp", TypeValue: "type", Maybe: "optional_type",
    Quantity: "kubernetes.Quantity", Url: "kubernetes.URL", Ip: "net.IP", Cidr: "net.CIDR",
    Semver: "kubernetes.Semver", Format: "kubernetes.NamedFormat",
}  # fmt: skip


def type_name(value: Any) -> str:
    return _NAMES.get(type(value)) or f"kubernetes.authorization.{type(value).__name__}"


def no_overload(function: str = "", *args: Any) -> CelError:
    """What cel-go says where a function does not take what it is given."""
    if not function:
        return CelError("no such overload")
    given = f"({', '.join(map(type_name, args))})" if args else ""
    return CelError(f"no such overload: {function}{given}")


def equal(one: Any, other: Any) -> bool:
    """Numbers of different kinds are equal if they are the same number; nothing else is across kinds.

    Lists and maps of objects, and Kubernetes' own values, refuse to be compared with anything else. Raises CelError.
    """
    kind, other_kind = type(one), type(other)
    if kind is other_kind and kind in _PLAIN:
        return bool(one == other)
    if kind in _NUMBERS:
        return other_kind in _NUMBERS and bool(one == other)
    if isinstance(one, list) and isinstance(other, list):
        return _equal_lists(one, other)
    if isinstance(one, dict) and isinstance(other, dict):
        return _equal_maps(one, other)
    if kind is not other_kind and other is not None and isinstance(one, _PARTICULAR):
        raise no_overload()
    if kind is Maybe and other_kind is Maybe:
        return one.has_value == other.has_value and equal(one.value, other.value)
    return kind is other_kind and bool(one == other)


_NUMBERS: Final = frozenset({int, Uint, float})
_PARTICULAR: Final = (StoredList, StoredMap, Quantity, Url, Ip, Cidr, Semver, Format)
_PLAIN: Final = frozenset({int, Uint, float, str, bytes, bool, type(None)})


def _equal_lists(one: list[Any], other: list[Any]) -> bool:
    if len(one) != len(other):
        return False
    if isinstance(one, KeyedList):
        by_key = {one.key_of(item): item for item in one}
        return all((key := one.key_of(item)) in by_key and equal(by_key[key], item) for item in other)
    if isinstance(one, SetList):
        return all(any(equal(item, mine) for mine in one) for item in other)
    return all(equal(a, b) for a, b in zip(one, other, strict=True))


def _equal_maps(one: dict[Any, Any], other: dict[Any, Any]) -> bool:
    if size(one) != size(other):
        return False
    return all(key in other and equal(value, other[key]) for key, value in one.items())


def compare(one: Any, other: Any) -> int:
    """-1, 0 or 1. Raises CelError where there is no order."""
    kind, other_kind = type(one), type(other)
    if kind in _NUMBERS and other_kind in _NUMBERS:
        if one != one or other != other:
            raise CelError("NaN values cannot be ordered")
    elif kind is not other_kind or kind not in _ORDERED:
        raise no_overload()
    return int(one > other) - int(one < other)


_ORDERED: Final = frozenset({bool, str, bytes, Duration, Timestamp})


def size(value: Any) -> int:
    """Of a string its characters, of an object all its fields."""
    return len(value) + value.hidden if type(value) is Obj else len(value)


def cost_size(value: Any) -> int:
    """How large a value is when costs are counted: 1 if it is not made of parts."""
    kind = type(value)
    if kind is str or kind is bytes or isinstance(value, list | dict):
        return size(value)
    if kind is Maybe and value.has_value:
        return cost_size(value.value)
    if kind is Ip:
        return 4 if value.address.version == 4 else 16
    if kind is Cidr:
        bits: int = value.bits
        return -(-bits // 8)
    return 1


def traversal_cost(value: Any) -> int:
    """Of walking through a value and all within it."""
    if isinstance(value, str):
        return int(len(value.encode()) * 0.1)
    if isinstance(value, bytes):
        return int(len(value) * 0.1)
    if isinstance(value, list):
        return sum(map(traversal_cost, value))
    if isinstance(value, dict):
        return sum(traversal_cost(key) + traversal_cost(item) for key, item in value.items())
    return 1


def is_zero(value: Any) -> bool:
    """Whether a value is its type's empty one."""
    if value is None or isinstance(value, bool | int | float | str | bytes | list | dict):
        return not value
    return isinstance(value, Duration) and value.ns == 0


def elements(value: Any) -> Iterator[Any]:
    """What a loop with one variable goes over: items, or keys."""
    if isinstance(value, list | dict):
        return iter(value)
    raise CelError(f"got '{_go_type(value)}', expected iterable type")


def pairs(value: Any) -> Iterator[tuple[Any, Any]]:
    """What a loop with two variables goes over: positions and items, or keys and values."""
    if isinstance(value, dict):
        return iter(value.items())
    if isinstance(value, list):
        return enumerate(value)
    raise CelError(f"unsupported comprehension range type: {_go_type(value)}")


def _go_type(value: Any) -> str:
    return _GO_NAMES.get(type(value), type_name(value))


_GO_NAMES: Final[dict[type, str]] = {
    bool: "types.Bool", int: "types.Int", Uint: "types.Uint", float: "types.Double", str: "types.String",
    bytes: "types.Bytes", type(None): "types.Null", Duration: "types.Duration", Timestamp: "types.Timestamp",
}  # fmt: skip
