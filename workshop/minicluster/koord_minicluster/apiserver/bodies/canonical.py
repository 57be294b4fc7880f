"""Is a value already what the server would keep of it? Then it need not be read field by field.

Programs mostly write objects as `typed.read` would: no nulls, nothing empty, every field known and of its type. msgspec
checks that in C, for each definition by a type of its own, at a fifth of the price. Whatever it does not take goes the
long way, which knows what to make of it and what to say. What always appears is filled in, as by `typed.read`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final, Literal

import msgspec

from koord.api.machinery.object_schema import Schema
from koord.api.text import quantity
from koord_minicluster.apiserver.bodies import typed

Finish = Callable[[Any], None]

_NEVER: Final = Literal["\0"]
"""Of fields that only the long way reads."""
_LIMITS: Final = {"int32": 31, "int64": 63}
_TIME: Final = r"^20[0-9]{2}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]Z$"
"""Times that are surely times, and in their final form."""


def is_kept(schema: Schema, value: object, text: bytes) -> bool:
    """Whether `typed.read` would keep the value, decoded from a text, unchanged. If so, finishes it in place."""
    if b"false" in text:
        # Some fields do not keep false, and a type cannot express that.
        return False
    shape, finish = _shape_of(schema)
    try:
        msgspec.convert(value, shape)
        finish(value)
    except (msgspec.ValidationError, quantity.QuantityError):
        return False
    return True


def prepare(schema: Schema) -> None:
    """Compile what is otherwise compiled at its first use."""
    _shape_of(schema)


_shapes: dict[str, tuple[Any, Finish]] = {}


def _shape_of(schema: Schema) -> tuple[Any, Finish]:
    shape = _shapes.get(schema.ref)
    if shape is None:
        try:
            shape = _struct(schema, ()), _finish_struct(schema, ()) or _finished
        except _Recursive:
            # A definition that contains itself: no type is made for it.
            shape = _NEVER, _finished
        _shapes[schema.ref] = shape
    return shape


class _Recursive(Exception):
    pass


def _struct(schema: Schema, within: tuple[str, ...]) -> Any:
    if schema.ref in within:
        raise _Recursive
    struct = _structs.get(schema.ref)
    if struct is None:
        within = (*within, schema.ref)
        names = {f"field_{i}": key for i, key in enumerate(schema.properties)}
        fields: list[Any] = []
        for name, key in names.items():
            field = schema.properties[key]
            shape = _field(field, within)
            fields.append((name, shape) if _must_be_sent(schema, key) else (name, shape, None))
        struct = _structs[schema.ref] = msgspec.defstruct(
            f"Shape{len(_structs)}", fields, rename=names, forbid_unknown_fields=True, kw_only=True, gc=False
        )
    return struct


_structs: dict[str, Any] = {}


def _must_be_sent(schema: Schema, key: str) -> bool:
    """Of fields that always appear, names and numbers are hardly ever left out; the others are filled in."""
    field = schema.properties[key]
    if not typed.always_appears(schema, key) or field.format in ("date-time", "micro-time"):
        return False
    return field.type != "object" or any(_must_be_sent(field, inner) for inner in field.properties)


def _field(schema: Schema, within: tuple[str, ...]) -> Any:
    kept_empty = schema.written != "filled"
    match schema.type:
        case "string" if not schema.format and not kept_empty:
            return Annotated[str, msgspec.Meta(min_length=1)]
        case "integer" if not kept_empty:
            return Annotated[int, msgspec.Meta(ge=1, le=(1 << _LIMITS.get(schema.format, 63)) - 1)]
        case "array" if schema.written != "always":
            return Annotated[_value(schema, within), msgspec.Meta(min_length=1)]
        case "object" if schema.values is not None and not schema.preserve_unknown:
            return Annotated[_value(schema, within), msgspec.Meta(min_length=1)]
    return _value(schema, within)


def _value(schema: Schema, within: tuple[str, ...]) -> Any:
    if schema.format == "raw" or schema.preserve_unknown:
        return Any
    match schema.type, schema.format:
        case "string", "":
            return str
        case "string", "date-time":
            return Annotated[str, msgspec.Meta(pattern=_TIME)]
        case "boolean", _:
            return bool
        case "integer", _:
            limit = 1 << _LIMITS.get(schema.format, 63)
            return Annotated[int, msgspec.Meta(ge=-limit, le=limit - 1)]
        case "any", "int-or-string":
            return Annotated[int, msgspec.Meta(ge=-(1 << 31), le=(1 << 31) - 1)] | str
        case "array", _ if schema.items is not None:
            return list[_value(schema.items, within)]  # type: ignore[misc]  # types made at run time
        case "object", _ if schema.values is not None and schema.values.format == "quantity":
            return dict[str, str]
        case "object", _ if schema.values is not None:
            return dict[str, _value(schema.values, within)]  # type: ignore[misc]
        case "object", _ if schema.ref and schema.properties:
            return _struct(schema, within)
    return _NEVER


def _finished(_value: Any) -> None: ...


def _finish_struct(schema: Schema, within: tuple[str, ...]) -> Finish | None:
    """Fills in what always appears, and writes amounts in their final form; None where there is nothing to do."""
    if schema.ref in within:
        raise _Recursive
    within = (*within, schema.ref)
    always = [
        (key, typed.zero(field))
        for key, field in schema.properties.items()
        if typed.always_appears(schema, key) and not _must_be_sent(schema, key)
    ]
    deeper = {key: inner for key, field in schema.properties.items() if (inner := _finish_value(field, within))}
    if not always and not deeper:
        return None
    few = list(deeper.items())

    def finish(value: Any) -> None:
        if len(few) < len(value):
            for key, inner in few:
                if key in value:
                    inner(value[key])
        else:
            for key, part in value.items():
                if key in deeper:
                    deeper[key](part)
        for key, zero in always:
            if key not in value:
                value[key] = zero()

    return finish


def _finish_value(schema: Schema, within: tuple[str, ...]) -> Finish | None:
    if schema.format == "raw" or schema.preserve_unknown:
        return None
    elements = schema.items or schema.values
    if elements is None:
        return _finish_struct(schema, within) if schema.ref and schema.properties else None
    if schema.values is not None and elements.format == "quantity":
        return _finish_amounts
    finish = _finish_value(elements, within)
    return None if finish is None else _finish_all(finish)


def _finish_amounts(amounts: dict[str, Any]) -> None:
    for name, amount in amounts.items():
        amounts[name] = quantity.canonical(amount)


def _finish_all(finish: Finish) -> Finish:
    def finish_all(elements: Any) -> None:
        for element in elements.values() if elements.__class__ is dict else elements:
            finish(element)

    return finish_all
