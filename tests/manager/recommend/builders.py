"""Pods and targets of recommendations, as small as a test needs them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from koord.api.kubernetes.owners import Workload
from koord.api.protocol.recommendation_target import Target
from koord.manager.recommend.pods import PodFacts, pod_facts


def target(kind: str, name: str) -> Target:
    return Target("ns", Workload("ns", kind, name), None, identity=f"{kind}/{name}")


TARGET = target("Deployment", "web")


def pod(
    name: str,
    *,
    owner: tuple[str, str] = ("ReplicaSet", "web-a"),
    labels: Mapping[str, str] | None = None,
    memory_limit: str = "",
    containers: tuple[str, ...] = ("main",),
    node: str = "n1",
) -> dict[str, Any]:
    """A pod that runs and is ready."""
    limits = {"memory": memory_limit} if memory_limit else {}
    resources = {"requests": {"cpu": "2", "memory": "1Gi"}, "limits": limits}
    return {
        "metadata": {
            "namespace": "ns", "name": name, "uid": name, "labels": dict(labels or {"pod-template-hash": "a"}),
            "ownerReferences": [{"kind": owner[0], "name": owner[1], "controller": True}],
        },
        "spec": {"nodeName": node, "containers": [{"name": each, "resources": resources} for each in containers]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    }  # fmt: skip


def facts(name: str, *, revision: str = "a", containers: tuple[str, ...] = ("main",)) -> PodFacts:
    raw = pod(
        name, owner=("ReplicaSet", f"web-{revision}"), labels={"pod-template-hash": revision}, containers=containers
    )
    return pod_facts(msgspec.json.encode(raw))
