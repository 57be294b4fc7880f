"""The built-in resources that are served, as the real server's discovery lists them.

What is not here is not served: a request for it gets 404, and discovery does not name it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from koord.api import builtin_schemas as schemas
from koord_minicluster.apiserver.builtin import STRATEGIES, event_forms
from koord_minicluster.apiserver.builtin.metadata_checks import metadata_checks
from koord_minicluster.apiserver.custom import kinds
from koord_minicluster.apiserver.resource import Resource, Strategy

_ALL_VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_CREATE_ONLY: Final = ("create",)
_READ_ONLY: Final = ("get", "list")
_ALL: Final = ("all",)
_EXTENSIONS: Final = ("api-extensions",)
_NAMESPACED, _CLUSTER = True, False

Row = tuple[str, str, bool, tuple[str, ...], tuple[str, ...], tuple[str, ...]]
"""Plural, kind, whether namespaced, short names, categories, subresources."""

_TABLE: Final[dict[tuple[str, str], tuple[Row, ...]]] = {
    ("", "v1"): (
        ("bindings", "Binding", _NAMESPACED, (), (), ()),
        ("componentstatuses", "ComponentStatus", _CLUSTER, ("cs",), (), ()),
        ("configmaps", "ConfigMap", _NAMESPACED, ("cm",), (), ()),
        ("endpoints", "Endpoints", _NAMESPACED, ("ep",), (), ()),
        ("events", "Event", _NAMESPACED, ("ev",), (), ()),
        ("limitranges", "LimitRange", _NAMESPACED, ("limits",), (), ()),
        ("namespaces", "Namespace", _CLUSTER, ("ns",), (), ("finalize", "status")),
        ("nodes", "Node", _CLUSTER, ("no",), (), ("proxy", "status")),
        ("persistentvolumeclaims", "PersistentVolumeClaim", _NAMESPACED, ("pvc",), (), ("status",)),
        ("persistentvolumes", "PersistentVolume", _CLUSTER, ("pv",), (), ("status",)),
        ("pods", "Pod", _NAMESPACED, ("po",), _ALL,
         ("attach", "binding", "ephemeralcontainers", "eviction", "exec", "log", "portforward", "proxy", "resize",
          "status")),
        ("podtemplates", "PodTemplate", _NAMESPACED, (), (), ()),
        ("replicationcontrollers", "ReplicationController", _NAMESPACED, ("rc",), _ALL, ("scale", "status")),
        ("resourcequotas", "ResourceQuota", _NAMESPACED, ("quota",), (), ("status",)),
        ("secrets", "Secret", _NAMESPACED, (), (), ()),
        ("serviceaccounts", "ServiceAccount", _NAMESPACED, ("sa",), (), ("token",)),
        ("services", "Service", _NAMESPACED, ("svc",), _ALL, ("proxy", "status")),
    ),
    ("apps", "v1"): (
        ("controllerrevisions", "ControllerRevision", _NAMESPACED, (), (), ()),
        ("daemonsets", "DaemonSet", _NAMESPACED, ("ds",), _ALL, ("status",)),
        ("deployments", "Deployment", _NAMESPACED, ("deploy",), _ALL, ("scale", "status")),
        ("replicasets", "ReplicaSet", _NAMESPACED, ("rs",), _ALL, ("scale", "status")),
        ("statefulsets", "StatefulSet", _NAMESPACED, ("sts",), _ALL, ("scale", "status")),
    ),
    ("events.k8s.io", "v1"): (("events", "Event", _NAMESPACED, ("ev",), (), ()),),
    ("authentication.k8s.io", "v1"): (
        ("selfsubjectreviews", "SelfSubjectReview", _CLUSTER, (), (), ()),
        ("tokenreviews", "TokenReview", _CLUSTER, (), (), ()),
    ),
    ("authorization.k8s.io", "v1"): (
        ("localsubjectaccessreviews", "LocalSubjectAccessReview", _NAMESPACED, (), (), ()),
        ("selfsubjectaccessreviews", "SelfSubjectAccessReview", _CLUSTER, (), (), ()),
        ("selfsubjectrulesreviews", "SelfSubjectRulesReview", _CLUSTER, (), (), ()),
        ("subjectaccessreviews", "SubjectAccessReview", _CLUSTER, (), (), ()),
    ),
    ("batch", "v1"): (
        ("cronjobs", "CronJob", _NAMESPACED, ("cj",), _ALL, ("status",)),
        ("jobs", "Job", _NAMESPACED, (), _ALL, ("status",)),
    ),
    ("policy", "v1"): (("poddisruptionbudgets", "PodDisruptionBudget", _NAMESPACED, ("pdb",), (), ("status",)),),
    ("rbac.authorization.k8s.io", "v1"): (
        ("clusterrolebindings", "ClusterRoleBinding", _CLUSTER, (), (), ()),
        ("clusterroles", "ClusterRole", _CLUSTER, (), (), ()),
        ("rolebindings", "RoleBinding", _NAMESPACED, (), (), ()),
        ("roles", "Role", _NAMESPACED, (), (), ()),
    ),
    ("resource.k8s.io", "v1"): (
        ("deviceclasses", "DeviceClass", _CLUSTER, (), (), ()),
        ("resourceclaims", "ResourceClaim", _NAMESPACED, (), (), ("status",)),
        ("resourceclaimtemplates", "ResourceClaimTemplate", _NAMESPACED, (), (), ()),
        ("resourceslices", "ResourceSlice", _CLUSTER, (), (), ()),
    ),
    ("storage.k8s.io", "v1"): (
        ("csidrivers", "CSIDriver", _CLUSTER, (), (), ()),
        ("csinodes", "CSINode", _CLUSTER, (), (), ()),
        ("csistoragecapacities", "CSIStorageCapacity", _NAMESPACED, (), (), ()),
        ("storageclasses", "StorageClass", _CLUSTER, ("sc",), (), ()),
        ("volumeattachments", "VolumeAttachment", _CLUSTER, (), (), ("status",)),
        ("volumeattributesclasses", "VolumeAttributesClass", _CLUSTER, ("vac",), (), ()),
    ),
    ("admissionregistration.k8s.io", "v1"): (
        ("mutatingwebhookconfigurations", "MutatingWebhookConfiguration", _CLUSTER, (), _EXTENSIONS, ()),
        ("validatingwebhookconfigurations", "ValidatingWebhookConfiguration", _CLUSTER, (), _EXTENSIONS, ()),
    ),
    ("apiextensions.k8s.io", "v1"): (
        ("customresourcedefinitions", "CustomResourceDefinition", _CLUSTER, ("crd", "crds"), _EXTENSIONS, ("status",)),
    ),
    ("scheduling.k8s.io", "v1"): (("priorityclasses", "PriorityClass", _CLUSTER, ("pc",), (), ()),),
    ("coordination.k8s.io", "v1"): (("leases", "Lease", _NAMESPACED, (), (), ()),),
    ("node.k8s.io", "v1"): (("runtimeclasses", "RuntimeClass", _CLUSTER, (), (), ()),),
    ("discovery.k8s.io", "v1"): (("endpointslices", "EndpointSlice", _NAMESPACED, (), (), ()),),
    ("metrics.k8s.io", "v1beta1"): (
        ("nodes", "NodeMetrics", _CLUSTER, (), (), ()),
        ("pods", "PodMetrics", _NAMESPACED, (), (), ()),
    ),
}  # fmt: skip

_VERBS: Final[dict[tuple[str, str], tuple[str, ...]]] = {
    ("", "bindings"): _CREATE_ONLY,
    ("", "namespaces"): tuple(verb for verb in _ALL_VERBS if verb != "deletecollection"),
    ("", "componentstatuses"): _READ_ONLY,
    ("metrics.k8s.io", "nodes"): _READ_ONLY,
    ("metrics.k8s.io", "pods"): _READ_ONLY,
    **{
        (group, row[0]): _CREATE_ONLY
        for group in ("authentication.k8s.io", "authorization.k8s.io")
        for row in _TABLE[group, "v1"]
    },
}
_WITH_GENERATION: Final = frozenset(
    {
        "CronJob", "CustomResourceDefinition", "DaemonSet", "Deployment", "EndpointSlice", "Job",
        "MutatingWebhookConfiguration", "Pod", "PodDisruptionBudget", "PriorityClass", "ReplicaSet", "StatefulSet",
        "ValidatingWebhookConfiguration",
    }
)  # fmt: skip
_DEPRECATED: Final = {
    ("", "componentstatuses"): "v1 ComponentStatus is deprecated in v1.19+",
    ("", "endpoints"): "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
}
_SCALE_PATHS: Final = {
    "specReplicas": ".spec.replicas",
    "statusReplicas": ".status.replicas",
    "labelSelector": ".spec.selector",
}


def builtin_resources() -> Iterator[Resource]:
    """Every served built-in resource."""
    for (group, version), rows in _TABLE.items():
        for row in rows:
            yield _resource(group, version, row)


def _resource(group: str, version: str, row: Row) -> Resource:
    plural, kind, namespaced, short_names, categories, subresources = row
    is_event = kind == "Event"
    return Resource(
        group=group,
        version=version,
        plural=plural,
        kind=kind,
        namespaced=namespaced,
        schema=schemas.schema_for(group, version, kind),
        singular="" if group == "metrics.k8s.io" else plural if kind == "Endpoints" else kind.lower(),
        short_names=short_names,
        categories=categories,
        verbs=_VERBS.get((group, plural), _ALL_VERBS),
        subresources=frozenset(subresources),
        strategy=replace(_strategy(group, kind, subresources), metadata_checks=metadata_checks(group, kind)),
        storage="events" if is_event else "",
        storage_version=event_forms.CORE if is_event else "",
        convert=event_forms.convert if group == "events.k8s.io" else None,
        scale_paths=_SCALE_PATHS if "scale" in subresources else {},
        deprecation=_DEPRECATED.get((group, plural), ""),
    )


def _strategy(group: str, kind: str, subresources: tuple[str, ...]) -> Strategy:
    if (group, kind) == (kinds.GROUP, "CustomResourceDefinition"):
        return kinds.STRATEGY
    strategy = STRATEGIES.get((group, kind))
    if strategy is not None:
        return strategy
    has_status = "status" in subresources
    return Strategy(has_status=has_status, has_generation=kind in _WITH_GENERATION)
