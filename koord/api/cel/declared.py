"""What CEL knows of the values that a schema describes: their types, and how large they can be.

A part of a schema that says nothing (no type, unknown fields preserved) is not shown to expressions at all. Sizes are
for estimating costs: maxItems, maxProperties and maxLength where they are given, and otherwise what can fit into the
largest request. They are the real server's figures, its oddities included: a scalar has size 0.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from koord.api.cel import types
from koord.api.cel.parser import RESERVED
from koord.api.cel.types import Type
from koord.api.machinery.object_schema import ANYTHING, MISSING, NOTHING, Schema

LARGEST_REQUEST: Final = 3 * 1024 * 1024
_LONGEST_STRING: Final = LARGEST_REQUEST - 2
_ESCAPES: Final = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_ESCAPED: Final = re.compile(r"__|[.\-/]")
_CAN_BE_ESCAPED: Final = re.compile(r"[A-Za-z_.\-/][A-Za-z0-9_.\-/]*")
META_FIELDS: Final = ("name", "generateName")


@dataclass(frozen=True, slots=True)
class Declared:
    """`max_size`: characters, bytes, items or entries. `min_bytes`: of its shortest JSON."""

    type: Type
    max_size: int = 0
    min_bytes: int = 1
    fields: Mapping[str, Declared] = field(default_factory=dict)
    "By their escaped names."
    key: Declared | None = None
    element: Declared | None = None


BOOL: Final = Declared(types.BOOL, min_bytes=4)
INT: Final = Declared(types.INT)
DOUBLE: Final = Declared(types.DOUBLE)
_KEY: Final = Declared(types.STRING, min_bytes=2)


def escape(name: str) -> str | None:
    """A field's name as CEL can say it, or None where it cannot."""
    if name in RESERVED:
        return f"__{name}__"
    if not _CAN_BE_ESCAPED.fullmatch(name):
        return None
    return _ESCAPED.sub(lambda match: _ESCAPES[match[0]], name)


_STRING: Final = Schema(type="string")
_META: Final = Schema(type="object", properties=dict.fromkeys(META_FIELDS, _STRING))


def as_resource(schema: Schema) -> Mapping[str, Schema]:
    """The properties of a whole object: its kind and its name can always be seen, nothing else of its metadata."""
    properties = schema.properties
    meta = properties.get("metadata")
    has_meta = meta is not None and all(_is_string(meta.properties.get(name)) for name in META_FIELDS)
    if has_meta and _is_string(properties.get("kind")) and _is_string(properties.get("apiVersion")):
        return properties
    return {**properties, "kind": _STRING, "apiVersion": _STRING, "metadata": _META}


def _is_string(schema: Schema | None) -> bool:
    return schema is not None and schema.type == "string"


def declare(schema: Schema, *, is_resource: bool, name: str = "selfType0") -> Declared | None:
    """What is known of a schema's values, or None where nothing is. `name` tells objects' types apart."""
    if schema.int_or_string:
        longest = _LONGEST_STRING if schema.max_length is None else max(schema.max_length, 0) * 4
        return Declared(types.DYN, longest)
    match schema.type:
        case "array":
            return _list(schema, name)
        case "object":
            if is_described(schema.values):
                return _map(schema, name)
            return _object(schema, as_resource(schema) if is_resource else schema.properties, name)
        case "string":
            return _string(schema)
        case "boolean":
            return BOOL
        case "number":
            return DOUBLE
        case "integer":
            return INT
    return None


def _list(schema: Schema, name: str) -> Declared | None:
    if schema.items is None:
        return None
    item = declare(schema.items, is_resource=schema.items.embedded, name=f"{name}.@idx")
    if item is None:
        return None
    fitting = (LARGEST_REQUEST - 2) // (item.min_bytes + 1)
    most = fitting if schema.max_items is None else max(schema.max_items, 0)
    return Declared(types.list_of(item.type), most, 2, element=item)


def _map(schema: Schema, name: str) -> Declared | None:
    assert schema.values is not None
    value = declare(schema.values, is_resource=schema.values.embedded, name=f"{name}.@elem")
    if value is None:
        return None
    fitting = (LARGEST_REQUEST - 2) // (value.min_bytes + 6)
    most = fitting if schema.max_properties is None else max(schema.max_properties, 0)
    return Declared(types.map_of(types.STRING, value.type), most, 2, key=_KEY, element=value)


def _object(schema: Schema, properties: Mapping[str, Schema], name: str) -> Declared:
    fields: dict[str, Declared] = {}
    min_bytes = 2
    for key, inner in properties.items():
        escaped = escape(key)
        declared = declare(inner, is_resource=inner.embedded, name=f"{name}.{escaped or key}")
        if declared is None:
            continue
        if escaped is not None:
            fields[escaped] = declared
        if key in schema.required and inner.default is MISSING:
            min_bytes += len(key.encode()) + declared.min_bytes + 4
    made = Type("struct", name, fields={key: declared.type for key, declared in fields.items()})
    return Declared(made, 0, min_bytes, fields=fields)


def _string(schema: Schema) -> Declared:
    given = None if schema.max_length is None else max(schema.max_length, 0)
    match schema.format:
        case "byte":
            return Declared(types.BYTES, _LONGEST_STRING if given is None else given, 2)
        case "duration":
            return Declared(types.DURATION, 32, 3)
        case "date":
            return Declared(types.TIMESTAMP, 12, 12)
        case "date-time":
            return Declared(types.TIMESTAMP, 32, 21)
    if given is not None:
        # A character can take four bytes.
        return Declared(types.STRING, given * 4, 2)
    if schema.enum:
        longest = max((len(value.encode()) for value in schema.enum if isinstance(value, str)), default=0)
        return Declared(types.STRING, longest, 2)
    return Declared(types.STRING, _LONGEST_STRING, 2)


def is_described(values: Schema | None) -> bool:
    """Of a map's values: whether the schema says anything of them."""
    return values is not None and values is not ANYTHING and values is not NOTHING
