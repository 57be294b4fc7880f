"""The words of a request sequence.

A sequence has a namespace of its own, `{{ns}}`, made before its first step; names that are not in it carry the
sequence's own name, `{{seq}}`, so that sequences can run side by side on one server. Other `{{variables}}` are saved
from answers. Nothing is expected here: what is right is what the real server says.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
JSON = "application/json"
YAML = "application/yaml"

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
PARTIAL_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"

CORE = "/api/v1/namespaces/{{ns}}"
APPS = "/apis/apps/v1/namespaces/{{ns}}"
BATCH = "/apis/batch/v1/namespaces/{{ns}}"
POLICY = "/apis/policy/v1/namespaces/{{ns}}"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
HOOKS = "/apis/admissionregistration.k8s.io/v1"


@dataclass(frozen=True)
class Step:
    """One request. A `body` that is text or bytes is sent unchanged, anything else as JSON."""

    method: str
    path: str
    body: Any = None
    content_type: str = ""
    accept: str = ""
    user: str = "admin"
    "admin, nobody, anonymous, or a variable that holds a token"
    headers: Mapping[str, str] = field(default_factory=dict)
    save: Mapping[str, str] = field(default_factory=dict)
    "Variables, and where in the answer they are: `metadata.resourceVersion`, `items.0.metadata.name`."
    until: Mapping[str, Any] = field(default_factory=dict)
    "Repeat the request until the answer has this: `code`, `headers.NAME`, or a path in the body; caches need a moment."
    events: int | None = None
    "A watch: read N events, and see that no more follow at once."
    shape: bool = False
    "Compare the types of the values only."
    only: tuple[str, ...] = ()
    "Compare only these paths of the body."
    background: str = ""
    "Start a watch under this name and go on; `collect` reads it."

    def fingerprint(self) -> str:
        words = {key: value for key, value in asdict(self).items() if value not in ("", None, {}, (), False)}
        return hashlib.sha256(json.dumps(words, sort_keys=True, default=repr).encode()).hexdigest()[:12]


@dataclass(frozen=True)
class Sequence:
    name: str
    steps: tuple[Step, ...]


def sequence(name: str, *steps: Step | list[Step]) -> Sequence:
    flat: list[Step] = []
    for step in steps:
        flat.extend(step if isinstance(step, list) else [step])
    return Sequence(name, tuple(flat))


def get(path: str, accept: str = "", **more: Any) -> Step:
    return Step("GET", path, accept=accept, **more)


def post(path: str, body: Any = None, **more: Any) -> Step:
    return Step("POST", path, body, **more)


def put(path: str, body: Any = None, **more: Any) -> Step:
    return Step("PUT", path, body, **more)


def delete(path: str, body: Any = None, **more: Any) -> Step:
    return Step("DELETE", path, body, **more)


def patch(path: str, body: Any, content_type: str = MERGE, **more: Any) -> Step:
    return Step("PATCH", path, body, content_type, **more)


def apply(path: str, body: Any, manager: str = "first", force: bool = False, **more: Any) -> Step:
    """Server-side apply; JSON is YAML."""
    join = "&" if "?" in path else "?"
    query = f"{join}fieldManager={manager}" + ("&force=true" if force else "")
    return Step("PATCH", path + query, body, APPLY, **more)


def watch(path: str, events: int, accept: str = "", **more: Any) -> Step:
    join = "&" if "?" in path else "?"
    wanted = None if more.get("background") else events
    return Step("GET", f"{path}{join}watch=true", accept=accept, events=wanted, **more)


def collect(background: str, events: int) -> Step:
    """Read what a watch in the background has seen."""
    return Step("COLLECT", "", background=background, events=events)


def settled(path: str, **seen: Any) -> Step:
    """Wait until caches have seen a write: the real server decides about a deletion by what its cache shows."""
    return get(
        f"{path}?resourceVersion=0",
        until={key.replace("__", "."): value for key, value in seen.items()},
    )


def each(*bodies: Any) -> tuple[Any, ...]:
    """Bodies of different shapes, to go through."""
    return bodies


def as_user(step: Step, user: str) -> Step:
    return replace(step, user=user)


def saving(step: Step, **variables: str) -> Step:
    return replace(step, save={**step.save, **variables})


def rv(step: Step, name: str = "rv") -> Step:
    """The step, with the resourceVersion of its answer saved."""
    return saving(step, **{name: "metadata.resourceVersion"})


def meta(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, **more}


def config_map(name: str, data: Mapping[str, str] | None = None, **metadata: Any) -> dict[str, Any]:
    made: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}}
    if data is not None:
        made["data"] = dict(data)
    return made


def pod(name: str, metadata: Mapping[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    containers = spec.pop("containers", [{"name": "main", "image": "example/image:1"}])
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **(metadata or {})},
        "spec": {"containers": containers, **spec},
    }


def deployment(name: str, replicas: int | None = 2, **template_spec: Any) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "selector": {"matchLabels": {"app": name}},
        "template": {
            "metadata": {"labels": {"app": name}},
            "spec": {"containers": [{"name": "main", "image": "example/image:1"}], **template_spec},
        },
    }
    if replicas is not None:
        spec["replicas"] = replicas
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def crd(
    plural: str = "widgets",
    kind: str = "Widget",
    schema: Mapping[str, Any] | None = None,
    version: Mapping[str, Any] | None = None,
    scope: str = "Namespaced",
    **spec: Any,
) -> dict[str, Any]:
    """A definition in a group named after the sequence."""
    group = "{{seq}}.example.com"
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": scope,
            "names": {"plural": plural, "kind": kind},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {
                        "openAPIV3Schema": schema
                        if schema is not None
                        else {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                    },
                    **(version or {}),
                }
            ],
            **spec,
        },
    }


CUSTOM = "/apis/{{seq}}.example.com/v1/namespaces/{{ns}}/widgets"


def served(path: str = CUSTOM) -> Step:
    """Wait until a custom resource is served."""
    return get(path, until={"code": 200})


def widget(name: str, **fields: Any) -> dict[str, Any]:
    metadata = fields.pop("metadata", {})
    return {
        "apiVersion": "{{seq}}.example.com/v1",
        "kind": "Widget",
        "metadata": {"name": name, **metadata},
        **fields,
    }


def defined(*, schema: Mapping[str, Any] | None = None, **more: Any) -> list[Step]:
    """The steps that define a kind and wait until it is served."""
    return [post(CRDS, crd(schema=schema, **more)), served()]
