"""OpenAPI v3: the index at /openapi/v3 and one document for each group and version.

Made from the same `Schema` trees that everything else reads. The paths are those that clients look into: kubectl finds
a kind by the operation on its collection, and learns from the PATCH of an object whether lists can be merged by keys
and fields validated. A document is made when it is first asked for, and again when its resources change. Version 2 is
a stub: clients that still ask for it go on with what they know themselves.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Final

import msgspec

from koord.api import builtin_schemas as schemas
from koord.api.machinery.object_schema import ANYTHING, MISSING, NOTHING, Schema
from koord_minicluster.apiserver import descriptions
from koord_minicluster.apiserver.registry import Registry
from koord_minicluster.apiserver.resource import Resource

Json = dict[str, Any]

ROOT: Final = "/openapi/v3"
OLD_ROOT: Final = "/openapi/v2"
_OLD_ASKED: Final = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
_OLD_ANSWERED: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_INFO: Final = {"title": "Kubernetes", "version": "1.35"}
_REF: Final = "#/components/schemas/"
_META: Final = schemas.META
_SPECIAL: Final[Mapping[str, Json]] = {
    "quantity": {"oneOf": [{"type": "string"}, {"type": "number"}]},
    "int-or-string": {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]},
    "micro-time": {"type": "string", "format": "date-time"},
    "raw": {"type": "object"},
    "schema-or-bool": {},
    "schema-or-array": {},
    "schema-or-strings": {},
}
_WRITE_PARAMETERS: Final = ("dryRun", "fieldManager", "fieldValidation")
_LIST_PARAMETERS: Final = (
    "allowWatchBookmarks", "continue", "fieldSelector", "labelSelector", "limit", "resourceVersion",
    "resourceVersionMatch", "sendInitialEvents", "timeoutSeconds", "watch",
)  # fmt: skip
_PARAMETER_TYPES: Final = {
    "allowWatchBookmarks": "boolean", "force": "boolean", "limit": "integer", "sendInitialEvents": "boolean",
    "timeoutSeconds": "integer", "watch": "boolean",
}  # fmt: skip
_PATCH_TYPES: Final = (
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
)


@dataclass(frozen=True, slots=True)
class Document:
    body: bytes
    etag: str
    "Its hash, which is in its address and its ETag."
    resources: tuple[Resource, ...]


class OpenApi:
    """The documents of what is served now."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._documents: dict[str, Document] = {}
        self._by_path: dict[str, tuple[Resource, ...]] = {}
        self._generation = -1

    def index(self) -> Json:
        """/openapi/v3: where each document is. The address changes with the document, so that it can be kept."""
        paths = {}
        for path in sorted(self._known()):
            document = self.document(path)
            assert document is not None
            paths[path] = {"serverRelativeURL": f"{ROOT}/{path}?hash={document.etag}"}
        return {"paths": paths}

    def document(self, path: str) -> Document | None:
        """The document of `api/v1` or `apis/GROUP/VERSION`, or None where nothing is served there."""
        resources = self._known().get(path)
        if resources is None:
            return None
        made = self._documents.get(path)
        if made is None or any(one is not other for one, other in zip_longest(made.resources, resources)):
            body = msgspec.json.encode(_document(resources))
            made = Document(body, hashlib.sha512(body).hexdigest().upper(), resources)
            self._documents[path] = made
        return made

    def _known(self) -> dict[str, tuple[Resource, ...]]:
        if self._generation != self._registry.generation:
            self._generation = self._registry.generation
            by_path: dict[str, list[Resource]] = {}
            for resource in self._registry:
                path = f"apis/{resource.group}/{resource.version}" if resource.group else f"api/{resource.version}"
                by_path.setdefault(path, []).append(resource)
            self._by_path = {path: tuple(resources) for path, resources in by_path.items()}
            for path in self._documents.keys() - by_path.keys():
                del self._documents[path]
        return self._by_path


def old_document(accept: str) -> tuple[bytes, str]:
    """/openapi/v2 with nothing in it, and its content type."""
    if _OLD_ASKED not in accept and _OLD_ANSWERED not in accept:
        empty: Json = {"swagger": "2.0", "info": _INFO, "paths": {}, "definitions": {}}
        return msgspec.json.encode(empty), "application/json"
    info = b"".join(_text_field(i, text) for i, text in enumerate(_INFO.values(), start=1))
    # The fields of the message: 1 version of the format, 2 info, 8 paths, 9 definitions.
    return _text_field(1, "2.0") + bytes([0x12, len(info)]) + info + b"\x42\x00\x4a\x00", _OLD_ANSWERED


def _text_field(number: int, text: str) -> bytes:
    return bytes([number << 3 | 2, len(text)]) + text.encode()


def _document(resources: tuple[Resource, ...]) -> Json:
    components = _Components()
    paths: Json = {}
    for resource in resources:
        paths |= _paths(resource, components)
    return {
        "openapi": "3.0.0",
        "info": _INFO,
        "paths": paths,
        "components": {"schemas": components.finished()},
    }


class _Components:
    """The definitions that a document refers to, each once."""

    def __init__(self) -> None:
        self._done: Json = {}
        self._kinds: dict[str, list[Json]] = {}

    def of(self, resource: Resource) -> str:
        """The definition of a resource's kind, by name."""
        name = resource.schema.ref or definition_name(resource)
        self._kinds[name] = [_gvk(resource)]
        if resource.schema.ref:
            return self.definition(resource.schema)
        if name not in self._done:
            self._done[name] = self.inline(resource.schema)
        return name

    def list_of(self, resource: Resource) -> str:
        item = self.of(resource)
        name = f"{item}List"
        if name not in self._done:
            self._kinds[name] = [{**_gvk(resource), "kind": resource.list_kind}]
            self._done[name] = {
                "type": "object",
                "required": ["items"],
                "properties": {
                    "apiVersion": {"type": "string"},
                    "items": {"type": "array", "items": {"$ref": _REF + item}},
                    "kind": {"type": "string"},
                    "metadata": {"$ref": _REF + self.definition(schemas.builtin(_META + "ListMeta"))},
                },
            }
        return name

    def definition(self, schema: Schema) -> str:
        """A shared definition, by its name."""
        if schema.ref not in self._done:
            self._done[schema.ref] = {}
            shared = schemas.builtin(schema.ref)
            self._done[schema.ref] = _described(descriptions.of_kind(schema.ref), self.inline(shared, shared.ref))
        return schema.ref

    def finished(self) -> Json:
        for name, kinds in self._kinds.items():
            self._done[name]["x-kubernetes-group-version-kind"] = kinds
        return dict(sorted(self._done.items()))

    def field(self, schema: Schema, description: str) -> Json:
        """A field's schema: a reference where it is a shared definition."""
        if not schema.ref:
            return _described(schema.description or description, self.inline(schema))
        extensions = _extensions(schema) | _default(schema)
        return _described(description, {**extensions, "allOf": [{"$ref": _REF + self.definition(schema)}]})

    def inline(self, schema: Schema, owner: str = "") -> Json:
        special = _SPECIAL.get(schema.format)
        if special is not None and not schema.properties:
            return {**special, **_extensions(schema)}
        out: Json = {} if schema.type == "any" else {"type": schema.type}
        if schema.format:
            out["format"] = schema.format
        if schema.required:
            out["required"] = list(schema.required)
        if schema.properties:
            out["properties"] = {
                name: self.field(inner, descriptions.of_field(owner, name) if owner or inner.ref else "")
                for name, inner in schema.properties.items()
            }
        if schema.items is not None:
            out["items"] = self.field(schema.items, "")
        if schema.values in (ANYTHING, NOTHING):
            out["additionalProperties"] = schema.values is ANYTHING
        elif schema.values is not None:
            out["additionalProperties"] = self.field(schema.values, "")
        return out | _restrictions(schema, self) | _extensions(schema) | _default(schema)


def _default(schema: Schema) -> Json:
    return {} if schema.default is MISSING else {"default": schema.default}


def _restrictions(schema: Schema, components: _Components) -> Json:
    out: Json = {
        "title": schema.title or None,
        "description": schema.description or None,
        "enum": list(schema.enum) or None,
        "nullable": schema.nullable or None,
        "minimum": schema.minimum,
        "maximum": schema.maximum,
        "exclusiveMinimum": schema.exclusive_minimum or None,
        "exclusiveMaximum": schema.exclusive_maximum or None,
        "multipleOf": schema.multiple_of,
        "minLength": schema.min_length,
        "maxLength": schema.max_length,
        "pattern": schema.pattern or None,
        "minItems": schema.min_items,
        "maxItems": schema.max_items,
        "minProperties": schema.min_properties,
        "maxProperties": schema.max_properties,
        "allOf": [components.inline(subschema) for subschema in schema.all_of] or None,
        "anyOf": [components.inline(subschema) for subschema in schema.any_of] or None,
        "oneOf": [components.inline(subschema) for subschema in schema.one_of] or None,
        "not": components.inline(schema.not_) if schema.not_ is not None else None,
    }
    return {key: value for key, value in out.items() if value is not None}


def _extensions(schema: Schema) -> Json:
    out: Json = {}
    if schema.type == "array" and schema.list_type != "atomic":
        out["x-kubernetes-list-type"] = schema.list_type
        if schema.list_keys:
            out["x-kubernetes-list-map-keys"] = list(schema.list_keys)
    if schema.atomic_map:
        out["x-kubernetes-map-type"] = "atomic"
    if schema.patch_strategies:
        out["x-kubernetes-patch-strategy"] = ",".join(sorted(schema.patch_strategies))
    if schema.patch_merge_key:
        out["x-kubernetes-patch-merge-key"] = schema.patch_merge_key
    if not schema.ref:
        if schema.preserve_unknown:
            out["x-kubernetes-preserve-unknown-fields"] = True
        if schema.embedded:
            out["x-kubernetes-embedded-resource"] = True
        if schema.int_or_string:
            out["x-kubernetes-int-or-string"] = True
        if schema.rules:
            out["x-kubernetes-validations"] = [dict(rule) for rule in schema.rules]
    return out


def _described(text: str, schema: Json) -> Json:
    return {"description": text, **schema} if text and "description" not in schema else schema


def definition_name(resource: Resource) -> str:
    """The definition of a custom kind: its group backwards, its version, its kind."""
    return ".".join([*reversed(resource.group.split(".")), resource.version, resource.kind])


def _gvk(resource: Resource) -> Json:
    return {"group": resource.group, "kind": resource.kind, "version": resource.version}


def _paths(resource: Resource, components: _Components) -> Json:
    root = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
    within = f"{root}/namespaces/{{namespace}}" if resource.namespaced else root
    item_ref, list_ref = components.of(resource), components.list_of(resource)
    on_all = {"get": "list", "post": "create", "delete": "deletecollection"}
    collection = _operations(resource, item_ref, list_ref, on_all)
    item = _operations(
        resource, item_ref, item_ref, {"get": "get", "put": "update", "patch": "patch", "delete": "delete"}
    )
    paths: Json = {}
    if collection:
        paths[f"{within}/{resource.plural}"] = collection
    if item:
        paths[f"{within}/{resource.plural}/{{name}}"] = item
    if resource.namespaced and "list" in resource.verbs:
        whole = _operations(resource, item_ref, list_ref, {"get": "list"})
        paths[f"{root}/{resource.plural}"] = whole
    for name in sorted(resource.subresources & {"status", "scale"}):
        ref = item_ref if name == "status" else components.definition(schemas.schema_for("autoscaling", "v1", "Scale"))
        paths[f"{within}/{resource.plural}/{{name}}/{name}"] = _operations(
            resource, ref, ref, {"get": "get", "put": "update", "patch": "patch"}, is_status=name == "status"
        )
    return paths


def _operations(
    resource: Resource, item_ref: str, answer_ref: str, verbs: Mapping[str, str], *, is_status: bool = True
) -> Json:
    operations: Json = {}
    kind = _gvk(resource) if is_status else {"group": "autoscaling", "kind": "Scale", "version": "v1"}
    for method, verb in verbs.items():
        if verb not in resource.verbs:
            continue
        operation: Json = {
            "tags": [f"{resource.group.partition('.')[0] or 'core'}_{resource.version}"],
            "parameters": [_parameter(name) for name in _parameters(verb)],
            "responses": {"200": {"description": "OK", "content": _content(answer_ref)}},
            "x-kubernetes-action": "post" if verb == "create" else "put" if verb == "update" else verb,
            "x-kubernetes-group-version-kind": kind,
        }
        if verb in ("create", "update"):
            operation["requestBody"] = {"content": _content(item_ref), "required": True}
        elif verb == "patch":
            served = [patch_type for patch_type in _PATCH_TYPES if not (resource.custom and "strategic" in patch_type)]
            anything = {"schema": {"type": "object"}}
            operation["requestBody"] = {"content": dict.fromkeys(served, anything), "required": True}
        operations[method] = operation
    return operations


def _parameters(verb: str) -> Iterable[str]:
    match verb:
        case "list" | "deletecollection":
            return _LIST_PARAMETERS
        case "create" | "update":
            return _WRITE_PARAMETERS
        case "patch":
            return (*_WRITE_PARAMETERS, "force")
    return ()


def _parameter(name: str) -> Json:
    return {"name": name, "in": "query", "schema": {"type": _PARAMETER_TYPES.get(name, "string")}}


def _content(ref: str) -> Json:
    return {"application/json": {"schema": {"$ref": _REF + ref}}}
