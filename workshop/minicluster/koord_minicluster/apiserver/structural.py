"""Custom resources by their schemas: what is dropped, what is filled in, what is refused.

The rules are those of structural schemas. A field that the schema does not name is pruned, unless it says to preserve
unknown fields; an absent field, or a null where null is not allowed, gets its default; without one it is dropped.
`validate` and its messages are in `schema_validation`. Built-in kinds come here for their fixed defaults only.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Final

import msgspec

from koord.api import builtin_schemas as schemas
from koord.api.machinery.object_schema import MISSING, Schema
from koord.api.machinery.unknown_fields import unknown_fields
from koord_minicluster.apiserver.bodies import typed
from koord_minicluster.apiserver.custom.schema_validation import has_rules, validate, validate_status

__all__ = [
    "BadEmbedded", "coerce_embedded", "default", "has_rules", "prune", "validate", "validate_status",
]  # fmt: skip

META_FIELDS: Final = frozenset({"apiVersion", "kind", "metadata"})
Fill = Callable[[Any], None]


class BadEmbedded(ValueError):
    """The metadata of an object inside an object are malformed."""


def prune(schema: Schema, obj: dict[str, Any]) -> list[str]:
    """Drop what the schema of a custom resource does not name, in place. Gives the paths, sorted."""
    unknown: list[str] = []
    _prune(schema, obj, "", True, unknown)
    return sorted(unknown)


def _prune(schema: Schema, value: object, path: str, embedded: bool, unknown: list[str]) -> None:
    if isinstance(value, dict):
        doomed: list[str] = []
        for key, item in value.items():
            if embedded and key in META_FIELDS:
                continue
            inner = schema.properties.get(key, schema.values)
            if inner is not None:
                if isinstance(item, dict | list):
                    _prune(inner, item, f"{path}.{key}" if path else key, inner.embedded, unknown)
            elif not schema.preserve_unknown:
                doomed.append(key)
        for key in doomed:
            del value[key]
            unknown.append(f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        if schema.items is None and schema.preserve_unknown:
            return
        items = schema.items or Schema()
        for i, item in enumerate(value):
            if isinstance(item, dict | list):
                _prune(items, item, f"{path}[{i}]", items.embedded, unknown)


def coerce_embedded(schema: Schema, obj: dict[str, Any]) -> list[str]:
    """Give the metadata of embedded resources their types, in place. Gives the paths of unknown fields in them."""
    unknown: list[str] = []
    if _has_embedded(schema):
        _coerce(schema, obj, "", unknown)
    return sorted(unknown)


def _has_embedded(schema: Schema) -> bool:
    inner = (
        *schema.properties.values(),
        *(subschema for subschema in (schema.items, schema.values) if subschema is not None),
    )
    return schema.embedded or any(_has_embedded(subschema) for subschema in inner)


def _coerce(schema: Schema, value: object, path: str, unknown: list[str]) -> None:
    if isinstance(value, list) and schema.items is not None:
        for i, item in enumerate(value):
            _coerce(schema.items, item, f"{path}[{i}]", unknown)
    if not isinstance(value, dict):
        return
    for key in list(value):
        item = value[key]
        where = f"{path}.{key}" if path else key
        if schema.embedded and key in ("apiVersion", "kind") and not isinstance(item, str):
            raise BadEmbedded(f"{where}: Invalid value: {_shown(item)}: must be a string")
        if schema.embedded and key == "metadata":
            try:
                value[key], has_unknown = typed.read(schemas.object_meta(), item)
            except typed.Mistyped as wrong:
                raise BadEmbedded(f"{where}: Invalid value: {_shown(item)}: {wrong}") from None
            if has_unknown:
                unknown += unknown_fields(schemas.object_meta(), item, where)
        inner = schema.properties.get(key, schema.values)
        if inner is not None:
            _coerce(inner, value[key], where, unknown)


def _shown(value: object) -> str:
    return msgspec.json.encode(value, order="sorted").decode()


def default(schema: Schema, obj: dict[str, Any]) -> None:
    """Fill in defaults, in place."""
    if schema.ref:
        fill = _filler(schema)
        if fill is not None:
            fill(obj)
        return
    _default(schema, obj)


def _default(schema: Schema, value: object) -> None:
    if isinstance(value, dict):
        for key, field in schema.properties.items():
            if field.default is not MISSING and (key not in value or (value[key] is None and not field.nullable)):
                value[key] = copy.deepcopy(field.default)
        for key, item in value.items():
            inner = schema.properties.get(key, schema.values)
            if inner is None:
                continue
            if item is None and not inner.nullable and inner.default is not MISSING:
                item = value[key] = copy.deepcopy(inner.default)
            _default(inner, item)
    elif isinstance(value, list) and schema.items is not None:
        items = schema.items
        for i, item in enumerate(value):
            if item is None and not items.nullable and items.default is not MISSING:
                item = value[i] = copy.deepcopy(items.default)
            _default(items, item)


def drop_nulls(schema: Schema, value: object) -> None:
    """Drop the nulls that are not allowed and have no default, in place, as from every custom object that is sent."""
    if isinstance(value, dict):
        doomed: list[str] = []
        for key, item in value.items():
            inner = schema.properties.get(key, schema.values)
            if inner is None:
                continue
            if item is None:
                if not inner.nullable and inner.default is MISSING:
                    doomed.append(key)
            else:
                drop_nulls(inner, item)
        for key in doomed:
            del value[key]
    elif isinstance(value, list) and schema.items is not None:
        for item in value:
            drop_nulls(schema.items, item)


_fillers: dict[str, Fill | None] = {}
_in_progress: set[str] = set()


def _filler(schema: Schema) -> Fill | None:
    """Of a built-in definition: the walk to those fields that have fixed defaults, or None where none has."""
    if schema.ref in _fillers:
        return _fillers[schema.ref]
    if schema.ref in _in_progress:
        return None
    _in_progress.add(schema.ref)
    try:
        plan = _plan(schema)
    finally:
        _in_progress.discard(schema.ref)
    _fillers[schema.ref] = plan
    return plan


def _plan(schema: Schema) -> Fill | None:
    if (elements := schema.items or schema.values) is not None:
        element_fill = _inner_filler(elements)
        return _fill_all(element_fill) if element_fill is not None else None
    constants = {key: field.default for key, field in schema.properties.items() if field.default is not MISSING}
    deeper = [(key, inner) for key, field in schema.properties.items() if (inner := _inner_filler(field)) is not None]
    if not constants and not deeper:
        return None

    def fill(value: Any) -> None:
        for key, constant in constants.items():
            if value.get(key) in (None, ""):
                value[key] = copy.deepcopy(constant)
        for key, inner in deeper:
            item = value.get(key)
            if item:
                inner(item)

    return fill


def _inner_filler(schema: Schema) -> Fill | None:
    if schema.ref:
        return _filler(schema)
    return _plan(schema) if schema.items is not None or schema.values is not None else None


def _fill_all(fill: Fill) -> Fill:
    """Of a list's items or a map's values."""

    def fill_all(elements: Any) -> None:
        for value in elements.values() if isinstance(elements, dict) else elements:
            if value:
                fill(value)

    return fill_all
