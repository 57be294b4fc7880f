"""What a schema in a CustomResourceDefinition must be: structural, with defaults that fit, and lists that can merge.

Structural means: every node has one type, and what stands in anyOf, oneOf, allOf and not only restricts values. Each
rule and message is the real server's; `path` is where the schema stands, as its messages name it.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import msgspec

from koord.api.cel.patterns import pattern_fault
from koord.api.machinery.openapi_schema import from_openapi
from koord_minicluster.apiserver import structural
from koord_minicluster.apiserver.custom import schema_validation
from koord_minicluster.apiserver.status import Cause, forbidden, invalid, not_supported, required

Source = Mapping[str, Any]
Level = Literal["root", "item", "field"]

TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")
_INT_OR_STRING: Final = [{"type": "integer"}, {"type": "string"}]
_META_FIELDS: Final = frozenset({"metadata", "kind", "apiVersion"})
_UNSUPPORTED: Final = ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref")
_REASONS: Final = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_NO_TYPE: Final[Mapping[Level, str]] = {
    "root": "must not be empty at the root",
    "item": "must not be empty for specified array items",
    "field": "must not be empty for specified object fields",
}
_FORBIDDEN_NESTED: Final = (
    ("type", "must be empty to be structural"),
    ("default", "must be undefined to be structural"),
    ("title", "must be empty to be structural"),
    ("description", "must be empty to be structural"),
    ("nullable", "must be false to be structural"),
    ("x-kubernetes-preserve-unknown-fields", "must be false to be structural"),
    ("x-kubernetes-embedded-resource", "must be false to be structural"),
    ("x-kubernetes-int-or-string", "must be false to be structural"),
    ("x-kubernetes-list-map-keys", "must be empty to be structural"),
    ("x-kubernetes-list-type", "must be undefined to be structural"),
    ("x-kubernetes-map-type", "must be undefined to be structural"),
    ("x-kubernetes-validations", "must be empty to be structural"),
)


def schema_faults(schema: Source, path: str) -> list[Cause]:
    """Every fault of a version's schema."""
    causes: list[Cause] = []
    if schema.get("nullable"):
        causes.append(forbidden(f"{path}.nullable", "nullable cannot be true at the root"))
    of_structure: list[Cause] = []
    is_supported = not any(subschema.get(name) for subschema in subschemas(schema) for name in _UNSUPPORTED)
    if is_supported:
        of_structure = sorted(set(_structure_faults(schema, "root", path)), key=str)
        of_structure = of_structure or list(_default_faults(schema, path, is_root=True, in_meta=False))
    of_rules = list(_rule_faults(schema, path, _Place()))
    causes += [*of_structure, *of_rules]
    compiled = from_openapi(schema)
    if structural.has_rules(compiled):
        # CEL takes a while to load, and few servers are asked for it.
        from koord_minicluster.apiserver.rules.rule_checks import rule_faults

        causes += rule_faults(
            compiled, path, [cause.field for cause in of_rules], is_structural=is_supported and not of_structure
        )
    return causes


def is_structural(schema: Source) -> bool:
    return not any(_structure_faults(schema, "root", ""))


def subschemas(schema: Source) -> Iterator[Source]:
    """A schema and all those within it."""
    yield schema
    for name in ("allOf", "anyOf", "oneOf"):
        for subschema in schema.get(name) or ():
            yield from subschemas(subschema)
    for name in ("not", "items", "additionalProperties"):
        if isinstance(inner := schema.get(name), Mapping):
            yield from subschemas(inner)
    for subschema in (schema.get("properties") or {}).values():
        yield from subschemas(subschema)


def _key(path: str, name: str) -> str:
    return f"{path}.properties[{name}]"


def _structure_faults(schema: Source, level: Level, path: str) -> Iterator[Cause]:
    type_ = schema.get("type") or ""
    properties: Mapping[str, Source] = schema.get("properties") or {}
    items, additional = schema.get("items"), schema.get("additionalProperties")
    is_int_or_string = bool(schema.get("x-kubernetes-int-or-string"))
    preserves = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
    embedded = bool(schema.get("x-kubernetes-embedded-resource"))
    if type_ == "array" and items is None:
        yield required(f"{path}.items", "must be specified")
    if isinstance(items, Mapping):
        yield from _structure_faults(items, "item", f"{path}.items")
    for name, inner in properties.items():
        yield from _structure_faults(inner, "field", _key(path, name))
    if additional is not None:
        if level == "root":
            yield forbidden(f"{path}.additionalProperties", "must not be used at the root")
        if isinstance(additional, Mapping):
            yield from _structure_faults(additional, "field", f"{path}.additionalProperties")
        if embedded:
            text = "must not be used if x-kubernetes-embedded-resource is set"
            yield forbidden(f"{path}.additionalProperties", text)
    if is_int_or_string and preserves:
        text = "must be false if x-kubernetes-int-or-string is true"
        yield invalid(f"{path}.x-kubernetes-preserve-unknown-fields", True, text)
    if is_int_or_string and embedded:
        text = "must be false if x-kubernetes-int-or-string is true"
        yield invalid(f"{path}.x-kubernetes-embedded-resource", True, text)
    yield from _value_faults(schema, path, _is_int_or_string(schema), _is_int_or_string(_first_of_all(schema)))
    if level == "root":
        yield from _completeness_faults(schema, schema, path, path)
    if embedded and type_ != "object":
        text = "must be object if x-kubernetes-embedded-resource is true"
        yield invalid(f"{path}.type", type_, text) if type_ else required(f"{path}.type", text)
    elif not type_ and not is_int_or_string and not preserves:
        yield required(f"{path}.type", _NO_TYPE[level])
    if level == "root" and type_ and type_ != "object":
        yield invalid(f"{path}.type", type_, "must be object at the root")
    if level == "root" or embedded:
        for name in ("kind", "apiVersion"):
            if name in properties and properties[name].get("type") != "string":
                yield invalid(f"{_key(path, name)}.type", properties[name].get("type", ""), "must be string")
    if "metadata" in properties:
        yield from _metadata_faults(properties["metadata"], level, embedded, _key(path, "metadata"))
    if embedded and not preserves and not properties:
        text = "must not be empty if x-kubernetes-embedded-resource is true"
        yield required(f"{path}.properties", f"{text} without x-kubernetes-preserve-unknown-fields")


def _metadata_faults(schema: Source, level: Level, embedded: bool, path: str) -> Iterator[Cause]:
    if (level == "root" or embedded) and schema.get("type") != "object":
        yield invalid(f"{path}.type", schema.get("type", ""), "must be object")
    if level == "root":
        properties = set(schema.get("properties") or ())
        others = {key for key, value in schema.items() if value and key not in ("type", "default", "properties")}
        if others or not properties <= {"name", "generateName"}:
            text = "must not specify anything other than name and generateName, but metadata is implicitly specified"
            yield forbidden(path, text)


def _first_of_all(schema: Source) -> Source:
    first: Source = (schema.get("allOf") or [{}])[0]
    return first


def _is_int_or_string(schema: Source) -> bool:
    return [dict(alternative) for alternative in schema.get("anyOf") or ()] == _INT_OR_STRING


def _value_faults(schema: Source, path: str, skip_any_of: bool, skip_first_all_of: bool) -> Iterator[Cause]:
    if not skip_any_of:
        for i, inner in enumerate(schema.get("anyOf") or ()):
            yield from _nested_faults(inner, f"{path}.anyOf[{i}]")
    for i, inner in enumerate(schema.get("allOf") or ()):
        yield from _nested_faults(inner, f"{path}.allOf[{i}]", skip_first_all_of and i == 0)
    for i, inner in enumerate(schema.get("oneOf") or ()):
        yield from _nested_faults(inner, f"{path}.oneOf[{i}]")
    if isinstance(schema.get("not"), Mapping):
        yield from _nested_faults(schema["not"], f"{path}.not")
    if (pattern := schema.get("pattern")) and (fault := pattern_fault(pattern)):
        yield invalid(f"{path}.pattern", pattern, f"must be a valid regular expression, but isn't: {fault}")


def _nested_faults(schema: Source, path: str, skip_any_of: bool = False) -> Iterator[Cause]:
    yield from _value_faults(schema, path, skip_any_of, False)
    if isinstance(schema.get("items"), Mapping):
        yield from _nested_faults(schema["items"], f"{path}.items")
    for name, inner in (schema.get("properties") or {}).items():
        yield from _nested_faults(inner, _key(path, name))
    if schema.get("additionalProperties") is not None:
        yield forbidden(f"{path}.additionalProperties", "must be undefined to be structural")
    for name, text in _FORBIDDEN_NESTED:
        if schema.get(name):
            yield forbidden(f"{path}.{name}", text)
    if "metadata" in (schema.get("properties") or {}):
        yield forbidden(_key(path, "metadata"), "must not be specified in a nested context")


def _completeness_faults(values: Source, schema: Source | None, path: str, from_path: str) -> Iterator[Cause]:
    """What anyOf and the like speak of must be specified beside them."""
    nested = [(f"{from_path}.not", values["not"])] if isinstance(values.get("not"), Mapping) else []
    for name in ("allOf", "anyOf", "oneOf"):
        nested += [(f"{from_path}.{name}[{i}]", inner) for i, inner in enumerate(values.get(name) or ())]
    for where, inner in nested:
        yield from _nested_completeness_faults(inner, schema, path, where)


def _nested_completeness_faults(values: Source, schema: Source | None, path: str, from_path: str) -> Iterator[Cause]:
    if schema is None:
        yield required(path, f"because it is defined in {from_path}")
        return
    yield from _completeness_faults(values, schema, path, from_path)
    if isinstance(values.get("items"), Mapping):
        items = schema.get("items")
        yield from _nested_completeness_faults(values["items"], items, f"{path}.items", f"{from_path}.items")
    properties: Mapping[str, Source] = schema.get("properties") or {}
    additional = schema.get("additionalProperties")
    for name, inner in (values.get("properties") or {}).items():
        where = _key(from_path, name)
        if name in properties:
            yield from _nested_completeness_faults(inner, properties[name], _key(path, name), where)
        elif isinstance(additional, Mapping):
            yield from _nested_completeness_faults(inner, additional, f"{path}.additionalProperties", where)
        elif not schema.get("x-kubernetes-preserve-unknown-fields"):
            yield required(_key(path, name), f"because it is defined in {where}")


def _default_faults(schema: Source, path: str, *, is_root: bool, in_meta: bool) -> Iterator[Cause]:
    """Defaults must fit the schema that they stand in."""
    if schema.get("default") is not None and not in_meta:
        if is_root:
            # A whole object; it has what every object has.
            schema = {**schema, "x-kubernetes-embedded-resource": True}
        value, compiled = schema["default"], from_openapi(schema)
        pruned = {"default": copy.deepcopy(value)}
        structural.prune(from_openapi({"type": "object", "properties": {"default": schema}}), pruned)
        if pruned["default"] != value:
            yield invalid(f"{path}.default", value, "must not have unknown fields")
        for cause in schema_validation.validate(compiled, value):
            where = "" if cause.field == "<nil>" else f".{cause.field}"
            yield replace(cause, field=f"{path}.default{where}")
    embedded = is_root or bool(schema.get("x-kubernetes-embedded-resource"))
    if isinstance(schema.get("items"), Mapping):
        yield from _default_faults(schema["items"], f"{path}.items", is_root=False, in_meta=in_meta)
    for name, inner in (schema.get("properties") or {}).items():
        meta = in_meta or (embedded and name in _META_FIELDS)
        yield from _default_faults(inner, _key(path, name), is_root=False, in_meta=meta)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a schema stands: why it may have no default, and whether it is inside of metadata."""

    is_root: bool = True
    no_default: str | None = None
    in_meta: bool = False


def _rule_faults(schema: Source, path: str, place: _Place) -> Iterator[Cause]:
    yield from _standard_faults(schema, path, place)
    properties: Mapping[str, Source] = schema.get("properties") or {}
    additional = schema.get("additionalProperties")
    inside = replace(place, is_root=False)
    if schema.get("uniqueItems"):
        text = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield forbidden(f"{path}.uniqueItems", text)
    if additional is not None:
        if properties and additional is not True:
            text = "additionalProperties and properties are mutual exclusive"
            yield forbidden(f"{path}.additionalProperties", text)
        if isinstance(additional, Mapping):
            meta = "inside additionalProperties applying to object metadata" if place.in_meta else place.no_default
            yield from _rule_faults(additional, f"{path}.additionalProperties", replace(inside, no_default=meta))
    for name, inner in properties.items():
        child = inside
        if (place.is_root or schema.get("x-kubernetes-embedded-resource")) and name in _META_FIELDS:
            reason = f"in top-level {name}" if place.is_root else place.no_default
            child = replace(inside, in_meta=True, no_default=reason)
        yield from _rule_faults(inner, _key(path, name), child)
    if isinstance(schema.get("not"), Mapping):
        yield from _rule_faults(schema["not"], f"{path}.not", inside)
    for word in ("allOf", "oneOf", "anyOf"):
        for i, inner in enumerate(schema.get(word) or ()):
            yield from _rule_faults(inner, f"{path}.{word}[{i}]", inside)
    if isinstance(schema.get("items"), Mapping):
        yield from _rule_faults(schema["items"], f"{path}.items", inside)
    yield from _extension_faults(schema, path)
    yield from _cel_faults(schema.get("x-kubernetes-validations") or (), path)


def _standard_faults(schema: Source, path: str, place: _Place) -> Iterator[Cause]:
    type_ = schema.get("type") or ""
    if type_ and type_ not in TYPES:
        yield not_supported(f"{path}.type", type_, TYPES)
    if schema.get("default") is not None and place.no_default is not None:
        yield forbidden(f"{path}.default", f"must not be set {place.no_default}")
    for name in _UNSUPPORTED:
        if schema.get(name):
            yield forbidden(f"{path}.{name}", f"{name} is not supported")
    if type_ == "null":
        yield forbidden(f"{path}.type", "type cannot be set to null, use nullable as an alternative")
    if isinstance(schema.get("items"), list):
        yield forbidden(f"{path}.items", "items must be a schema object and not an array")
    if place.in_meta and schema.get("x-kubernetes-embedded-resource"):
        yield forbidden(f"{path}.x-kubernetes-embedded-resource", "must not be used inside of resource meta")


def _extension_faults(schema: Source, path: str) -> Iterator[Cause]:
    type_ = schema.get("type") or ""
    map_type, list_type = schema.get("x-kubernetes-map-type"), schema.get("x-kubernetes-list-type")
    keys = list(schema.get("x-kubernetes-list-map-keys") or ())
    items = schema.get("items")
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        yield invalid(f"{path}.x-kubernetes-preserve-unknown-fields", False, "must be true or undefined")
    if map_type is not None and type_ != "object":
        text = "must be object if x-kubernetes-map-type is specified"
        yield invalid(f"{path}.type", type_, text) if type_ else required(f"{path}.type", text)
    if map_type is not None and map_type not in ("atomic", "granular"):
        yield not_supported(f"{path}.x-kubernetes-map-type", map_type, ("atomic", "granular"))
    if list_type is not None and type_ != "array":
        text = "must be array if x-kubernetes-list-type is specified"
        yield invalid(f"{path}.type", type_, text) if type_ else required(f"{path}.type", text)
    elif list_type == "set" and isinstance(items, Mapping):
        yield from _set_faults(items, path)
    if list_type is not None and list_type not in ("atomic", "set", "map"):
        yield not_supported(f"{path}.x-kubernetes-list-type", list_type, ("atomic", "set", "map"))
    if keys and list_type != "map":
        text = "must be map if x-kubernetes-list-map-keys is non-empty"
        where = f"{path}.x-kubernetes-list-type"
        yield required(where, text) if list_type is None else invalid(where, list_type, text)
    if list_type == "map":
        yield from _map_list_faults(items, keys, path)
    if list_type in ("set", "map") and isinstance(items, Mapping) and items.get("nullable"):
        yield forbidden(f"{path}.items.nullable", f"cannot be nullable when x-kubernetes-list-type is {list_type}")
    if list_type == "map" and isinstance(items, Mapping):
        yield from _key_faults(items, keys, path)


def _set_faults(items: Source, path: str) -> Iterator[Cause]:
    text = "must be atomic as item of a list with x-kubernetes-list-type=set"
    list_type = items.get("x-kubernetes-list-type")
    if items.get("type") == "array" and list_type not in (None, "atomic"):
        yield invalid(f"{path}.items.x-kubernetes-list-type", list_type, text)
    if items.get("type") == "object" and items.get("x-kubernetes-map-type") != "atomic":
        yield invalid(f"{path}.items.x-kubernetes-map-type", list_type, text)


def _map_list_faults(items: object, keys: list[str], path: str) -> Iterator[Cause]:
    if not keys:
        yield required(f"{path}.x-kubernetes-list-map-keys", "must not be empty if x-kubernetes-list-type is map")
    if items is None:
        yield required(f"{path}.items", "must have a schema if x-kubernetes-list-type is map")
    if not isinstance(items, Mapping):
        return
    if items.get("type") != "object":
        text = "must be object if parent array's x-kubernetes-list-type is map"
        yield invalid(f"{path}.items.type", items.get("type", ""), text)
        return
    properties: Mapping[str, Source] = items.get("properties") or {}
    where = f"{path}.x-kubernetes-list-map-keys"
    for i, key in enumerate(keys):
        if key not in properties:
            yield invalid(where, keys, "entries must all be names of item properties")
        elif properties[key].get("type") in ("array", "object"):
            text = "must be a scalar type if parent array's x-kubernetes-list-type is map"
            yield invalid(f"{path}.items.properties[{key}].type", items.get("type"), text)
        if key in keys[:i]:
            yield invalid(where, keys, "must not contain duplicate entries")


def _key_faults(items: Source, keys: list[str], path: str) -> Iterator[Cause]:
    for key in keys:
        key_schema = (items.get("properties") or {}).get(key)
        if key_schema is None:
            continue
        where = f"{path}.items.properties[{key}]"
        if key not in (items.get("required") or ()) and key_schema.get("default") is None:
            text = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property"
            yield required(f"{where}.default", text)
        if key_schema.get("nullable"):
            text = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable"
            yield forbidden(f"{where}.nullable", text)


def _cel_faults(rules: Any, path: str) -> Iterator[Cause]:
    """Faults of CEL rules that can be seen without compiling them."""
    for i, rule in enumerate(rules):
        where = f"{path}.x-kubernetes-validations[{i}]"
        text, message = rule.get("rule", "").strip(), rule.get("message", "")
        if not text:
            yield required(f"{where}.rule", "rule is not specified")
        elif message and not message.strip():
            yield invalid(f"{where}.message", message, "must be non-empty if specified")
        elif re.search(r"[\n\r]", message.strip()):
            yield invalid(f"{where}.message", message, "must not contain line breaks")
        elif re.search(r"[\n\r]", text) and not message.strip():
            yield required(f"{where}.message", "message must be specified if rule contains line breaks")
        if rule.get("messageExpression") and not rule["messageExpression"].strip():
            yield required(f"{where}.messageExpression", "messageExpression must be non-empty if specified")
        if rule.get("reason") and rule["reason"] not in _REASONS:
            yield not_supported(f"{where}.reason", rule["reason"], _REASONS)
        pointer = rule.get("fieldPath") or ""
        if pointer and not pointer.strip():
            yield invalid(f"{where}.fieldPath", pointer, "must be non-empty if specified")
        if re.search(r"[\n\r]", pointer):
            yield invalid(f"{where}.fieldPath", pointer, "must not contain line breaks")


def same(one: object, other: object) -> bool:
    """Whether two parts of definitions say the same."""
    return msgspec.json.encode(one, order="sorted") == msgspec.json.encode(other, order="sorted")
