"""Small builders of state for decisions. Time is in seconds; 1_000_000 is now unless a test says otherwise."""

from __future__ import annotations

from typing import Any

import msgspec

from koord.api.kubernetes.core import Node, Pod
from koord.api.kubernetes.meta import ObjectMeta, OwnerReference
from koord.api.kubernetes.workloads import Deployment, Job, ReplicaSet, StatefulSet
from koord.api.machinery.codec import convert
from koord.api.text.timestamp import from_seconds

NOW = 1_000_000.0
SELECTOR = {"matchLabels": {"app": "web"}}


def owner_of(kind: str, name: str, uid: str, api_version: str = "apps/v1") -> OwnerReference:
    return OwnerReference(api_version, kind, name, uid, controller=True, block_owner_deletion=True)


def pod(
    name: str,
    *,
    node: str = "",
    phase: str = "Running",
    ready: bool = True,
    ready_for_s: float = 100.0,
    age_s: float = 200.0,
    cost: str = "",
    restarts: int = 0,
    deleting: bool = False,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    finalizers: tuple[str, ...] = (),
    owner: OwnerReference | None = None,
    **spec: Any,
) -> Pod:
    notes = {**(annotations or {})}
    if cost:
        notes["controller.kubernetes.io/pod-deletion-cost"] = cost
    since = from_seconds(NOW - ready_for_s)
    body = {
        "spec": {"nodeName": node, **spec},
        "status": {
            "phase": phase,
            "conditions": [{"type": "Ready", "status": "True" if ready else "False", "lastTransitionTime": since}],
            "containerStatuses": [{"name": "app", "restartCount": restarts}],
        },
    }
    made = convert(Pod, body)
    meta = ObjectMeta(
        name=name,
        namespace="default",
        uid=f"uid-{name}",
        resource_version="1",
        creation_timestamp=from_seconds(NOW - age_s),
        deletion_timestamp=from_seconds(NOW) if deleting else None,
        labels=labels or {},
        annotations=notes,
        finalizers=finalizers,
        owner_references=(owner,) if owner else (),
    )
    return msgspec.structs.replace(made, metadata=meta)


def template(image: str = "app:1", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "app", "image": image}], **spec}}


def deployment(replicas: int = 10, image: str = "app:1", **spec: Any) -> Deployment:
    body = {
        "metadata": {"name": "web", "namespace": "default", "uid": "uid-web", "generation": 1, "resourceVersion": "1"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": template(image),
            **spec,
        },
    }
    return convert(Deployment, body)


def rolling(surge: int | str, unavailable: int | str) -> dict[str, Any]:
    return {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}


def replica_set(
    name: str, replicas: int, available: int | None = None, image: str = "app:1", *, age_s: float = 100.0, **notes: str
) -> ReplicaSet:
    available = replicas if available is None else available
    body = {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "resourceVersion": "1",
            "generation": 1,
            "creationTimestamp": from_seconds(NOW - age_s),
            "annotations": {f"deployment.kubernetes.io/{key.replace('_', '-')}": v for key, v in notes.items()},
        },
        "spec": {"replicas": replicas, "template": template(image)},
        "status": {"replicas": replicas, "availableReplicas": available, "readyReplicas": available}
        | {"observedGeneration": 1},
    }
    return convert(ReplicaSet, body)


def job(**spec: Any) -> Job:
    body = {
        "metadata": {"name": "sum", "namespace": "default", "uid": "uid-sum", "resourceVersion": "1"},
        "spec": {"parallelism": 1, "completions": 1, "template": template(restartPolicy="Never"), **spec},
    }
    return convert(Job, body)


def stateful_set(replicas: int = 3, image: str = "app:1", **spec: Any) -> StatefulSet:
    body = {
        "metadata": {"name": "db", "namespace": "default", "uid": "uid-db", "resourceVersion": "1", "generation": 1},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": template(image),
            **spec,
        },
    }
    return convert(StatefulSet, body)


def node(
    name: str,
    conditions: dict[str, str] | None = None,
    *,
    taints: tuple[dict[str, str], ...] = (),
    labels: dict[str, str] | None = None,
    cordoned: bool = False,
) -> Node:
    """`node("n1", {"Ready": "True"})`."""
    told = [{"type": type_, "status": word} for type_, word in (conditions or {}).items()]
    body = {
        "metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": "1", "labels": labels or {}},
        "spec": {"taints": list(taints), "unschedulable": cordoned},
        "status": {"conditions": told},
    }
    return convert(Node, body)
