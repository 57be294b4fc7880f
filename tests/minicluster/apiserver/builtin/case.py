"""A case: an object that is created, perhaps changed, and what a server answers to the last of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Obj = dict[str, Any]


@dataclass(frozen=True)
class Case:
    title: str
    obj: Obj
    change: Obj | None = None
    "A JSON merge patch; the outcome is sent as an update."
    subresource: str = ""
    before: Obj | None = None
    "A merge patch of the status that is made first."

    @property
    def id(self) -> str:
        return f"{self.obj['kind']}: {self.title}"


PATHS = {
    ("v1", "Pod"): "pods",
    ("v1", "Node"): "nodes",
    ("v1", "Namespace"): "namespaces",
    ("v1", "ConfigMap"): "configmaps",
    ("v1", "Secret"): "secrets",
    ("v1", "ServiceAccount"): "serviceaccounts",
    ("v1", "Service"): "services",
    ("v1", "Endpoints"): "endpoints",
    ("v1", "PersistentVolume"): "persistentvolumes",
    ("v1", "PersistentVolumeClaim"): "persistentvolumeclaims",
    ("v1", "Event"): "events",
    ("v1", "PodTemplate"): "podtemplates",
    ("v1", "ReplicationController"): "replicationcontrollers",
    ("v1", "LimitRange"): "limitranges",
    ("v1", "ResourceQuota"): "resourcequotas",
    ("events.k8s.io/v1", "Event"): "events",
    ("apps/v1", "Deployment"): "deployments",
    ("apps/v1", "ReplicaSet"): "replicasets",
    ("apps/v1", "StatefulSet"): "statefulsets",
    ("apps/v1", "DaemonSet"): "daemonsets",
    ("apps/v1", "ControllerRevision"): "controllerrevisions",
    ("batch/v1", "Job"): "jobs",
    ("batch/v1", "CronJob"): "cronjobs",
    ("policy/v1", "PodDisruptionBudget"): "poddisruptionbudgets",
    ("coordination.k8s.io/v1", "Lease"): "leases",
    ("scheduling.k8s.io/v1", "PriorityClass"): "priorityclasses",
    ("storage.k8s.io/v1", "StorageClass"): "storageclasses",
    ("storage.k8s.io/v1", "CSINode"): "csinodes",
    ("storage.k8s.io/v1", "CSIDriver"): "csidrivers",
    ("storage.k8s.io/v1", "CSIStorageCapacity"): "csistoragecapacities",
    ("storage.k8s.io/v1", "VolumeAttachment"): "volumeattachments",
    ("rbac.authorization.k8s.io/v1", "Role"): "roles",
    ("rbac.authorization.k8s.io/v1", "ClusterRole"): "clusterroles",
    ("rbac.authorization.k8s.io/v1", "RoleBinding"): "rolebindings",
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"): "clusterrolebindings",
    ("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration"): "mutatingwebhookconfigurations",
    ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration"): "validatingwebhookconfigurations",
    ("node.k8s.io/v1", "RuntimeClass"): "runtimeclasses",
}

CLUSTER_WIDE = {
    "Node",
    "Namespace",
    "PersistentVolume",
    "PriorityClass",
    "StorageClass",
    "CSINode",
    "CSIDriver",
    "VolumeAttachment",
    "ClusterRole",
    "ClusterRoleBinding",
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
    "RuntimeClass",
}


def merged(target: Any, patch: Any) -> Any:
    """A JSON merge patch applied."""
    if not isinstance(patch, dict):
        return patch
    outcome = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            outcome.pop(key, None)
        else:
            outcome[key] = merged(outcome.get(key), value)
    return outcome
