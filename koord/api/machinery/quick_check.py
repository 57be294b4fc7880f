"""Whether data is right, without words: what `faults.check` asks first, because almost all input is right.

`cleaned(info, allow_unknown)` makes a function of a type once; it gives data back without its nulls, or raises
`Doubtful`, upon which `faults` looks again and says what is wrong and where. Both must agree on what is right.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from msgspec import inspect

Cleaner: TypeAlias = Callable[[Any], Any]
Fits: TypeAlias = Callable[[inspect.Type, object], bool]


class Doubtful(Exception):
    """Something is wrong, or may be."""


_made: Final[dict[tuple[int, bool], tuple[inspect.Type, Cleaner]]] = {}
"The types are kept, so that an id stands for one type for ever."


def cleaned(info: inspect.Type, allow_unknown: bool, fits: Fits) -> Cleaner:
    """The cleaner for a type. `fits` judges scalars."""
    remembered = _made.get((id(info), allow_unknown))
    if remembered is None:
        remembered = (info, _make(info, allow_unknown, fits))
        _made[id(info), allow_unknown] = remembered
    return remembered[1]


def _make(info: inspect.Type, allow_unknown: bool, fits: Fits) -> Cleaner:
    match info:
        case inspect.Metadata(type=inner, extra=extra):
            return _checked(cleaned(inner, allow_unknown, fits), (extra or {}).get("check"))
        case inspect.AnyType() | inspect.RawType():
            return _anything
        case inspect.UnionType(types=types):
            members = [
                cleaned(member, allow_unknown, fits) for member in types if not isinstance(member, inspect.NoneType)
            ]
            return _either(members, len(members) < len(types))
        case inspect.StructType():
            return _struct(info, allow_unknown, fits)
        case inspect.DictType(key_type=key_type, value_type=value_type):
            return _map(cleaned(key_type, allow_unknown, fits), cleaned(value_type, allow_unknown, fits))
        case inspect.VarTupleType(item_type=item_type) | inspect.ListType(item_type=item_type):
            return _list(cleaned(item_type, allow_unknown, fits))
        case inspect.StrType(min_length=None):
            return _string
        case _:
            return _scalar(info, fits)


def _anything(value: Any) -> Any:
    return value


def _string(value: Any) -> Any:
    if not isinstance(value, str):
        raise Doubtful
    return value


def _scalar(info: inspect.Type, fits: Fits) -> Cleaner:
    refuses_empty = isinstance(info, inspect.StrType)

    def clean(value: Any) -> Any:
        if not fits(info, value) or (refuses_empty and not value):
            raise Doubtful
        return value

    return clean


def _checked(inner: Cleaner, check: Callable[[object], object] | None) -> Cleaner:
    if check is None:
        return inner

    def clean(value: Any) -> Any:
        value_read = inner(value)
        if value is not None:
            try:
                check(value)
            except ValueError:
                raise Doubtful from None
        return value_read

    return clean


def _either(members: Sequence[Cleaner], or_null: bool) -> Cleaner:
    def clean(value: Any) -> Any:
        if value is None and or_null:
            return None
        for member in members:
            try:
                return member(value)
            except Doubtful:
                continue
        raise Doubtful

    return members[0] if len(members) == 1 and not or_null else clean


def _struct(info: inspect.StructType, allow_unknown: bool, fits: Fits) -> Cleaner:
    fields: dict[str, Cleaner] = {}
    required = [field.encode_name for field in info.fields if field.required]

    def clean(value: Any) -> Any:
        if not isinstance(value, Mapping):
            raise Doubtful
        values = {}
        for key, item in value.items():
            field = fields.get(key)
            if field is None:
                if not allow_unknown:
                    raise Doubtful
            elif item is not None:
                values[key] = field(item)
        for name in required:
            if name not in values:
                raise Doubtful
        return values

    # Known before its fields are, because a type may contain itself.
    _made[id(info), allow_unknown] = (info, clean)
    fields.update({field.encode_name: cleaned(field.type, allow_unknown, fits) for field in info.fields})
    return clean


def _map(key_of: Cleaner, value_of: Cleaner) -> Cleaner:
    def clean(value: Any) -> Any:
        if not isinstance(value, Mapping):
            raise Doubtful
        return {key_of(key): value_of(item) for key, item in value.items() if item is not None}

    return clean


def _list(item_of: Cleaner) -> Cleaner:
    def clean(value: Any) -> Any:
        if not isinstance(value, Sequence) or isinstance(value, str | bytes):
            raise Doubtful
        return [item_of(item) for item in value]

    return clean
