"""Faults: what is wrong with an input, where, and what would be right.

`check(type, data)` turns plain data (parsed YAML or JSON) into a typed object and reports *every* fault at once,
each with its path, where msgspec itself stops at the first. It is for what people write (configuration,
annotations, manifests); what an API server sends goes through the faster `codec`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, TypeVar, cast

import msgspec
from msgspec import inspect

from koord.api.kubernetes.words import Word
from koord.api.machinery import quick_check

T = TypeVar("T")

_FEW: Final = 12
"""So many names of fields are listed where none is near."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong. `path` is as users write it: `spec.owners[0].controller`."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message

    def under(self, prefix: str) -> Fault:
        """The same fault, seen from an enclosing object."""
        return Fault(join(prefix, self.path), self.message)


class BadInput(ValueError):
    """Something that a person or another program gave us is wrong. Shown without a traceback."""


class Invalid(BadInput):
    """An input was refused. Says all that is wrong with it, one line each."""

    def __init__(self, what: str, faults: Iterable[Fault]) -> None:
        self.what = what
        self.faults = tuple(faults)
        super().__init__(what, self.faults)

    def __str__(self) -> str:
        if len(self.faults) == 1:
            return f"{self.what}: {self.faults[0]}"
        return "\n  ".join([f"{self.what}: {len(self.faults)} faults", *map(str, self.faults)])


def join(prefix: str, path: str) -> str:
    if not prefix or not path:
        return prefix or path
    return f"{prefix}{path}" if path.startswith("[") else f"{prefix}.{path}"


def check(type_: type[T], data: object, what: str, *, allow_unknown: bool = False) -> T:
    """`data` as `type_`, or `Invalid` with all faults. Nulls count as absent, as Kubernetes has it.

    Unknown fields are faults (with a suggestion where one is near) unless `allow_unknown`.
    """
    info = _type_info(cast("Any", type_))
    try:
        cleaned = quick_check.cleaned(info, allow_unknown, _fits)(data)
    except (quick_check.Doubtful, TypeError):
        faults: list[Fault] = []
        cleaned = _walk(info, data, "", faults, allow_unknown)
        if faults:
            raise Invalid(what, faults) from None
    try:
        return msgspec.convert(cleaned, type_)
    except msgspec.ValidationError as error:
        # The walk covers what koord's types use; this is for the day when it does not.
        raise Invalid(what, [msgspec_fault(error)]) from None


def unknown_fields(type_: type[Any], data: object) -> tuple[Fault, ...]:
    """Unknown fields of `data`, which is a valid `type_` otherwise."""
    info = _type_info(cast("Any", type_))
    try:
        quick_check.cleaned(info, False, _fits)(data)
    except (quick_check.Doubtful, TypeError):
        faults: list[Fault] = []
        _walk(info, data, "", faults, False)
        return tuple(faults)
    return ()


def msgspec_fault(error: msgspec.ValidationError) -> Fault:
    """msgspec's `Expected ... - at `$.spec.x`` as a Fault."""
    message, _, path = str(error).partition(" - at `")
    return Fault(path.rstrip("`").removeprefix("$").removeprefix("."), message[:1].lower() + message[1:])


@cache
def _type_info(type_: Any) -> inspect.Type:
    # Looking a type over takes longer than checking a value.
    return inspect.type_info(type_)


def _walk(type_: inspect.Type, value: object, path: str, faults: list[Fault], allow_unknown: bool) -> object:
    """`value` without nulls, and every fault that it has as a `type_`."""

    def fault(message: str) -> object:
        faults.append(Fault(path, message))
        return value

    match type_:
        case inspect.Metadata(type=inner, extra=extra):
            before = len(faults)
            cleaned = _walk(inner, value, path, faults, allow_unknown)
            extra_check: Callable[[object], object] | None = (extra or {}).get("check")
            if extra_check is not None and len(faults) == before and value is not None:
                try:
                    extra_check(value)
                except ValueError as error:
                    return fault(str(error))
            return cleaned
        case inspect.AnyType() | inspect.RawType():
            return value
        case inspect.UnionType(types=types):
            return _walk_union(types, value, path, faults, allow_unknown)
        case inspect.StructType():
            return _walk_struct(type_, value, path, faults, allow_unknown)
        case inspect.DictType(key_type=key_type, value_type=value_type):
            if not isinstance(value, Mapping):
                return fault(f"must be a map, not {_shown(value)}")
            cleaned_map: dict[Any, Any] = {}
            for key, item in value.items():
                at = join(path, key if isinstance(key, str) and key.isidentifier() else f"[{key}]")
                _walk(key_type, key, at, faults, allow_unknown)
                if item is not None:
                    cleaned_map[key] = _walk(value_type, item, at, faults, allow_unknown)
            return cleaned_map
        case inspect.VarTupleType(item_type=item_type) | inspect.ListType(item_type=item_type):
            if not isinstance(value, Sequence) or isinstance(value, str | bytes):
                return fault(f"must be a list, not {_shown(value)}")
            return [_walk(item_type, item, f"{path}[{i}]", faults, allow_unknown) for i, item in enumerate(value)]
        case _:
            wrong = _scalar_fault(type_, value)
            return fault(wrong) if wrong else value


def _walk_struct(
    type_: inspect.StructType, value: object, path: str, faults: list[Fault], allow_unknown: bool
) -> object:
    if not isinstance(value, Mapping):
        faults.append(Fault(path, f"must be an object, not {_shown(value)}"))
        return value
    fields = {field.encode_name: field for field in type_.fields}
    cleaned: dict[str, object] = {}
    for key, item in value.items():
        if key not in fields:
            if not allow_unknown:
                faults.append(unknown_field(join(path, str(key)), fields))
        elif item is not None:
            cleaned[key] = _walk(fields[key].type, item, join(path, key), faults, allow_unknown)
    for name, field in fields.items():
        if field.required and name not in cleaned and not any(f.path == join(path, name) for f in faults):
            faults.append(Fault(join(path, name), "is required"))
    return cleaned


def _walk_union(
    types: Sequence[inspect.Type], value: object, path: str, faults: list[Fault], allow_unknown: bool
) -> object:
    """The member that fits; else the faults of the only member that could have, else what would be valid."""
    members = [member for member in types if not isinstance(member, inspect.NoneType)]
    if value is None and len(members) < len(types):
        return None
    attempts: list[list[Fault]] = []
    for member in members:
        attempt: list[Fault] = []
        cleaned = _walk(member, value, path, attempt, allow_unknown)
        if not attempt:
            return cleaned
        attempts.append(attempt)
    if len(attempts) == 1:
        faults.extend(attempts[0])
    else:
        valid = " or ".join(_described(member) for member in members)
        faults.append(Fault(path, f"must be {valid}, not {_shown(value)}"))
    return value


def _scalar_fault(type_: inspect.Type, value: object) -> str | None:
    """Why a scalar does not fit, or None."""
    if isinstance(type_, inspect.StrType) and type_.min_length and value == "":
        return "must not be empty"
    # The words are for the rare fault: making them takes longer than the look.
    return None if _fits(type_, value) else f"must be {_described(type_)}, not {_shown(value)}"


def _fits(type_: inspect.Type, value: object) -> bool:
    match type_:
        case inspect.StrType():
            return isinstance(value, str)
        case inspect.BoolType():
            return isinstance(value, bool)
        case inspect.IntType() | inspect.FloatType():
            kinds = int if isinstance(type_, inspect.IntType) else (int, float)
            if isinstance(value, bool) or not isinstance(value, kinds):
                return False
            assert isinstance(value, int | float)
            return (
                (type_.ge is None or value >= type_.ge)
                and (type_.gt is None or value > type_.gt)
                and (type_.le is None or value <= type_.le)
                and (type_.lt is None or value < type_.lt)
            )
        case inspect.LiteralType(values=values):
            return isinstance(value, str | int) and value in values
        case inspect.EnumType(cls=cls) if issubclass(cls, Word):
            return isinstance(value, str)
        case inspect.EnumType(cls=cls):
            return value in [member.value for member in cls]
        case inspect.NoneType():
            return value is None
        case _:
            return True


def _described(type_: inspect.Type) -> str:
    """A type as a person would name what it accepts."""
    match type_:
        case inspect.Metadata(type=inner):
            return _described(inner)
        case inspect.IntType() | inspect.FloatType():
            noun = "an integer" if isinstance(type_, inspect.IntType) else "a number"
            low = type_.ge if type_.ge is not None else type_.gt
            high = type_.le if type_.le is not None else type_.lt
            above = "above" if type_.gt is not None else "from"
            below = "below" if type_.lt is not None else "to"
            if low is not None and high is not None:
                return f"{noun} {above} {low} {below} {high}"
            if low is not None:
                return f"{noun} above {low}" if type_.gt is not None else f"{noun} of at least {low}"
            if high is not None:
                return f"{noun} below {high}" if type_.lt is not None else f"{noun} of at most {high}"
            return noun
        case inspect.BoolType():
            return "true or false"
        case inspect.StrType():
            return "a string"
        case inspect.LiteralType(values=values):
            return "one of " + ", ".join(repr(v) if v == "" else str(v) for v in values)
        case inspect.EnumType(cls=cls) if issubclass(cls, Word):
            return "a string"
        case inspect.EnumType(cls=cls):
            return "one of " + ", ".join(str(member.value) for member in cls)
        case inspect.DictType():
            return "a map"
        case inspect.VarTupleType() | inspect.ListType():
            return "a list"
        case inspect.StructType():
            return "an object"
        case inspect.NoneType():
            return "null"
        case _:
            return "a value"


def _shown(value: object) -> str:
    """A wrong value, short enough for a message."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return repr(value if len(value) <= 60 else value[:57] + "...")
        case Mapping():
            return "an object"
        case list() | tuple():
            return "a list"
        case _:
            return str(value)[:60]


def unknown_field(path: str, valid: Collection[str]) -> Fault:
    """The fault of a field that is not among the `valid` ones; names the nearest of them."""
    return Fault(path, f"unknown field{_suggestion(path.rpartition('.')[2], valid)}")


def _suggestion(name: str, valid_names: Iterable[str]) -> str:
    import difflib

    near = difflib.get_close_matches(name, list(valid_names), n=1, cutoff=0.7)
    if near:
        return f" (did you mean {near[0]}?)"
    valid = sorted(valid_names)
    return f" (valid: {', '.join(valid)})" if 0 < len(valid) <= _FEW else ""
