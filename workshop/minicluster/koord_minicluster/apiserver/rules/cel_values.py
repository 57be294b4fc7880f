"""Objects as expressions see them: typed by their schema, fields under names that CEL can say, the rest hidden."""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any

from koord.api.cel.declared import as_resource, escape, is_described
from koord.api.cel.standard import to_timestamp
from koord.api.cel.syntax import CelError
from koord.api.cel.values import Duration, KeyedList, Obj, SetList, StoredList, StoredMap
from koord.api.machinery.object_schema import Schema
from koord.api.text.duration import DurationError, parse_ns


def to_cel(schema: Schema, value: Any, *, is_resource: bool = False) -> Any:
    """A value as expressions see it: typed by the schema, fields under names that CEL can say."""
    if isinstance(value, dict):
        return _map_to_cel(schema, value, is_resource=is_resource or schema.embedded)
    if isinstance(value, list):
        if schema.items is None:
            return value
        items = [to_cel(schema.items, item) for item in value]
        if schema.list_type == "map":
            return KeyedList(items, tuple(escape(key) or key for key in schema.list_keys))
        return SetList(items) if schema.list_type == "set" else StoredList(items)
    if schema.type == "number" and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if schema.format and schema.type == "string" and isinstance(value, str):
        return _formatted(schema.format, value)
    return value


def _map_to_cel(schema: Schema, value: dict[str, Any], *, is_resource: bool) -> Any:
    if schema.type != "object":
        return value
    if not is_resource and not schema.properties and is_described(schema.values):
        assert schema.values is not None
        return StoredMap({key: to_cel(schema.values, item) for key, item in value.items()})
    properties = as_resource(schema) if is_resource else schema.properties
    fields: dict[str, Any] = {}
    for key, item in value.items():
        inner = properties.get(key)
        name = None if inner is None or item is None else escape(key)
        if inner is not None and name is not None:
            fields[name] = to_cel(inner, item)
    return Obj(fields, len(value) - len(fields))


def _formatted(format_: str, text: str) -> Any:
    try:
        match format_:
            case "date-time":
                return to_timestamp(re.sub(r"[tT ]", "T", text, count=1).replace("z", "Z"))
            case "date":
                return to_timestamp(f"{text}T00:00:00Z")
            case "duration":
                return Duration(parse_ns(text))
            case "byte":
                return base64.b64decode(text, validate=True)
    except (CelError, DurationError, binascii.Error, ValueError):
        return text  # Validation of formats has its own word to say.
    return text
