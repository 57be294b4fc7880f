"""Looking into values: fields, items, entries, and whether they are there."""

from __future__ import annotations

from typing import Any

from koord.api.cel.parser import RESERVED
from koord.api.cel.standard import text_of
from koord.api.cel.syntax import CelError
from koord.api.cel.values import NONE, Absent, Maybe, Obj, type_name


def _key(value: dict[str, Any], name: str) -> str:
    """A field's name as an object has it; words of the language need not be escaped."""
    return f"__{name}__" if name in RESERVED and isinstance(value, Obj) else name


def field_of(value: Any, name: str) -> Any:
    """Raises CelError. In an optional value, the field is optional too."""
    if isinstance(value, Maybe):
        return optional_field(value, name)
    if isinstance(value, dict) and ((key := _key(value, name)) in value or isinstance(value, Absent)):
        return value[key]
    raise CelError(f"no such key: {name}")


def is_there(value: Any, name: str) -> bool:
    if isinstance(value, Maybe):
        return value.has_value and is_there(value.value, name)
    return isinstance(value, dict) and _key(value, name) in value


def optional_field(value: Any, name: str) -> Maybe:
    if isinstance(value, Maybe):
        return optional_field(value.value, name) if value.has_value else NONE
    return Maybe(field_of(value, name)) if is_there(value, name) else NONE


def indexed(value: Any, key: Any) -> Any:
    """Raises CelError."""
    if key is None:
        raise CelError("invalid qualifier type: types.Null")
    if isinstance(value, list):
        at = _position(key)
        if 0 <= at < len(value):
            return value[at]
        raise CelError(f"index out of bounds: {text_of(key)}")
    if isinstance(value, dict):
        if _is_key(key) and (key in value or isinstance(value, Absent)):
            return value[key]
        raise CelError(f"no such key: {text_of(key)}")
    if isinstance(value, Maybe):
        return optional_index(value, key)
    raise CelError(f"no such key: {text_of(key)}")


def optional_index(value: Any, key: Any) -> Maybe:
    if isinstance(value, Maybe):
        return optional_index(value.value, key) if value.has_value else NONE
    if isinstance(value, list):
        at = _position(key)
        return Maybe(value[at]) if 0 <= at < len(value) else NONE
    return Maybe(value[key]) if isinstance(value, dict) and _is_key(key) and key in value else NONE


def _is_key(key: Any) -> bool:
    return isinstance(key, str | int | float)


def _position(key: Any) -> int:
    if isinstance(key, int) and not isinstance(key, bool):
        return key
    if isinstance(key, float):
        if key.is_integer():
            return int(key)
        raise CelError(f"unsupported index value {text_of(key)} in list")
    raise CelError(f"unsupported index type '{type_name(key)}' in list")
