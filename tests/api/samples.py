"""An object of any type with every field of it set, as plain data: where a test wants to meet them all."""

from __future__ import annotations

from typing import Any

from msgspec import inspect


def sample(type_: Any) -> Any:
    """Plain data that decodes as `type_`, with one item in every list and map."""
    return _filled(inspect.type_info(type_))


def _filled(type_: inspect.Type) -> Any:
    match type_:
        case inspect.Metadata(extra_json_schema=more) if more and "enum" in more:
            return more["enum"][-1]
        case inspect.Metadata(type=inner, extra=extra):
            return "1" if (extra or {}).get("schema") == "quantity" else _filled(inner)
        case inspect.StructType(fields=fields):
            return {field.encode_name: _filled(field.type) for field in fields}
        case inspect.VarTupleType(item_type=item) | inspect.ListType(item_type=item):
            return [_filled(item)]
        case inspect.DictType(value_type=item):
            return {"some": _filled(item)}
        case inspect.UnionType(types=members):
            return _filled(next(member for member in members if not isinstance(member, inspect.NoneType)))
        case inspect.LiteralType(values=values):
            return values[-1]
        case inspect.EnumType(cls=cls):
            return list(cls)[-1].value
        case inspect.BoolType():
            return True
        case inspect.IntType(ge=low):
            return max(low or 0, 1)
        case inspect.FloatType():
            return 1.5
        case inspect.BytesType():
            return "YQ=="
        case inspect.StrType():
            return "word"
        case inspect.AnyType():
            return {"any": ["thing"]}
        case _:
            raise TypeError(f"no sample of {type_}")
