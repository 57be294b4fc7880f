"""Fields of an object that its schema does not have."""

from __future__ import annotations

from collections.abc import Collection

from koord.api.machinery.faults import join
from koord.api.machinery.object_schema import Schema


def unknown_fields(schema: Schema, value: object, path: str = "") -> list[str]:
    """The paths of fields that a kind does not have, in the order of the text."""
    return [where for where, _ in unknown_with_valid(schema, value, path)]


def unknown_with_valid(schema: Schema, value: object, path: str = "") -> list[tuple[str, Collection[str]]]:
    """As `unknown_fields`, each with the names that would be valid there."""
    return [(join(path, where), valid) for where, valid in _unknown(schema, value)]


def _unknown(schema: Schema, value: object) -> list[tuple[str, Collection[str]]]:
    """Paths are put together on the way out: most objects have no unknown field."""
    unknown_here: list[tuple[str, Collection[str]]] = []
    if isinstance(value, dict) and not schema.preserve_unknown:
        properties, values = schema.properties, schema.values
        for key, item in value.items():
            inner = properties.get(key) or values
            if inner is None:
                if schema.type == "object":
                    unknown_here.append((key, properties.keys()))
            elif isinstance(item, dict | list) and (within := _unknown(inner, item)):
                unknown_here += ((join(key, where), valid) for where, valid in within)
    elif isinstance(value, list) and schema.items is not None:
        for i, item in enumerate(value):
            if isinstance(item, dict | list) and (within := _unknown(schema.items, item)):
                unknown_here += ((join(f"[{i}]", where), valid) for where, valid in within)
    return unknown_here
