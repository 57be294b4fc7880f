"""Which metadata checks the real server runs for each built-in kind; unlisted kinds get the usual checks.

The differences have no system: each validation function of the real server calls the checks its author chose.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from koord_minicluster.apiserver.resource import MetadataChecks

_USUAL: Final = MetadataChecks()
_OBJECT_FIRST: Final = MetadataChecks(of_object_first=True)
_AS_CHANGE: Final = MetadataChecks(of_changed=False)
_AS_OBJECT: Final = MetadataChecks(of_change=False)
_NOT: Final = MetadataChecks(
    of_new=False, of_changed=False, of_change=False, of_status_change=False, of_finalizers=False
)
_RBAC: Final = "rbac.authorization.k8s.io"
_STORAGE: Final = "storage.k8s.io"
_ADMISSION: Final = "admissionregistration.k8s.io"
_HOOKS: Final = MetadataChecks(of_change=False, of_finalizers=False)

CHECKS: Final[Mapping[tuple[str, str], MetadataChecks]] = {
    ("", "Event"): _NOT,
    ("", "LimitRange"): _AS_OBJECT,
    ("", "Namespace"): _OBJECT_FIRST,
    ("", "Node"): _OBJECT_FIRST,
    ("", "PersistentVolume"): _AS_OBJECT,
    ("", "PodTemplate"): _AS_CHANGE,
    ("", "ReplicationController"): MetadataChecks(of_changed=False, of_generated=False),
    ("", "ResourceQuota"): _AS_CHANGE,
    ("", "Service"): _AS_CHANGE,
    ("events.k8s.io", "Event"): _AS_CHANGE,
    ("apps", "DaemonSet"): _AS_CHANGE,
    ("apps", "Deployment"): _AS_CHANGE,
    ("apps", "ReplicaSet"): _AS_CHANGE,
    ("apps", "StatefulSet"): _AS_CHANGE,
    ("batch", "Job"): _OBJECT_FIRST,
    ("batch", "CronJob"): MetadataChecks(of_changed=False, of_status_change=False),
    ("policy", "PodDisruptionBudget"): _NOT,
    (_RBAC, "Role"): _OBJECT_FIRST,
    (_RBAC, "ClusterRole"): _OBJECT_FIRST,
    (_RBAC, "RoleBinding"): _OBJECT_FIRST,
    (_RBAC, "ClusterRoleBinding"): _OBJECT_FIRST,
    ("coordination.k8s.io", "Lease"): MetadataChecks(of_changed=False, of_finalizers=False),
    ("scheduling.k8s.io", "PriorityClass"): _AS_CHANGE,
    ("node.k8s.io", "RuntimeClass"): MetadataChecks(of_finalizers=False),
    ("discovery.k8s.io", "EndpointSlice"): _AS_OBJECT,
    (_STORAGE, "CSIDriver"): _AS_CHANGE,
    (_STORAGE, "CSINode"): _AS_OBJECT,
    (_STORAGE, "CSIStorageCapacity"): _OBJECT_FIRST,
    (_STORAGE, "StorageClass"): _OBJECT_FIRST,
    (_STORAGE, "VolumeAttachment"): MetadataChecks(of_change=False, of_status_change=False, of_status=True),
    (_ADMISSION, "MutatingWebhookConfiguration"): _HOOKS,
    (_ADMISSION, "ValidatingWebhookConfiguration"): _HOOKS,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): MetadataChecks(
        of_new=False, of_changed=False, of_finalizers=False
    ),
}


def metadata_checks(group: str, kind: str) -> MetadataChecks:
    return CHECKS.get((group, kind), _USUAL)
