"""From the OpenAPI schema of a CustomResourceDefinition to a `Schema` tree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from koord.api.machinery.object_schema import ANYTHING, MISSING, NOTHING, Schema


def from_openapi(source: Mapping[str, Any]) -> Schema:
    """The schema in a CustomResourceDefinition (`openAPIV3Schema`)."""
    additional = source.get("additionalProperties")
    values: Schema | None = None
    if isinstance(additional, Mapping):
        values = from_openapi(additional)
    elif additional is not None:
        values = ANYTHING if additional else NOTHING
    items = source.get("items")
    list_type = source.get("x-kubernetes-list-type", "atomic")
    int_or_string = bool(source.get("x-kubernetes-int-or-string"))
    return Schema(
        type=source.get("type") or "any",
        format=source.get("format", ""),
        properties={name: from_openapi(schema) for name, schema in (source.get("properties") or {}).items()},
        values=values,
        items=from_openapi(items) if isinstance(items, Mapping) else None,
        required=tuple(source.get("required") or ()),
        default=source.get("default", MISSING) if source.get("default") is not None else MISSING,
        enum=tuple(source.get("enum") or ()),
        nullable=bool(source.get("nullable")),
        list_type=list_type,
        list_keys=tuple(source.get("x-kubernetes-list-map-keys") or ()),
        atomic_map=source.get("x-kubernetes-map-type") == "atomic",
        preserve_unknown=bool(source.get("x-kubernetes-preserve-unknown-fields")),
        embedded=bool(source.get("x-kubernetes-embedded-resource")),
        int_or_string=int_or_string,
        minimum=source.get("minimum"),
        maximum=source.get("maximum"),
        exclusive_minimum=bool(source.get("exclusiveMinimum")),
        exclusive_maximum=bool(source.get("exclusiveMaximum")),
        multiple_of=source.get("multipleOf"),
        min_length=source.get("minLength"),
        max_length=source.get("maxLength"),
        pattern=source.get("pattern", ""),
        min_items=source.get("minItems"),
        max_items=source.get("maxItems"),
        unique_items=bool(source.get("uniqueItems")),
        min_properties=source.get("minProperties"),
        max_properties=source.get("maxProperties"),
        all_of=_several(source.get("allOf")),
        any_of=_several(source.get("anyOf")),
        one_of=_several(source.get("oneOf")),
        not_=from_openapi(source["not"]) if source.get("not") is not None else None,
        rules=tuple(source.get("x-kubernetes-validations") or ()),
        title=source.get("title", ""),
        description=source.get("description", ""),
    )


def _several(sources: list[Mapping[str, Any]] | None) -> tuple[Schema, ...]:
    return tuple(from_openapi(source) for source in sources or ())
