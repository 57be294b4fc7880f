"""Small builders of pods and nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Pod
from koord.api.machinery.codec import decode
from koord.api.machinery.struct import Struct

T = TypeVar("T", bound=Struct)


def pod(
    name: str = "web",
    *,
    uid: str = "",
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    cpu: str | None = None,
    memory: str | None = None,
    limits: Mapping[str, str] | None = None,
    metadata: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
    init: tuple[Mapping[str, Any], ...] = (),
    containers: tuple[Mapping[str, Any], ...] = (),
    **spec: Any,
) -> Pod:
    """A pod of one container `app`, unless others are given."""
    requests = {key: value for key, value in (("cpu", cpu), ("memory", memory)) if value is not None}
    main = {"name": "app", "image": "app:1", "resources": {"requests": requests, "limits": dict(limits or {})}}
    return _read(
        Pod,
        {
            "metadata": {
                "name": name,
                "namespace": "shop",
                "uid": uid or f"uid-of-{name}",
                "annotations": dict(annotations or {}),
                "labels": dict(labels or {}),
                **(metadata or {}),
            },
            "spec": {"containers": list(containers) or [main], "initContainers": list(init), **spec},
            "status": dict(status or {}),
        },
    )


def with_status(pod: Pod, patch: Mapping[str, Any]) -> Pod:
    """The pod after a patch of its status, merged as the API server would."""
    body = msgspec.to_builtins(pod)
    status = {**body.get("status", {})}
    conditions = {condition["type"]: condition for condition in status.get("conditions", ())}
    for key, value in patch.get("status", {}).items():
        if key == "conditions":
            for condition in value:
                merged = {**conditions.get(condition["type"], {}), **condition}
                conditions[condition["type"]] = {name: each for name, each in merged.items() if each is not None}
        else:
            status[key] = value
    return _read(Pod, {**body, "status": {**status, "conditions": list(conditions.values())}})


def node(
    name: str = "n1",
    *,
    cpu: str = "4",
    memory: str = "8Gi",
    pods: str = "110",
    labels: Mapping[str, str] | None = None,
    taints: tuple[Mapping[str, str], ...] = (),
    **spec: Any,
) -> Node:
    return _read(
        Node,
        {
            "metadata": {"name": name, "labels": dict(labels or {})},
            "spec": {"taints": list(taints), **spec},
            "status": {"allocatable": {"cpu": cpu, "memory": memory, "pods": pods}},
        },
    )


def _read(type_: type[T], body: Mapping[str, Any]) -> T:
    return decode(type_, msgspec.json.encode(body))
