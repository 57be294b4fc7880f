"""Objects with every field of their type filled in, made from the types alone, the same each time.

A value is never the field's default, so that a field which is lost, or replaced by its default, shows.
"""

from __future__ import annotations

from typing import Any

from msgspec import NODEFAULT, inspect

from koord.api.kubernetes.meta import ObjectMeta
from koord.api.protocol.crd.definitions import Definition

NAME = "every-field"

_BY_SCHEMA: dict[str, object] = {
    "quantity": "1500m",
    "duration": "1h30m0s",
    "date-time": "2026-11-15T04:25:02Z",
    "int-or-string": "30%",
    "free-form": {"spec": {"notInAnySchema": [1, "two", {"three": 3.5}]}, "metadata": {"labels": {"a": "b"}}},
}


def manifest(definition: Definition, version: str = "") -> dict[str, Any]:
    """An object of the kind, ready to be sent, with all that its type knows."""
    kind = definition.kind
    body = value(inspect.type_info(kind.type))
    assert isinstance(body, dict)
    metadata = {"name": NAME, **({"namespace": "default"} if kind.namespaced else {})}
    return {"apiVersion": f"{kind.group}/{version or kind.version}", "kind": kind.kind, **body, "metadata": metadata}


def value(type_: inspect.Type, name: str = "", default: object = NODEFAULT) -> object:
    match type_:
        case inspect.Metadata(extra=extra) if extra and "schema" in extra:
            return _BY_SCHEMA[extra["schema"]]
        case inspect.Metadata(extra_json_schema=more) if more and "enum" in more:
            return next(each for each in more["enum"] if each != default)
        case inspect.Metadata(type=inner):
            return value(inner, name, default)
        case inspect.UnionType(types=types):
            return value(next(t for t in types if not isinstance(t, inspect.NoneType)), name, default)
        case inspect.StructType(cls=cls) if cls is ObjectMeta:
            return {}
        case inspect.StructType(fields=fields):
            return {f.encode_name: value(f.type, f.encode_name, f.default) for f in fields}
        case inspect.DictType(key_type=key, value_type=item):
            return {value(key, "example.com/key"): value(item, "value")}
        case inspect.VarTupleType(item_type=item):
            return [value(item, name)]
        case inspect.LiteralType(values=values):
            return next(v for v in values if v != default)
        case inspect.EnumType(cls=cls):
            return next(member.value for member in cls if member.value and member != default)
        case inspect.BoolType():
            return default is not True
        case inspect.IntType():
            low = type_.ge if type_.ge is not None else type_.gt + 1 if type_.gt is not None else None
            high = type_.le if type_.le is not None else None
            return high if high is not None else 7 if low is None else low + 7
        case inspect.StrType():
            return name
        case _:
            raise AssertionError(f"no example of {type_}")
