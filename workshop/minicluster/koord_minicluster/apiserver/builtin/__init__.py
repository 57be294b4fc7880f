"""What is particular to each built-in kind: one `Strategy` for each, by group and kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from koord_minicluster.apiserver.builtin import (
    apps,
    apps_stateful,
    batch,
    batch_cron,
    components,
    config,
    devices,
    endpoints,
    events,
    limits,
    namespace,
    node,
    pod,
    policy,
    quotas,
    rbac,
    scheduling,
    service,
    storage,
    volume_claims,
    webhooks,
)
from koord_minicluster.apiserver.resource import Strategy

_RBAC: Final = "rbac.authorization.k8s.io"
_STORAGE: Final = "storage.k8s.io"
_DEVICES: Final = "resource.k8s.io"
_ADMISSION: Final = "admissionregistration.k8s.io"

STRATEGIES: Final[Mapping[tuple[str, str], Strategy]] = {
    ("", "Pod"): pod.STRATEGY,
    ("", "Node"): node.STRATEGY,
    ("", "Namespace"): namespace.STRATEGY,
    ("", "ComponentStatus"): components.COMPONENT_STATUS,
    ("", "ConfigMap"): config.CONFIG_MAP,
    ("", "Secret"): config.SECRET,
    ("", "ServiceAccount"): config.SERVICE_ACCOUNT,
    ("", "Service"): service.SERVICE,
    ("", "Endpoints"): endpoints.ENDPOINTS,
    ("", "PersistentVolumeClaim"): volume_claims.CLAIM,
    ("", "PersistentVolume"): volume_claims.VOLUME,
    ("", "Event"): events.CORE_EVENT,
    ("", "PodTemplate"): quotas.POD_TEMPLATE,
    ("", "ReplicationController"): quotas.REPLICATION_CONTROLLER,
    ("", "LimitRange"): limits.LIMIT_RANGE,
    ("", "ResourceQuota"): quotas.RESOURCE_QUOTA,
    ("events.k8s.io", "Event"): events.EVENTS_EVENT,
    ("apps", "Deployment"): apps.DEPLOYMENT,
    ("apps", "ReplicaSet"): apps.REPLICA_SET,
    ("apps", "DaemonSet"): apps.DAEMON_SET,
    ("apps", "StatefulSet"): apps_stateful.STATEFUL_SET,
    ("apps", "ControllerRevision"): apps_stateful.CONTROLLER_REVISION,
    ("batch", "Job"): batch.JOB,
    ("batch", "CronJob"): batch_cron.CRON_JOB,
    ("policy", "PodDisruptionBudget"): policy.DISRUPTION_BUDGET,
    ("coordination.k8s.io", "Lease"): scheduling.LEASE,
    ("scheduling.k8s.io", "PriorityClass"): scheduling.PRIORITY_CLASS,
    ("node.k8s.io", "RuntimeClass"): scheduling.RUNTIME_CLASS,
    (_STORAGE, "StorageClass"): storage.STORAGE_CLASS,
    (_STORAGE, "VolumeAttributesClass"): storage.ATTRIBUTES_CLASS,
    (_STORAGE, "CSIDriver"): storage.CSI_DRIVER,
    (_STORAGE, "CSINode"): storage.CSI_NODE,
    (_STORAGE, "CSIStorageCapacity"): storage.CSI_STORAGE_CAPACITY,
    (_STORAGE, "VolumeAttachment"): storage.VOLUME_ATTACHMENT,
    (_DEVICES, "ResourceClaim"): devices.CLAIM,
    (_DEVICES, "ResourceClaimTemplate"): devices.TEMPLATE,
    (_DEVICES, "ResourceSlice"): devices.SLICE,
    (_DEVICES, "DeviceClass"): devices.CLASS,
    (_RBAC, "Role"): rbac.ROLE,
    (_RBAC, "ClusterRole"): rbac.CLUSTER_ROLE,
    (_RBAC, "RoleBinding"): rbac.ROLE_BINDING,
    (_RBAC, "ClusterRoleBinding"): rbac.CLUSTER_ROLE_BINDING,
    (_ADMISSION, "MutatingWebhookConfiguration"): webhooks.MUTATING,
    (_ADMISSION, "ValidatingWebhookConfiguration"): webhooks.VALIDATING,
    ("discovery.k8s.io", "EndpointSlice"): endpoints.ENDPOINT_SLICE,
}
