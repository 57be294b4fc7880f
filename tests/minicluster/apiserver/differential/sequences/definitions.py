"""CustomResourceDefinitions: good ones, bad ones, and what is served because of them."""

# ruff: noqa: E501 - a request is a row of a table

from __future__ import annotations

from typing import Any

from tests.minicluster.apiserver.differential.steps import (
    CRDS,
    CUSTOM,
    JSON_PATCH,
    MERGE,
    PARTIAL_LIST,
    STRATEGIC,
    TABLE,
    apply,
    crd,
    defined,
    delete,
    get,
    patch,
    post,
    put,
    rv,
    sequence,
    served,
    watch,
    widget,
)

ONE = f"{CRDS}/widgets.{{{{seq}}}}.example.com"
W = f"{CUSTOM}/w"
OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def version(
    name: str = "v1", *, storage: bool = True, served: bool = True, schema: Any = None, **more: Any
) -> dict[str, Any]:
    return {
        "name": name,
        "served": served,
        "storage": storage,
        "schema": {"openAPIV3Schema": OPEN if schema is None else schema},
        **more,
    }


def spec_schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}


SCALED = {
    "subresources": {
        "status": {},
        "scale": {
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        },
    }
}
SCALED_SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {"type": "object", "properties": {"replicas": {"type": "integer", "minimum": 0}}},
        "status": {"type": "object", "properties": {"replicas": {"type": "integer"}, "selector": {"type": "string"}}},
    },
}

SEQUENCES = [
    sequence(
        "crd-life",
        post(CRDS, crd()),
        get(ONE, until={"status.conditions.1.status": "True"}),
        served(),
        get("/apis/{{seq}}.example.com"),
        get("/apis/{{seq}}.example.com/v1"),
        post(CRDS, crd()),
        get(ONE, TABLE),
        rv(post(CUSTOM, widget("w", spec={"any": ["thing", 1, 1.5, None, True]}, extra={"x": 1}))),
        get(W),
        get(CUSTOM),
        get(W, TABLE),
        get(CUSTOM, PARTIAL_LIST),
        put(W, widget("w", spec={"changed": True})),
        put(W, widget("w", spec={"changed": True}, metadata={"resourceVersion": "{{rv}}"})),
        patch(W, {"spec": {"merged": 1}}, MERGE),
        patch(W, {"spec": {"merged": 1}}, STRATEGIC),
        patch(W, [{"op": "remove", "path": "/spec/merged"}], JSON_PATCH),
        get(f"{W}/status"),
        get(f"{W}/scale"),
        post(CUSTOM, {"metadata": {"name": "kindless"}}),
        post(CUSTOM, {**widget("x"), "kind": "Gadget"}),
        post(CUSTOM, {**widget("x"), "apiVersion": "other/v1"}),
        post(CUSTOM, {**widget("x"), "apiVersion": "{{seq}}.example.com/v2"}),
        post(CUSTOM, widget("Bad_Name")),
        post(CUSTOM, {"apiVersion": "{{seq}}.example.com/v1", "kind": "Widget", "metadata": {"generateName": "gen-"}}),
        delete(W),
        get(W),
        post(CUSTOM, widget("w")),
        delete(ONE),
    ),
    sequence(
        "crd-watch",
        *defined(version={"additionalPrinterColumns": [{"name": "Phase", "type": "string", "jsonPath": ".status.phase"}]}),
        rv(post(CUSTOM, widget("start"))),
        post(CUSTOM, widget("w", spec={"a": 1}, status={"phase": "New"})),
        patch(W, {"metadata": {"labels": {"l": "m"}}}),
        delete(W),
        watch(f"{CUSTOM}?resourceVersion={{{{rv}}}}", 3),
        watch(f"{CUSTOM}?resourceVersion={{{{rv}}}}&labelSelector=l%3Dm", 2),
        watch(f"{CUSTOM}?resourceVersion={{{{rv}}}}", 3, TABLE),
        get(f"{CUSTOM}?fieldSelector=metadata.name%3Dstart"),
        get(f"{CUSTOM}?fieldSelector=spec.a%3D1"),
        get(f"{CUSTOM}?limit=1"),
        delete(CUSTOM),
    ),
    sequence(
        "crd-names",
        post(CRDS, {**crd(), "metadata": {"name": "other.{{seq}}.example.com"}}),
        *[
            post(CRDS, crd(names=names))
            for names in (
                {"plural": "Widgets", "kind": "Widget"}, {"plural": "widgets", "kind": "widget kind"}, {"plural": "widgets", "kind": ""}, {"plural": "widgets"},
                {"plural": "widgets", "kind": "Widget", "singular": "BAD"}, {"plural": "widgets", "kind": "Widget", "shortNames": ["OK", "w w"]},
                {"plural": "widgets", "kind": "Widget", "listKind": "Widget"}, {"plural": "widgets", "kind": "Widget", "categories": ["All"]},
            )
        ],
        post(CRDS, crd(scope="Everywhere")),
        post(CRDS, crd(group="nodots")),
        post(CRDS, crd(group="")),
        post(CRDS, {**crd(group="x.k8s.io"), "metadata": {"name": "widgets.x.k8s.io"}}),
        post(CRDS, crd(conversion={"strategy": "Webhook"})),
        post(CRDS, crd(conversion={"strategy": "Magic"})),
        post(CRDS, crd(preserveUnknownFields=True)),
        post(CRDS, {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "a.b"}}),
        post(CRDS, {**crd(), "apiVersion": "apiextensions.k8s.io/v1beta1"}),
    ),
    sequence(
        "crd-versions-bad",
        post(CRDS, crd(versions=[])),
        post(CRDS, crd(versions=[version(storage=False)])),
        post(CRDS, crd(versions=[version(), version("v2")])),
        post(CRDS, crd(versions=[version(), version(storage=False)])),
        post(CRDS, crd(versions=[version("V1")])),
        post(CRDS, crd(versions=[version("one")])),
        post(CRDS, crd(versions=[{"name": "v1", "served": True, "storage": True}])),
        post(CRDS, crd(versions=[version(served=False)])),
        post(CRDS, crd(versions=[{"name": "v3"}])),
    ),
    sequence(
        "crd-schemas-bad",
        *[
            post(f"{CRDS}?dryRun=All", crd(schema=schema))
            for schema in (
                {}, {"type": "string"}, {"type": "object", "properties": {"spec": {}}}, {"type": "object", "properties": {"a": {"type": "array"}}},
                {"type": "object", "properties": {"a": {"type": "text"}}}, {"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}},
                {"type": "object", "properties": {"a": {"type": "object", "properties": {"b": {"type": "string"}}, "additionalProperties": {"type": "string"}}}},
                {"type": "object", "properties": {"a": {"type": "object", "additionalProperties": False}}}, {"type": "object", "properties": {"a": {"type": "string", "default": 5}}},
                {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "map"}}},
                {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "object", "properties": {"k": {"type": "string"}}}, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}}},
                {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "set"}}},
                {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "heap"}}},
                {"type": "object", "properties": {"a": {"type": "array", "items": [{"type": "string"}]}}}, {"type": "object", "properties": {"a": {"$ref": "#/x"}}},
                {"type": "object", "properties": {"a": {"anyOf": [{"type": "string"}]}}}, {"type": "object", "properties": {"a": {"type": "string", "x-kubernetes-int-or-string": True}}},
                {"type": "object", "properties": {"a": {"type": "object", "x-kubernetes-embedded-resource": True}}}, {"type": "object", "properties": {"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}}},
                {"type": "object", "properties": {"metadata": {"type": "string"}}}, {"type": "object", "properties": {"a": {"type": "string", "uniqueItems": True}}},
                {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string"}, "uniqueItems": True}}}, {"type": "object", "required": ["a"], "unknownKeyword": 5},
                {"type": "object", "properties": {"a": {"type": "integer", "minimum": 5, "default": 1}}}, {"type": "object", "properties": {"a": {"type": "object", "required": ["b"], "default": {}}}},
                {"type": "object", "properties": {"a": {"type": "string", "nullable": True, "default": None}}}, {"type": "object", "properties": {"a": {"type": "string", "default": None}}},
                {"type": "object", "not": {"type": "object"}}, {"type": "object", "properties": {"a": {"type": "object", "x-kubernetes-map-type": "odd"}}},
                {"type": "object", "default": {}}, {"type": "object", "properties": {"a": {"type": "string", "enum": []}}}, {"type": "object", "properties": {"a": {"type": "string", "minLength": -1}}},
            )
        ],
    ),
    sequence(
        "crd-columns-bad",
        post(CRDS, crd(version={"additionalPrinterColumns": [{"name": "", "type": "text", "jsonPath": ".spec.a"}]})),
        post(CRDS, crd(version={"additionalPrinterColumns": [{"name": "A", "type": "string", "jsonPath": "spec.a"}]})),
        post(CRDS, crd(version={"additionalPrinterColumns": [{"name": "A", "type": "string", "jsonPath": ".spec["}]})),
        post(CRDS, crd(version={"additionalPrinterColumns": [{"name": "A", "type": "integer", "format": "odd", "jsonPath": ".spec.a"}]})),
        post(CRDS, crd(version={"subresources": {"scale": {"specReplicasPath": "spec.replicas", "statusReplicasPath": ".spec.replicas"}}})),
        post(CRDS, crd(version={"subresources": {"scale": {}}})),
        post(CRDS, crd(version={"selectableFields": [{"jsonPath": ".spec.x"}]})),
    ),
    sequence(
        "crd-columns",
        *defined(
            schema=OPEN,
            version={
                "additionalPrinterColumns": [
                    {"name": "Text", "type": "string", "jsonPath": ".spec.text"}, {"name": "Number", "type": "integer", "jsonPath": ".spec.number", "priority": 1},
                    {"name": "Yes", "type": "boolean", "jsonPath": ".spec.yes", "description": "d"}, {"name": "When", "type": "date", "jsonPath": ".spec.when"},
                    {"name": "First", "type": "string", "jsonPath": ".spec.list[0].name"}, {"name": "All", "type": "string", "jsonPath": ".spec.list[*].name"},
                    {"name": "Cond", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Ready")].status'}, {"name": "Float", "type": "number", "jsonPath": ".spec.float"},
                    {"name": "Dotted", "type": "string", "jsonPath": ".metadata.annotations.example\\.com/x"}, {"name": "Made", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
                ]
            },
        ),
        get(CUSTOM, TABLE),
        post(CUSTOM, widget("full", metadata={"annotations": {"example.com/x": "note"}}, spec={"text": "t", "number": 5, "yes": True, "when": "2020-01-01T00:00:00Z", "list": [{"name": "a"}, {"name": "b"}], "float": 1.5}, status={"conditions": [{"type": "Ready", "status": "True"}]})),
        post(CUSTOM, widget("empty")),
        post(CUSTOM, widget("odd", spec={"text": 5, "number": "x", "yes": "maybe", "when": "never", "list": {}, "float": "1"})),
        get(f"{CUSTOM}?includeObject=None", TABLE),
    ),
    sequence(
        "crd-subresources",
        *defined(schema=SCALED_SCHEMA, version=SCALED),
        post(CUSTOM, widget("w", spec={"replicas": 2}, status={"replicas": 9})),
        put(W, widget("w", spec={"replicas": 2}, status={"replicas": 9})),
        patch(f"{W}/status", {"status": {"replicas": 1, "selector": "a=b"}, "spec": {"replicas": 77}, "metadata": {"labels": {"x": "y"}}}),
        put(f"{W}/status", widget("w", status={"replicas": 3, "selector": "a=c"})),
        get(f"{W}/status"),
        get(f"{W}/scale"),
        patch(f"{W}/scale", {"spec": {"replicas": 5}}),
        put(f"{W}/scale", {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "w"}, "spec": {"replicas": 6}}),
        patch(f"{W}/scale", {"spec": {"replicas": -1}}),
        patch(f"{W}/scale", {"spec": {"replicas": "x"}}),
        patch(f"{W}/status", {"status": {"replicas": "x"}}),
        patch(f"{W}/status", {"status": {"unknown": 1}}),
        patch(W, {"status": {"replicas": 100}}),
        post(CUSTOM, widget("bare")),
        get(f"{CUSTOM}/bare/scale"),
        patch(f"{CUSTOM}/bare/scale", {"spec": {"replicas": 1}}),
        get(f"{CUSTOM}/absent/scale"),
        apply(f"{W}/status", widget("w", status={"replicas": 4})),
        get(W),
    ),
    sequence(
        "crd-no-status-subresource",
        *defined(schema=SCALED_SCHEMA),
        post(CUSTOM, widget("w", spec={"replicas": 2}, status={"replicas": 9})),
        patch(W, {"status": {"replicas": 100}}),
        patch(f"{W}/status", {"status": {"replicas": 100}}),
    ),
    sequence(
        "crd-versions",
        post(CRDS, crd(versions=[version("v1", schema=spec_schema(a={"type": "string", "default": "one"})), version("v2", storage=False, schema=spec_schema(a={"type": "string"}, b={"type": "string", "default": "two"})), version("v1beta1", storage=False, served=False), version("v1alpha1", storage=False, deprecated=True), version("v1alpha2", storage=False, deprecated=True, deprecationWarning="too old")])),
        served(),
        post(CUSTOM, widget("w", spec={})),
        get(W.replace("/v1/", "/v2/")),
        get(W.replace("/v1/", "/v1beta1/")),
        get(W.replace("/v1/", "/v1alpha1/")),
        get(W.replace("/v1/", "/v1alpha2/")),
        post(CUSTOM.replace("/v1/", "/v2/"), {**widget("x", spec={"b": "set"}), "apiVersion": "{{seq}}.example.com/v2"}),
        get(f"{CUSTOM}/x"),
        get(CUSTOM.replace("/v1/", "/v2/")),
        get("/apis/{{seq}}.example.com"),
        patch(W.replace("/v1/", "/v2/"), {"spec": {"b": "patched"}}),
        get(W),
    ),
    sequence(
        "crd-update",
        *defined(schema=spec_schema(a={"type": "string"})),
        post(CUSTOM, widget("w", spec={"a": "x", "b": "pruned"})),
        patch(ONE, [{"op": "add", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/b", "value": {"type": "string", "default": "later"}}], JSON_PATCH),
        get(W, until={"spec.b": "later"}),
        patch(ONE, {"spec": {"scope": "Cluster"}}),
        patch(ONE, {"spec": {"group": "other.example.com"}}),
        patch(ONE, {"spec": {"names": {"plural": "things"}}}),
        patch(ONE, {"spec": {"names": {"shortNames": ["wd"]}}}),
        get(ONE, until={"status.acceptedNames.shortNames": ["wd"]}),
        patch(ONE, {"spec": {"versions": []}}),
        patch(f"{ONE}/status", {"status": {"storedVersions": []}}),
        patch(f"{ONE}/status", {"status": {"storedVersions": ["v1", "v9"]}}),
        put(ONE, crd(schema={"type": "string"})),
    ),
    sequence(
        "crd-cluster-scoped",
        post(CRDS, crd(scope="Cluster")),
        served("/apis/{{seq}}.example.com/v1/widgets"),
        post("/apis/{{seq}}.example.com/v1/widgets", widget("w")),
        post("/apis/{{seq}}.example.com/v1/widgets", widget("x", metadata={"namespace": "{{ns}}"})),
        get("/apis/{{seq}}.example.com/v1/widgets/w"),
        get(f"{CUSTOM}/w"),
        get("/apis/{{seq}}.example.com/v1"),
        delete("/apis/{{seq}}.example.com/v1/widgets/w"),
    ),
    sequence(
        "crd-names-conflict",
        *defined(names={"plural": "widgets", "kind": "Widget", "shortNames": ["wt"], "singular": "widget", "categories": ["all", "things"]}),
        get(ONE),
        get("/apis/{{seq}}.example.com/v1"),
        post(CRDS, crd("gadgets", "Widget")),
        get(f"{CRDS}/gadgets.{{{{seq}}}}.example.com", until={"status.conditions.0.status": "False"}),
        get(f"{CRDS}/gadgets.{{{{seq}}}}.example.com"),
        post(CRDS, crd("gizmos", "Gizmo", names={"plural": "gizmos", "kind": "Gizmo", "shortNames": ["wt"]})),
        get(f"{CRDS}/gizmos.{{{{seq}}}}.example.com", until={"status.conditions.0.reason": "ShortNamesConflict"}),
    ),
    sequence(
        "crd-delete",
        *defined(),
        post(CUSTOM, widget("held", metadata={"finalizers": ["example.com/f"]})),
        post(CUSTOM, widget("free")),
        delete(ONE, only=("kind", "status", "metadata.name")),
        get(ONE, until={"status.conditions.2.type": "Terminating"}, only=("status.conditions.2.type", "status.conditions.2.status", "metadata.finalizers")),
        post(CUSTOM, widget("late"), until={"code": 403}),
        get(f"{CUSTOM}/free", until={"code": 404}),
        get(f"{CUSTOM}/held", only=("metadata.finalizers", "metadata.name")),
        patch(f"{CUSTOM}/held", {"metadata": {"finalizers": None}}, only=("metadata.name",)),
        get(ONE, until={"code": 404}),
        get(CUSTOM, until={"code": 404}),
    ),
]  # fmt: skip
