"""CEL's types, and which may stand where: unification of types with parameters, as cel-go's checker does it.

`dyn` goes with everything. A parameter (`A` of a function, or one that the checker makes up) is bound in a mapping the
first time that it meets a type; what it meets later must agree, and the more general of the two is kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, slots=True)
class Type:
    """`name` is told to users; `fields` are those of a struct."""

    kind: str
    name: str
    params: tuple[Type, ...] = ()
    fields: Mapping[str, Type] = field(default_factory=dict, compare=False, repr=False)

    def __str__(self) -> str:
        """As messages about the type of a whole expression show it."""
        if not self.params:
            return f"<{self.name}>" if self.kind == "param" else self.name
        return f"{self.name}({', '.join(map(str, self.params))})"


DYN: Final = Type("dyn", "dyn")
ERROR: Final = Type("error", "!error!")
NULL: Final = Type("null_type", "null_type")
BOOL: Final = Type("bool", "bool")
INT: Final = Type("int", "int")
UINT: Final = Type("uint", "uint")
DOUBLE: Final = Type("double", "double")
STRING: Final = Type("string", "string")
BYTES: Final = Type("bytes", "bytes")
DURATION: Final = Type("duration", "google.protobuf.Duration")
TIMESTAMP: Final = Type("timestamp", "google.protobuf.Timestamp")
TYPE: Final = Type("type", "type")

SIMPLE: Final[Mapping[str, Type]] = {
    type_.kind: type_ for type_ in (DYN, NULL, BOOL, INT, UINT, DOUBLE, STRING, BYTES, DURATION, TIMESTAMP, TYPE)
}
_NESTED: Final = frozenset({"opaque", "list", "map"})
_NULLABLE: Final = frozenset({"opaque", "struct", "duration", "timestamp"})
_OPTIONAL: Final = "optional_type"

Bound = dict[str, Type]
"""What the parameters stand for, by their names."""


def list_of(item: Type) -> Type:
    return Type("list", "list", (item,))


def map_of(key: Type, value: Type) -> Type:
    return Type("map", "map", (key, value))


def optional_of(value: Type) -> Type:
    return Type("opaque", _OPTIONAL, (value,))


def type_of(value: Type) -> Type:
    return Type("type", "type", (value,))


def param(name: str) -> Type:
    return Type("param", name)


def is_dyn(one: Type) -> bool:
    return one.kind == "dyn"


def unwrapped(one: Type) -> tuple[Type, bool]:
    """The type inside of an optional, and whether it was one."""
    return (one.params[0], True) if one.name == _OPTIONAL and one.params else (one, False)


def type_text(one: Type) -> str:
    """A type as messages of the checker name it."""
    match one.kind:
        case "duration" | "timestamp":
            return one.kind
        case "null_type":
            return "null"
    return f"{one.name}({', '.join(map(type_text, one.params))})" if one.params else one.name


def signature(args: Sequence[Type], is_member: bool) -> str:
    """Of a call: `string.(int)`, or `(string, int)`."""
    target = f"{type_text(args[0])}." if is_member else ""
    return f"{target}({', '.join(type_text(argument) for argument in args[int(is_member) :])})"


def assigned(bound: Bound, wanted: Sequence[Type], given: Sequence[Type]) -> Bound | None:
    """The parameters after types were put where others are wanted, or None where they do not go together."""
    tried = dict(bound)
    return tried if _all_assignable(tried, wanted, given) else None


def _all_assignable(bound: Bound, ones: Sequence[Type], others: Sequence[Type]) -> bool:
    return len(ones) == len(others) and all(_assignable(bound, a, b) for a, b in zip(ones, others, strict=True))


def _assignable(bound: Bound, one: Type, other: Type) -> bool:
    if other.kind == "param":
        fits, settled = _binds(bound, one, other)
        if fits or settled:
            return fits
    if one.kind == "param":
        return _binds(bound, other, one)[0]
    if one.kind in ("dyn", "error") or other.kind in ("dyn", "error"):
        return True
    if "null_type" in (one.kind, other.kind):
        return one.kind == other.kind or bool({one.kind, other.kind} & _NULLABLE)
    if one.kind == "type":
        return other.kind == "type"
    if one.kind in _NESTED:
        return one.kind == other.kind and one.name == other.name and _all_assignable(bound, one.params, other.params)
    return one == other


def _binds(bound: Bound, one: Type, parameter: Type) -> tuple[bool, bool]:
    """Whether a parameter may stand for a type, and whether it stood for something already."""
    if one == parameter:
        return True, True
    bound_type = bound.get(parameter.name)
    if bound_type is not None:
        if one == bound_type:
            return True, True
        if _assignable(bound, one, bound_type):
            general = most_general(one, bound_type)
            if not _occurs(bound, parameter, general):
                bound[parameter.name] = general
            return True, True
        return False, True
    if _occurs(bound, parameter, one):
        return False, False
    bound[parameter.name] = one
    return True, False


def _occurs(bound: Bound, parameter: Type, within: Type) -> bool:
    if parameter == within:
        return True
    if within.kind == "param":
        bound_type = bound.get(within.name)
        return bound_type is not None and _occurs(bound, parameter, bound_type)
    return any(_occurs(bound, parameter, parameter_type) for parameter_type in within.params)


def most_general(one: Type, other: Type) -> Type:
    """The less specific of two types that go together."""
    return one if _is_no_more_specific(one, other) else other


def _is_no_more_specific(one: Type, other: Type) -> bool:
    if is_dyn(one) or one.kind == "param":
        return True
    if is_dyn(other) or other.kind == "param" or one.kind != other.kind:
        return False
    if one.kind == "type":
        return True
    if one.kind in _NESTED:
        same = one.name == other.name and len(one.params) == len(other.params)
        return same and all(_is_no_more_specific(a, b) for a, b in zip(one.params, other.params, strict=True))
    return one == other


def substituted(bound: Bound, one: Type, *, unbound_to_dyn: bool = False) -> Type:
    """A type with what its parameters stand for in their place."""
    if one.kind == "param":
        bound_type = bound.get(one.name)
        if bound_type is not None:
            return substituted(bound, bound_type, unbound_to_dyn=unbound_to_dyn)
        return DYN if unbound_to_dyn else one
    if not one.params:
        return one
    params = tuple(substituted(bound, parameter_type, unbound_to_dyn=unbound_to_dyn) for parameter_type in one.params)
    return Type(one.kind, one.name, params)


def equivalent(one: Type, other: Type) -> bool:
    """The same but for their parameters' names."""
    if one.kind == other.kind == "param":
        return True
    return (one.kind, one.name, len(one.params)) == (other.kind, other.name, len(other.params)) and all(
        equivalent(a, b) for a, b in zip(one.params, other.params, strict=True)
    )
