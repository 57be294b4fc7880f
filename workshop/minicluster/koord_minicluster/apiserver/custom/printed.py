"""How the real server prints parts of a CustomResourceDefinition in refusals: its internal form, every field of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

_TEXT, _FLAG, _NONE = "", False, None
_SCHEMA_FIELDS: Final[tuple[tuple[str, str, object], ...]] = (
    ("ID", "id", _TEXT), ("Schema", "$schema", _TEXT), ("Ref", "$ref", _NONE), ("Description", "description", _TEXT),
    ("Type", "type", _TEXT), ("Nullable", "nullable", _FLAG), ("Format", "format", _TEXT), ("Title", "title", _TEXT),
    ("Default", "default", _NONE), ("Maximum", "maximum", _NONE), ("ExclusiveMaximum", "exclusiveMaximum", _FLAG),
    ("Minimum", "minimum", _NONE), ("ExclusiveMinimum", "exclusiveMinimum", _FLAG), ("MaxLength", "maxLength", _NONE),
    ("MinLength", "minLength", _NONE), ("Pattern", "pattern", _TEXT), ("MaxItems", "maxItems", _NONE),
    ("MinItems", "minItems", _NONE), ("UniqueItems", "uniqueItems", _FLAG), ("MultipleOf", "multipleOf", _NONE),
    ("Enum", "enum", _NONE), ("MaxProperties", "maxProperties", _NONE), ("MinProperties", "minProperties", _NONE),
    ("Required", "required", _NONE), ("Items", "items", _NONE), ("AllOf", "allOf", _NONE), ("OneOf", "oneOf", _NONE),
    ("AnyOf", "anyOf", _NONE), ("Not", "not", _NONE), ("Properties", "properties", _NONE),
    ("AdditionalProperties", "additionalProperties", _NONE), ("PatternProperties", "patternProperties", _NONE),
    ("Dependencies", "dependencies", _NONE), ("AdditionalItems", "additionalItems", _NONE),
    ("Definitions", "definitions", _NONE), ("ExternalDocs", "externalDocs", _NONE), ("Example", "example", _NONE),
    ("XPreserveUnknownFields", "x-kubernetes-preserve-unknown-fields", _NONE),
    ("XEmbeddedResource", "x-kubernetes-embedded-resource", _FLAG),
    ("XIntOrString", "x-kubernetes-int-or-string", _FLAG), ("XListMapKeys", "x-kubernetes-list-map-keys", _NONE),
    ("XListType", "x-kubernetes-list-type", _NONE), ("XMapType", "x-kubernetes-map-type", _NONE),
    ("XValidations", "x-kubernetes-validations", _NONE),
)  # fmt: skip

GO_NAMES: Final[Mapping[str, str]] = {name: go_name for go_name, name, _ in _SCHEMA_FIELDS}


def printed_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    printed: dict[str, Any] = {}
    for go_name, name, zero in _SCHEMA_FIELDS:
        value = schema.get(name, zero)
        match name:
            case "allOf" | "oneOf" | "anyOf" if value:
                value = [printed_schema(item) for item in value]
            case "not" if value:
                value = printed_schema(value)
            case "properties" | "definitions" | "patternProperties" if value:
                value = {key: printed_schema(value[key]) for key in sorted(value)}
            case "items" if isinstance(value, Mapping):
                value = {"Schema": printed_schema(value), "JSONSchemas": None}
            case "additionalProperties" | "additionalItems" if value is not None:
                inner = printed_schema(value) if isinstance(value, Mapping) else None
                value = {"Allows": bool(value) or inner is not None, "Schema": inner}
        printed[go_name] = value
    return printed


def printed_versions(versions: Sequence[Mapping[str, Any]], shared: frozenset[str]) -> list[dict[str, Any]]:
    """The versions; what they all share in the same form (`schema`, `subresources`, ...) is kept elsewhere there."""

    def part(version: Mapping[str, Any], name: str) -> Any:
        value = version.get(name)
        if name in shared or value is None:
            return None
        return {"OpenAPIV3Schema": printed_schema(value.get("openAPIV3Schema", {}))} if name == "schema" else value

    return [
        {
            "Name": version.get("name", ""),
            "Served": version.get("served", False),
            "Storage": version.get("storage", False),
            "Deprecated": version.get("deprecated", False),
            "DeprecationWarning": version.get("deprecationWarning"),
            "Schema": part(version, "schema"),
            "Subresources": part(version, "subresources"),
            "AdditionalPrinterColumns": part(version, "additionalPrinterColumns"),
            "SelectableFields": part(version, "selectableFields"),
        }
        for version in versions
    ]
