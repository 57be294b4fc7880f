"""Decoded JSON as Go prints it in the messages of a real server."""

from __future__ import annotations

from typing import Any, Final

import msgspec

TOO_DEEP: Final = "exceeded max depth"


def plain(value: Any) -> str:
    """As `%v` prints it: `map[a:b c:[1 2]]`."""
    if isinstance(value, dict):
        return "map[" + " ".join(f"{key}:{plain(value[key])}" for key in sorted(value)) + "]"
    if isinstance(value, list):
        return "[" + " ".join(map(plain, value)) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    return "<nil>" if value is None else str(value)


def literal(value: Any) -> str:
    """As `%#v` prints it: `map[string]interface {}{"a":"b"}`."""
    if isinstance(value, dict):
        listed = ", ".join(f"{quoted(key)}:{literal(value[key])}" for key in sorted(value))
        return f"map[string]interface {{}}{{{listed}}}"
    if isinstance(value, list):
        return f"[]interface {{}}{{{', '.join(map(literal, value))}}}"
    if isinstance(value, str):
        return quoted(value)
    return "interface {}(nil)" if value is None else plain(value)


def quoted(text: str) -> str:
    return msgspec.json.encode(text).decode()


def type_name(value: Any) -> str:
    if isinstance(value, dict):
        return "map[string]interface {}"
    if isinstance(value, list):
        return "[]interface {}"
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "int64"
    return "<nil>" if value is None else "float64" if isinstance(value, float) else "string"


def not_into(value: Any, into: str = "Go value of type map[string]interface {}") -> str:
    """Says that a JSON value does not fit into what it was decoded for."""
    if isinstance(value, bool):
        kind = "bool"
    elif isinstance(value, int | float):
        kind = "number"
    else:
        kind = "string" if isinstance(value, str) else "array" if isinstance(value, list) else "object"
    return f"json: cannot unmarshal {kind} into {into}"
