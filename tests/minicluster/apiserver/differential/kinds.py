"""The smallest object of every built-in kind that can be stored, and the path where it is created.

Sequences that ask the same of every kind are made from these. Names outside namespaces carry the sequence's name.
"""

# ruff: noqa: E501 - a kind is a row of a table

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, Final

from tests.minicluster.apiserver.differential.steps import APPS, BATCH, CORE, CRDS, HOOKS, POLICY, RBAC, Step, post

Obj = dict[str, Any]

_CONTAINER: Final = {"name": "main", "image": "example/image:1"}
_LABELS: Final = {"app": "x"}
_TEMPLATE: Final = {"metadata": {"labels": _LABELS}, "spec": {"containers": [_CONTAINER]}}
_JOB: Final = {"template": {"spec": {"containers": [_CONTAINER], "restartPolicy": "Never"}}}
_STORAGE: Final = "/apis/storage.k8s.io/v1"
_HOOK: Final = {
    "name": "a.example.com",
    "clientConfig": {"url": "https://127.0.0.1:1/x"},
    "sideEffects": "None",
    "admissionReviewVersions": ["v1"],
    "rules": [{"apiGroups": ["none.example.com"], "apiVersions": ["*"], "operations": ["CREATE"], "resources": ["*"]}],
}


@dataclass(frozen=True)
class Kind:
    """A kind, as a sequence uses it: where it is created, and its smallest object, whose name is `a`."""

    path: str
    least: Obj
    has_status: bool = False

    @property
    def kind(self) -> str:
        return str(self.least["kind"])

    @property
    def one(self) -> str:
        """The path of the smallest object."""
        return f"{self.path}/{self.least['metadata']['name']}"

    def made(self, **parts: Any) -> Obj:
        """The smallest object, with these parts changed; a part that is a dict is merged into the part of the object."""
        made = copy.deepcopy(self.least)
        for key, value in parts.items():
            whole = isinstance(value, dict) and isinstance(made.get(key), dict)
            made[key] = made[key] | value if whole else value
        return made

    def create(self, **parts: Any) -> Step:
        return post(self.path, self.made(**parts))


def _kind(path: str, api_version: str, kind: str, *, has_status: bool = False, **parts: Any) -> Kind:
    name = "a" if "{{ns}}" in path else "{{seq}}-a"
    least = {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **parts}
    return Kind(path, least, has_status)


def _definition() -> Kind:
    group = "{{seq}}.example.com"
    schema = {"openAPIV3Schema": {"type": "object"}}
    spec = {
        "group": group,
        "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
    }
    made = _kind(CRDS, "apiextensions.k8s.io/v1", "CustomResourceDefinition", has_status=True, spec=spec)
    made.least["metadata"]["name"] = f"widgets.{group}"
    return made


_SELECTING: Final = {"selector": {"matchLabels": _LABELS}, "template": _TEMPLATE}
_REGARDING: Final = {"kind": "Pod", "namespace": "{{ns}}", "name": "p"}
_DEFINED: Final = (
    _kind(f"{CORE}/configmaps", "v1", "ConfigMap"),
    _kind(f"{CORE}/endpoints", "v1", "Endpoints"),
    _kind(f"{CORE}/events", "v1", "Event", involvedObject=_REGARDING),
    _kind(f"{CORE}/limitranges", "v1", "LimitRange"),
    _kind("/api/v1/namespaces", "v1", "Namespace", has_status=True),
    _kind("/api/v1/nodes", "v1", "Node", has_status=True),
    _kind(
        f"{CORE}/persistentvolumeclaims", "v1", "PersistentVolumeClaim", has_status=True,
        spec={"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    ),
    _kind(
        "/api/v1/persistentvolumes", "v1", "PersistentVolume", has_status=True,
        spec={"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/x"}},
    ),
    _kind(f"{CORE}/pods", "v1", "Pod", has_status=True, spec={"containers": [_CONTAINER]}),
    _kind(f"{CORE}/podtemplates", "v1", "PodTemplate", template=_TEMPLATE),
    _kind(f"{CORE}/replicationcontrollers", "v1", "ReplicationController", has_status=True, spec={"template": _TEMPLATE}),
    _kind(f"{CORE}/resourcequotas", "v1", "ResourceQuota", has_status=True),
    _kind(f"{CORE}/secrets", "v1", "Secret"),
    _kind(f"{CORE}/serviceaccounts", "v1", "ServiceAccount"),
    _kind(f"{CORE}/services", "v1", "Service", has_status=True, spec={"ports": [{"port": 80}]}),
    _kind(f"{APPS}/controllerrevisions", "apps/v1", "ControllerRevision", data={"a": 1}, revision=1),
    _kind(f"{APPS}/daemonsets", "apps/v1", "DaemonSet", has_status=True, spec=_SELECTING),
    _kind(f"{APPS}/deployments", "apps/v1", "Deployment", has_status=True, spec=_SELECTING),
    _kind(f"{APPS}/replicasets", "apps/v1", "ReplicaSet", has_status=True, spec=_SELECTING),
    _kind(f"{APPS}/statefulsets", "apps/v1", "StatefulSet", has_status=True, spec=_SELECTING),
    _kind(
        "/apis/events.k8s.io/v1/namespaces/{{ns}}/events", "events.k8s.io/v1", "Event", regarding=_REGARDING,
        eventTime="2026-01-01T00:00:00.000000Z", reportingController="e.com/c", reportingInstance="i",
        action="a", reason="r", type="Normal",
    ),
    _kind(f"{BATCH}/cronjobs", "batch/v1", "CronJob", has_status=True, spec={"schedule": "* * * * *", "jobTemplate": {"spec": _JOB}}),
    _kind(f"{BATCH}/jobs", "batch/v1", "Job", has_status=True, spec=_JOB),
    _kind(f"{POLICY}/poddisruptionbudgets", "policy/v1", "PodDisruptionBudget", has_status=True),
    _kind(f"{RBAC}/clusterrolebindings", "rbac.authorization.k8s.io/v1", "ClusterRoleBinding",
          roleRef={"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}),
    _kind(f"{RBAC}/clusterroles", "rbac.authorization.k8s.io/v1", "ClusterRole"),
    _kind(f"{RBAC}/namespaces/{{{{ns}}}}/rolebindings", "rbac.authorization.k8s.io/v1", "RoleBinding",
          roleRef={"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}),
    _kind(f"{RBAC}/namespaces/{{{{ns}}}}/roles", "rbac.authorization.k8s.io/v1", "Role"),
    _kind(f"{_STORAGE}/csidrivers", "storage.k8s.io/v1", "CSIDriver", spec={}),
    _kind(f"{_STORAGE}/csinodes", "storage.k8s.io/v1", "CSINode", spec={"drivers": []}),
    _kind(f"{_STORAGE}/namespaces/{{{{ns}}}}/csistoragecapacities", "storage.k8s.io/v1", "CSIStorageCapacity", storageClassName="s"),
    _kind(f"{_STORAGE}/storageclasses", "storage.k8s.io/v1", "StorageClass", provisioner="e.com/p"),
    _kind(f"{_STORAGE}/volumeattachments", "storage.k8s.io/v1", "VolumeAttachment", has_status=True,
          spec={"attacher": "e.com", "nodeName": "n", "source": {"persistentVolumeName": "v"}}),
    _kind(f"{_STORAGE}/volumeattributesclasses", "storage.k8s.io/v1", "VolumeAttributesClass", driverName="e.com", parameters={"a": "b"}),
    _kind(f"{HOOKS}/mutatingwebhookconfigurations", "admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", webhooks=[_HOOK]),
    _kind(f"{HOOKS}/validatingwebhookconfigurations", "admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", webhooks=[_HOOK]),
    _definition(),
    _kind("/apis/scheduling.k8s.io/v1/priorityclasses", "scheduling.k8s.io/v1", "PriorityClass", value=1),
    _kind("/apis/coordination.k8s.io/v1/namespaces/{{ns}}/leases", "coordination.k8s.io/v1", "Lease"),
    _kind("/apis/node.k8s.io/v1/runtimeclasses", "node.k8s.io/v1", "RuntimeClass", handler="h"),
    _kind("/apis/discovery.k8s.io/v1/namespaces/{{ns}}/endpointslices", "discovery.k8s.io/v1", "EndpointSlice", addressType="IPv4", endpoints=[]),
)  # fmt: skip

KINDS: Final[dict[str, Kind]] = {
    "events.k8s.io" if "events.k8s.io" in each.path else each.path.rpartition("/")[2]: each for each in _DEFINED
}
"""By the plural name; events in their newer group by that group."""
