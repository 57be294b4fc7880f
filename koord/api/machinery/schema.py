"""Structs to the schemas that an API server enforces: OpenAPI v3, structural, everything inlined.

Names, types, ranges, enumerations and descriptions all come from the struct (see `protocol.crd.fields`), so that what
koord reads and what the API server accepts cannot drift apart. A structural schema gives each node one type and has
no references; the one exception is the pair of types of an int-or-string.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import inspect

from koord.api.kubernetes.meta import ObjectMeta, ObjectReference, OwnerReference
from koord.api.kubernetes.words import Word
from koord.api.machinery.descriptions import field_descriptions, type_description
from koord.api.machinery.struct import Struct
from koord.api.text.selector import LabelSelector

Schema: TypeAlias = dict[str, Any]

_INT_OR_STRING: Final[Schema] = {
    "x-kubernetes-int-or-string": True,
    "anyOf": [{"type": "integer"}, {"type": "string"}],
}

_BY_NAME: Final[dict[str, Schema]] = {
    "quantity": {
        **_INT_OR_STRING,
        "pattern": r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$",
    },
    "int-or-string": _INT_OR_STRING,
    "duration": {
        "type": "string",
        "pattern": r"^[+-]?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$",
    },
    "date-time": {"type": "string", "format": "date-time"},
    "free-form": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
}
"""What a type that says `Meta(extra={"schema": name})` looks like on the wire."""

_ATOMIC: Final = (LabelSelector, ObjectReference, OwnerReference)
"""Server-side apply replaces these as a whole: half of one selector and half of another select something else."""


class SchemaError(TypeError):
    """A type that has no structural schema. A defect in the type, not in any input."""


def resource_schema(type_: type[Struct]) -> Schema:
    """The schema of a whole object of a kind: `type_` together with apiVersion and kind. The caller may change it."""
    schema: Schema = msgspec.json.decode(_resource_schema(type_))
    return schema


@cache
def _resource_schema(type_: type[Struct]) -> bytes:
    info = inspect.type_info(type_)
    assert isinstance(info, inspect.StructType)
    body = _struct(info)
    properties = {
        "apiVersion": {"type": "string", "description": "Version of the API that the object is written for."},
        "kind": {"type": "string", "description": "Kind of the object."},
        "metadata": {"type": "object"},
        **{name: schema for name, schema in body["properties"].items() if name != "metadata"},
    }
    return msgspec.json.encode({"description": type_description(type_), **body, "properties": properties})


def type_schema(type_: Any) -> Schema:
    """The schema of any type that a field of an object can have."""
    return _schema(inspect.type_info(type_))


def _schema(type_: inspect.Type) -> Schema:
    match type_:
        case inspect.Metadata(type=inner, extra=extra, extra_json_schema=more):
            name = (extra or {}).get("schema")
            return {**(_BY_NAME[name] if name else _schema(inner)), **(more or {})}
        case inspect.UnionType(types=types):
            members = [member for member in types if not isinstance(member, inspect.NoneType)]
            if len(members) == 1:
                return _schema(members[0])
            raise SchemaError(f"a union of {len(members)} types has no structural schema: {type_}")
        case inspect.StructType():
            return _struct(type_)
        case inspect.DictType(value_type=value_type):
            return {"type": "object", "additionalProperties": _schema(value_type)}
        case inspect.VarTupleType(item_type=item_type) | inspect.ListType(item_type=item_type):
            return _given(type="array", items=_schema(item_type), minItems=type_.min_length, maxItems=type_.max_length)
        case inspect.LiteralType(values=values):
            return _enumeration(list(values))
        case inspect.EnumType(cls=cls) if issubclass(cls, Word):
            return {"type": "string"}
        case inspect.EnumType(cls=cls):
            return _enumeration([member.value for member in cls])
        case inspect.StrType():
            return _given(type="string", minLength=type_.min_length, maxLength=type_.max_length, pattern=type_.pattern)
        case inspect.IntType():
            low = type_.ge if type_.gt is None else type_.gt + 1
            high = type_.le if type_.lt is None else type_.lt - 1
            return _given(type="integer", format="int64", minimum=low, maximum=high)
        case inspect.FloatType():
            return _given(
                type="number",
                format="double",
                minimum=type_.ge if type_.gt is None else type_.gt,
                exclusiveMinimum=True if type_.gt is not None else None,
                maximum=type_.le if type_.lt is None else type_.lt,
                exclusiveMaximum=True if type_.lt is not None else None,
            )
        case inspect.BoolType():
            return {"type": "boolean"}
        case _:
            raise SchemaError(f"no structural schema for {type_}")


def _struct(info: inspect.StructType) -> Schema:
    descriptions = field_descriptions(info.cls)
    properties: Schema = {}
    for field in info.fields:
        if isinstance(field.type, inspect.StructType) and field.type.cls is ObjectMeta:
            # The API server knows metadata and refuses a schema that describes it.
            properties[field.encode_name] = {"type": "object"}
            continue
        description = descriptions.get(field.name)
        properties[field.encode_name] = {
            **({"description": description} if description else {}),
            **_schema(field.type),
        }
    required = [field.encode_name for field in info.fields if field.required]
    return {
        "type": "object",
        **({"required": required} if required else {}),
        **({"x-kubernetes-map-type": "atomic"} if issubclass(info.cls, _ATOMIC) else {}),
        **({"properties": properties} if properties else {}),
    }


def _enumeration(values: list[Any]) -> Schema:
    return {"type": "string" if all(isinstance(value, str) for value in values) else "integer", "enum": values}


def _given(**keywords: Any) -> Schema:
    return {name: value for name, value in keywords.items() if value is not None}
