"""The shape of an object: one `Schema` tree for built-in kinds and custom ones alike.

Validation, pruning, defaulting, strategic merge, server-side apply and OpenAPI all read it, so that a fact about a
field (its type, how its list merges, its default) stands in one place. Built-in kinds come from the table of facts in
`schemas/`, custom kinds from their CustomResourceDefinition.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal


class Missing:
    """The default of a field that has none; `None` is a value in JSON."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = Missing()

Type = Literal["object", "array", "string", "integer", "number", "boolean", "any"]
ListType = Literal["atomic", "set", "map"]
Written = Literal["set", "filled", "always"]
"""When a built-in field appears in an object: when it is set, when it is not empty or zero, or always."""


@dataclass(frozen=True, slots=True, eq=False)
class Schema:
    """What a value may be, and how it merges. Shared and possibly recursive (JSONSchemaProps): compare by identity."""

    type: Type = "any"
    format: str = ""
    "int32, int64, double, byte, date-time, micro-time, quantity, duration, int-or-string, raw (any object), ..."
    properties: Mapping[str, Schema] = field(default_factory=dict)
    values: Schema | None = None
    "Of a map: what its values are (additionalProperties)."
    items: Schema | None = None
    required: tuple[str, ...] = ()
    default: object = MISSING
    enum: tuple[object, ...] = ()
    nullable: bool = False

    list_type: ListType = "atomic"
    list_keys: tuple[str, ...] = ()
    atomic_map: bool = False
    patch_strategies: frozenset[str] = frozenset()
    "Of strategic merge: merge, replace, retainKeys."
    patch_merge_key: str = ""

    preserve_unknown: bool = False
    embedded: bool = False
    int_or_string: bool = False

    minimum: float | None = None
    maximum: float | None = None
    exclusive_minimum: bool = False
    exclusive_maximum: bool = False
    multiple_of: float | None = None
    min_length: int | None = None
    max_length: int | None = None
    pattern: str = ""
    min_items: int | None = None
    max_items: int | None = None
    unique_items: bool = False
    min_properties: int | None = None
    max_properties: int | None = None
    all_of: tuple[Schema, ...] = ()
    any_of: tuple[Schema, ...] = ()
    one_of: tuple[Schema, ...] = ()
    not_: Schema | None = None
    rules: tuple[Mapping[str, object], ...] = ()
    "CEL rules (x-kubernetes-validations), as written."

    written: Written = "set"
    pointer: bool = False
    "Of a built-in field that always appears: null stands for nothing, not an empty value."
    go_type: str = ""
    "Of a built-in field: the type that messages about malformed bodies name."
    go_within: str = ""
    "Of a built-in field: the embedded structs that error messages put before its name, each with a dot after it."

    title: str = ""
    description: str = ""
    ref: str = ""
    "Its name in OpenAPI (io.k8s.api.core.v1.PodSpec), where it is a shared definition."


ANYTHING: Final = Schema(nullable=True)
"""As a map's `values`: they are not described (additionalProperties: true)."""
NOTHING: Final = Schema(nullable=True)
"""As a map's `values`: it may have no keys beyond its properties (additionalProperties: false)."""
