"""A Deployment's ReplicaSet for a template, and the pods of ReplicaSets and ReplicationControllers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from koord.api.kinds import DEPLOYMENTS, REPLICA_SETS, REPLICATION_CONTROLLERS
from koord.api.kubernetes.meta import ObjectMeta
from koord.api.kubernetes.workloads import Deployment, ReplicaSet, ReplicationController
from koord.api.workloads.new_pods import managing, name_prefix, pod_from, reference_body
from koord.api.workloads.template_hash import template_hash

DESIRED: Final = "deployment.kubernetes.io/desired-replicas"
MAX: Final = "deployment.kubernetes.io/max-replicas"
HASH: Final = "pod-template-hash"
REVISION: Final = "deployment.kubernetes.io/revision"
REVISION_HISTORY: Final = "deployment.kubernetes.io/revision-history"
NOT_COPIED: Final = frozenset(
    {
        "kubectl.kubernetes.io/last-applied-configuration",
        "deprecated.deployment.rollback.to",
        REVISION,
        REVISION_HISTORY,
        DESIRED,
        MAX,
    }
)


def new_replica_set(deployment: Deployment, replicas: int, revision: int, notes: Mapping[str, str]) -> dict[str, Any]:
    """The ReplicaSet for a Deployment's present template. `notes` say what size it is made for."""
    meta = deployment.metadata
    hash_ = template_hash(deployment.spec.template, deployment.status.collision_count)
    template = deployment.spec.template
    template_meta = template.get("metadata") or {}
    labels = {**(template_meta.get("labels") or {}), HASH: hash_}
    selector = deployment.spec.selector
    expressions: list[dict[str, Any]] = [
        {"key": r.key, "operator": r.operator, **({"values": list(r.values)} if r.values else {})}
        for r in selector.match_expressions
    ]
    return {
        "metadata": {
            "name": f"{meta.name}-{hash_}",
            "labels": labels,
            "annotations": {
                **copied(meta),
                **notes,
                REVISION: str(revision),
            },
            "ownerReferences": [reference_body(managing(DEPLOYMENTS, meta))],
        },
        "spec": {
            "replicas": replicas,
            "minReadySeconds": deployment.spec.min_ready_seconds,
            "selector": {"matchLabels": {**selector.match_labels, HASH: hash_}, "matchExpressions": expressions},
            "template": {**template, "metadata": {**template_meta, "labels": labels}},
        },
    }


def copied(meta: ObjectMeta) -> dict[str, str]:
    return {key: value for key, value in meta.annotations.items() if key not in NOT_COPIED}


def pod_of_replica_set(given: ReplicaSet) -> dict[str, Any]:
    return pod_from(given.spec.template, name_prefix(given.metadata), managing(REPLICA_SETS, given.metadata))


def pod_of_controller(given: ReplicationController) -> dict[str, Any]:
    owner = managing(REPLICATION_CONTROLLERS, given.metadata)
    return pod_from(given.spec.template, name_prefix(given.metadata), owner)
