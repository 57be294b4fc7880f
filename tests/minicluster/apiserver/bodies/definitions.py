"""CustomResourceDefinitions, good and faulty."""

from __future__ import annotations

from typing import Any, Final

Json = dict[str, Any]
S: Final = {"type": "string"}


def crd(schema: Json | None = None, **spec: object) -> Json:
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object"} if schema is None else schema},
    }
    names = {"plural": "foos", "kind": "Foo"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "foos.x.io"},
        "spec": {"group": "x.io", "scope": "Namespaced", "names": names, "versions": [version], **spec},
    }


def obj(**properties: object) -> Json:
    return {"type": "object", "properties": properties}


def ver(name: str, *, storage: bool = False, schema: Json | None = None, **more: object) -> Json:
    return {
        "name": name,
        "served": True,
        "storage": storage,
        "schema": {"openAPIV3Schema": schema or {"type": "object"}},
        **more,
    }


DEFINITIONS: Final[dict[str, Json]] = {
    "good": crd(),
    "name does not fit": {**crd(), "metadata": {"name": "bars.x.io"}},
    "no group": crd(group=""),
    "group without dot": crd(group="x"),
    "no scope": crd(scope=""),
    "unknown scope": crd(scope="Foo"),
    "no versions": crd(versions=[]),
    "no storage version": crd(versions=[ver("v1")]),
    "two storage versions": crd(versions=[ver("v1", storage=True), ver("v2", storage=True)]),
    "a version twice": crd(versions=[ver("v1", storage=True), ver("v1")]),
    "version in capitals": crd(versions=[ver("V1", storage=True)]),
    "no plural": crd(names={"kind": "Foo", "plural": ""}),
    "plural in capitals": crd(names={"kind": "Foo", "plural": "Foos"}),
    "strange kind": crd(names={"kind": "foo_", "plural": "foos"}),
    "kind and list kind the same": crd(names={"kind": "Foo", "listKind": "Foo", "plural": "foos"}),
    "short name in capitals": crd(names={"kind": "Foo", "plural": "foos", "shortNames": ["F"], "categories": ["A"]}),
    "no schema": crd(versions=[{"name": "v1", "served": True, "storage": True}]),
    "no schema in one of two": crd(
        versions=[ver("v1", storage=True), {"name": "v2", "served": True, "storage": False}]
    ),
    "no type": crd({}),
    "root a string": crd({"type": "string"}),
    "field without type": crd(obj(spec={"properties": {"a": S}})),
    "list without items": crd(obj(spec={"type": "array"})),
    "items without type": crd(obj(spec={"type": "array", "items": {}})),
    "unknown type": crd(obj(spec={"type": "strin"})),
    "type null": crd(obj(spec={"type": "null"})),
    "uniqueItems": crd(obj(spec={"type": "array", "items": S, "uniqueItems": True})),
    "properties and additionalProperties": crd(
        obj(spec={"type": "object", "properties": {"a": S}, "additionalProperties": S})
    ),
    "additionalProperties false": crd(obj(spec={"type": "object", "additionalProperties": False})),
    "properties and no others": crd(
        obj(spec={"type": "object", "properties": {"a": S}, "additionalProperties": False})
    ),
    "additionalProperties at the root": crd({"type": "object", "additionalProperties": S}),
    "reference": crd(obj(spec={"$ref": "#/foo"})),
    "default of another type": crd(obj(spec={"type": "integer", "default": "x"})),
    "default with unknown field": crd(obj(spec={"type": "object", "properties": {"a": S}, "default": {"b": "x"}})),
    "default below minimum": crd(obj(spec={"type": "integer", "minimum": 3, "default": 1})),
    "default in metadata": crd(
        obj(metadata={"type": "object", "properties": {"name": {"type": "string", "default": "x"}}})
    ),
    "labels in metadata": crd(obj(metadata={"type": "object", "properties": {"labels": {"type": "object"}}})),
    "metadata a string": crd(obj(metadata={"type": "string"})),
    "keyed list without keys": crd(obj(spec={"type": "array", "x-kubernetes-list-type": "map", "items": obj(a=S)})),
    "key that is no property": crd(
        obj(
            spec={
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["b"],
                "items": obj(a=S),
            }
        )
    ),
    "optional key": crd(
        obj(
            spec={
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["a"],
                "items": obj(a=S),
            }
        )
    ),
    "keyed list of strings": crd(
        obj(spec={"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"], "items": S})
    ),
    "unknown list type": crd(obj(spec={"type": "array", "x-kubernetes-list-type": "foo", "items": S})),
    "list type of an object": crd(obj(spec={"type": "object", "x-kubernetes-list-type": "set"})),
    "set of objects": crd(obj(spec={"type": "array", "x-kubernetes-list-type": "set", "items": obj(a=S)})),
    "unknown map type": crd(obj(spec={"type": "object", "x-kubernetes-map-type": "foo"})),
    "preserve false": crd(obj(spec={"type": "object", "x-kubernetes-preserve-unknown-fields": False})),
    "preserve at the top": crd(preserveUnknownFields=True),
    "pattern unfinished": crd(obj(spec={"type": "string", "pattern": "("})),
    "type in anyOf": crd(obj(spec={"type": "string", "anyOf": [{"type": "string"}]})),
    "property in anyOf alone": crd(obj(spec={"type": "object", "anyOf": [{"properties": {"zz": {"minLength": 1}}}]})),
    "integer or string": crd(
        obj(spec={"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]})
    ),
    "default in allOf": crd(obj(spec={"type": "string", "allOf": [{"default": "x"}]})),
    "description in allOf": crd(obj(spec={"type": "string", "allOf": [{"description": "x"}]})),
    "embedded without properties": crd(obj(spec={"type": "object", "x-kubernetes-embedded-resource": True})),
    "embedded string": crd(obj(spec={"type": "string", "x-kubernetes-embedded-resource": True})),
    "nullable root": crd({"type": "object", "nullable": True}),
    "strange scale paths": crd(
        versions=[
            ver(
                "v1",
                storage=True,
                subresources={"scale": {"specReplicasPath": "spec.x", "statusReplicasPath": ".foo.x"}},
            )
        ]
    ),
    "strange selector path": crd(
        versions=[
            ver(
                "v1",
                storage=True,
                subresources={
                    "scale": {
                        "specReplicasPath": ".spec.x",
                        "statusReplicasPath": ".status.x",
                        "labelSelectorPath": ".foo",
                    }
                },
            )
        ]
    ),
    "strange columns": crd(
        versions=[
            ver(
                "v1",
                storage=True,
                additionalPrinterColumns=[
                    {"name": "", "type": "foo", "jsonPath": ""},
                    {"name": "a", "type": "string", "jsonPath": "spec"},
                    {"name": "b", "type": "string", "format": "foo", "jsonPath": ".spec"},
                ],
            )
        ]
    ),
    "strange selectable fields": crd(
        versions=[
            ver(
                "v1",
                storage=True,
                schema=obj(spec=obj(a=S, o={"type": "object"})),
                selectableFields=[
                    {"jsonPath": ".spec.a"},
                    {"jsonPath": ".spec.zz"},
                    {"jsonPath": ".spec.o"},
                    {"jsonPath": ".spec.a"},
                    {"jsonPath": ".metadata.name"},
                ],
            )
        ]
    ),
    "unknown conversion": crd(conversion={"strategy": "Foo"}),
    "conversion without webhook": crd(conversion={"strategy": "Webhook"}),
    "warning of what is not deprecated": crd(versions=[ver("v1", storage=True, deprecationWarning="x")]),
    "a group of Kubernetes": {**crd(group="foo.k8s.io"), "metadata": {"name": "foos.foo.k8s.io"}},
    "oneOf at the root beside status": crd(
        versions=[
            ver(
                "v1",
                storage=True,
                subresources={"status": {}},
                schema={
                    "type": "object",
                    "oneOf": [{"required": ["spec"]}],
                    "properties": {"spec": {"type": "object"}},
                },
            )
        ]
    ),
    "two versions of different shape": crd(
        versions=[ver("v1", storage=True, schema=obj(spec={"properties": {}})), ver("v2", schema=obj(spec=S))]
    ),
    "an empty rule": crd(obj(spec={"type": "object", "x-kubernetes-validations": [{"rule": ""}]})),
    "status sent": {
        **crd(),
        "status": {"storedVersions": ["v0"], "conditions": [], "acceptedNames": {"kind": "", "plural": ""}},
    },
    "default in an embedded object": crd(
        obj(
            spec={
                "type": "object",
                "x-kubernetes-embedded-resource": True,
                "x-kubernetes-preserve-unknown-fields": True,
                "default": {"kind": "x"},
            }
        )
    ),
    "default in a list": crd(
        obj(spec={"type": "array", "items": obj(a={"type": "string", "enum": ["x"], "default": "y"})})
    ),
    "unknown format": crd(obj(spec={"type": "string", "format": "made-up"})),
    "anyOf at the root speaks of a field": crd({"type": "object", "anyOf": [{"properties": {"zz": {"minLength": 1}}}]}),
    "items a list": crd(obj(spec={"type": "array", "items": [S]})),
    "metadata in anyOf": crd(obj(spec={"type": "object", "anyOf": [{"properties": {"metadata": {"minLength": 1}}}]})),
    "nullable key": crd(
        obj(
            spec={
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["a"],
                "items": {**obj(a={"type": "string", "nullable": True}), "required": ["a"]},
            }
        )
    ),
    "a key twice": crd(
        obj(
            spec={
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["a", "a"],
                "items": {**obj(a=S), "required": ["a"]},
            }
        )
    ),
    "keys without list type": crd(obj(spec={"type": "array", "x-kubernetes-list-map-keys": ["a"], "items": obj(a=S)})),
    "short and long names": crd(
        names={
            "plural": "foos",
            "kind": "Foo",
            "singular": "f-o-o",
            "listKind": "Foos",
            "shortNames": ["fo"],
            "categories": ["all"],
        }
    ),
    "a rule over two lines": crd(obj(spec={"type": "object", "x-kubernetes-validations": [{"rule": "true\n&& true"}]})),
    "a rule's strange reason": crd(
        obj(spec={"type": "object", "x-kubernetes-validations": [{"rule": "true", "reason": "Foo"}]})
    ),
}
