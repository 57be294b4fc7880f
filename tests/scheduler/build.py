"""Builders of small objects for scheduler tests: node("n1", cpu=8), pod("web", cpu="1"), metric("n1", cpu="40").

What has no parameter of its own is given by its JSON name: pod("web", nodeSelector={"disk": "ssd"}).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Pod
from koord.api.machinery.codec import convert
from koord.api.protocol.crd.node_metric import NodeMetric
from koord.api.text.timestamp import from_seconds

Resources = Mapping[str, str | int]
NOW_S = 1_800_000_000.0


def node(
    name: str,
    *,
    cpu: str | int = 64,
    memory: str | int = "256Gi",
    pods: int = 110,
    more: Resources | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    images: Mapping[str, int] | None = None,
    **spec: Any,
) -> Node:
    """A node with its hostname label. `images` are sizes in bytes."""
    has = {"cpu": cpu, "memory": memory, "pods": pods, **(more or {})}
    return convert(
        Node,
        {
            "metadata": {
                "name": name,
                "labels": {"kubernetes.io/hostname": name, **(labels or {})},
                "annotations": dict(annotations or {}),
            },
            "spec": spec,
            "status": {
                "allocatable": has,
                "images": [{"names": [image], "sizeBytes": size} for image, size in (images or {}).items()],
            },
        },
    )


def pod(
    name: str,
    *,
    on: str = "",
    requests: Resources | None = None,
    limits: Resources | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    owners: Sequence[Mapping[str, Any]] = (),
    conditions: Iterable[Mapping[str, Any]] = (),
    namespace: str = "default",
    image: str = "app",
    ports: Sequence[Mapping[str, Any]] = (),
    phase: str | None = None,
    deleted: bool = False,
    **spec: Any,
) -> Pod:
    """A pod of one container, on the node `on` if one is given."""
    resources = {"requests": dict(requests or {}), "limits": dict(limits or {})}
    meta: dict[str, Any] = {
        "name": name,
        "namespace": namespace,
        "uid": f"{namespace}-{name}",
        "labels": dict(labels or {}),
        "annotations": dict(annotations or {}),
        "ownerReferences": list(owners),
    }
    if deleted:
        meta["deletionTimestamp"] = from_seconds(NOW_S)
    main = {"name": "main", "image": image, "resources": resources, "ports": list(ports)}
    return convert(
        Pod,
        {
            "metadata": meta,
            "spec": {"containers": [main], "nodeName": on, **spec},
            "status": {"phase": phase or ("Running" if on else "Pending"), "conditions": list(conditions)},
        },
    )


def condition(type_: str, at_s: float) -> dict[str, Any]:
    return {"type": type_, "status": "True", "lastTransitionTime": from_seconds(at_s)}


def metric(
    name: str,
    *,
    age_s: float = 0,
    usage: Resources | None = None,
    pods: Iterable[Mapping[str, Any]] = (),
    aggregated: Iterable[Mapping[str, Any]] = (),
    system: Resources | None = None,
    report_interval_s: int | None = None,
) -> NodeMetric:
    """A node's report, `age_s` before NOW_S. Pods are given by `pod_usage`."""
    return convert(
        NodeMetric,
        {
            "metadata": {"name": name},
            "spec": {"metricCollectPolicy": {"reportIntervalSeconds": report_interval_s}},
            "status": {
                "updateTime": from_seconds(NOW_S - age_s),
                "nodeMetric": {
                    "nodeUsage": {"resources": dict(usage or {})},
                    "systemUsage": {"resources": dict(system or {})},
                    "aggregatedNodeUsages": list(aggregated),
                },
                "podsMetric": list(pods),
            },
        },
    )


def pod_usage(name: str, usage: Resources, *, namespace: str = "default", priority: str = "") -> dict[str, Any]:
    return {"name": name, "namespace": namespace, "podUsage": {"resources": dict(usage)}, "priority": priority}
