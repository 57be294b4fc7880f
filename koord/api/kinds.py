"""The kinds koord knows: where each lives in the API and which type reads it.

A `Kind` is what the client, informers, manifests and the embedded server pass around to say *which* objects:
`client.get(PODS, "web", namespace="shop")`. `ALL` is the one list; `find` looks a manifest's kind up in it.
A type is named here and imported when it is first needed, so that a program pays for the kinds it uses.
"""

from __future__ import annotations

import builtins
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast
from urllib.parse import quote

import msgspec

from koord.api.machinery.struct import Struct

if TYPE_CHECKING:
    from koord.api.kubernetes.admissionregistration import MutatingWebhookConfiguration, ValidatingWebhookConfiguration
    from koord.api.kubernetes.apiextensions import CustomResourceDefinition
    from koord.api.kubernetes.coordination import Lease
    from koord.api.kubernetes.core import (
        ConfigMap,
        Event,
        LimitRange,
        Namespace,
        Node,
        Pod,
        PriorityClass,
        RuntimeClass,
        Secret,
        Service,
        ServiceAccount,
    )
    from koord.api.kubernetes.discovery import EndpointSlice
    from koord.api.kubernetes.dynamic_resources import (
        DeviceClass,
        DeviceTaintRule,
        ResourceClaim,
        ResourceClaimTemplate,
        ResourceSlice,
    )
    from koord.api.kubernetes.policy import PodDisruptionBudget
    from koord.api.kubernetes.rbac import ClusterRole
    from koord.api.kubernetes.storage import (
        CSIDriver,
        CSINode,
        CSIStorageCapacity,
        PersistentVolume,
        PersistentVolumeClaim,
        StorageClass,
    )
    from koord.api.kubernetes.workloads import (
        ControllerRevision,
        CronJob,
        DaemonSet,
        Deployment,
        Job,
        ReplicaSet,
        ReplicationController,
        StatefulSet,
    )
    from koord.api.protocol.crd.colocation_profile import ClusterColocationProfile
    from koord.api.protocol.crd.device import Device
    from koord.api.protocol.crd.elastic_quota import ElasticQuota, ElasticQuotaProfile
    from koord.api.protocol.crd.interference_pair import InterferencePair
    from koord.api.protocol.crd.network_topology import ClusterNetworkTopology
    from koord.api.protocol.crd.node_metric import NodeMetric
    from koord.api.protocol.crd.node_resource_topology import NodeResourceTopology
    from koord.api.protocol.crd.node_slo import NodeSLO
    from koord.api.protocol.crd.pod_group import PodGroup
    from koord.api.protocol.crd.pod_migration_job import PodMigrationJob
    from koord.api.protocol.crd.recommendation import Recommendation
    from koord.api.protocol.crd.reservation import Reservation
    from koord.api.protocol.crd.schedule_explanation import ScheduleExplanation

T = TypeVar("T", bound=Struct)


class Kind(Generic[T]):
    """One kind of object: its group, version and names, and the type that reads it (or `module:Class` of it)."""

    __slots__ = ("_type", "group", "kind", "namespaced", "plural", "version")

    def __init__(
        self, group: str, version: str, kind: str, plural: str, namespaced: bool, type: builtins.type[T] | str
    ) -> None:
        self.group: Final = group
        self.version: Final = version
        self.kind: Final = kind
        self.plural: Final = plural
        self.namespaced: Final = namespaced
        self._type = type

    @property
    def type(self) -> builtins.type[T]:
        if isinstance(self._type, str):
            module, _, name = self._type.partition(":")
            self._type = cast("builtins.type[T]", getattr(import_module(module), name))
        return self._type

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource(self) -> str:
        """As RBAC and error messages name it: `pods`, `reservations.scheduling.koordinator.sh`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, name: str = "", *, namespace: str = "", subresource: str = "") -> str:
        """The URL path of one object, or of the collection (of all namespaces where none is given)."""
        parts = ["apis", self.group, self.version] if self.group else ["api", self.version]
        if namespace and self.namespaced:
            parts += ["namespaces", quote(namespace, safe="")]
        parts.append(self.plural)
        if name:
            parts.append(quote(name, safe=""))
        if subresource:
            parts.append(subresource)
        return "/" + "/".join(parts)

    def manifest(self, obj: T) -> dict[str, object]:
        """`obj` as plain data with apiVersion and kind, ready to be sent or printed."""
        body = msgspec.to_builtins(obj, str_keys=True)
        return {"apiVersion": self.api_version, "kind": self.kind, **body}

    def __str__(self) -> str:
        return self.kind

    def __repr__(self) -> str:
        return f"Kind({self.api_version} {self.kind})"


PODS: Final[Kind[Pod]] = Kind("", "v1", "Pod", "pods", True, "koord.api.kubernetes.pod:Pod")
NODES: Final[Kind[Node]] = Kind("", "v1", "Node", "nodes", False, "koord.api.kubernetes.node:Node")
NAMESPACES: Final[Kind[Namespace]] = Kind(
    "", "v1", "Namespace", "namespaces", False, "koord.api.kubernetes.core:Namespace"
)
CONFIG_MAPS: Final[Kind[ConfigMap]] = Kind(
    "", "v1", "ConfigMap", "configmaps", True, "koord.api.kubernetes.core:ConfigMap"
)
SECRETS: Final[Kind[Secret]] = Kind("", "v1", "Secret", "secrets", True, "koord.api.kubernetes.core:Secret")
SERVICES: Final[Kind[Service]] = Kind("", "v1", "Service", "services", True, "koord.api.kubernetes.core:Service")
SERVICE_ACCOUNTS: Final[Kind[ServiceAccount]] = Kind(
    "", "v1", "ServiceAccount", "serviceaccounts", True, "koord.api.kubernetes.core:ServiceAccount"
)
REPLICATION_CONTROLLERS: Final[Kind[ReplicationController]] = Kind(
    "",
    "v1",
    "ReplicationController",
    "replicationcontrollers",
    True,
    "koord.api.kubernetes.workloads:ReplicationController",
)
PERSISTENT_VOLUME_CLAIMS: Final[Kind[PersistentVolumeClaim]] = Kind(
    "",
    "v1",
    "PersistentVolumeClaim",
    "persistentvolumeclaims",
    True,
    "koord.api.kubernetes.storage:PersistentVolumeClaim",
)
PERSISTENT_VOLUMES: Final[Kind[PersistentVolume]] = Kind(
    "", "v1", "PersistentVolume", "persistentvolumes", False, "koord.api.kubernetes.storage:PersistentVolume"
)
EVENTS: Final[Kind[Event]] = Kind("events.k8s.io", "v1", "Event", "events", True, "koord.api.kubernetes.core:Event")
LEASES: Final[Kind[Lease]] = Kind(
    "coordination.k8s.io", "v1", "Lease", "leases", True, "koord.api.kubernetes.coordination:Lease"
)
PRIORITY_CLASSES: Final[Kind[PriorityClass]] = Kind(
    "scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", False, "koord.api.kubernetes.core:PriorityClass"
)
RUNTIME_CLASSES: Final[Kind[RuntimeClass]] = Kind(
    "node.k8s.io", "v1", "RuntimeClass", "runtimeclasses", False, "koord.api.kubernetes.core:RuntimeClass"
)
LIMIT_RANGES: Final[Kind[LimitRange]] = Kind(
    "", "v1", "LimitRange", "limitranges", True, "koord.api.kubernetes.core:LimitRange"
)
ENDPOINT_SLICES: Final[Kind[EndpointSlice]] = Kind(
    "discovery.k8s.io", "v1", "EndpointSlice", "endpointslices", True, "koord.api.kubernetes.discovery:EndpointSlice"
)
CRON_JOBS: Final[Kind[CronJob]] = Kind(
    "batch", "v1", "CronJob", "cronjobs", True, "koord.api.kubernetes.workloads:CronJob"
)
DEPLOYMENTS: Final[Kind[Deployment]] = Kind(
    "apps", "v1", "Deployment", "deployments", True, "koord.api.kubernetes.workloads:Deployment"
)
REPLICA_SETS: Final[Kind[ReplicaSet]] = Kind(
    "apps", "v1", "ReplicaSet", "replicasets", True, "koord.api.kubernetes.workloads:ReplicaSet"
)
STATEFUL_SETS: Final[Kind[StatefulSet]] = Kind(
    "apps", "v1", "StatefulSet", "statefulsets", True, "koord.api.kubernetes.workloads:StatefulSet"
)
DAEMON_SETS: Final[Kind[DaemonSet]] = Kind(
    "apps", "v1", "DaemonSet", "daemonsets", True, "koord.api.kubernetes.workloads:DaemonSet"
)
CONTROLLER_REVISIONS: Final[Kind[ControllerRevision]] = Kind(
    "apps", "v1", "ControllerRevision", "controllerrevisions", True, "koord.api.kubernetes.workloads:ControllerRevision"
)
JOBS: Final[Kind[Job]] = Kind("batch", "v1", "Job", "jobs", True, "koord.api.kubernetes.workloads:Job")
POD_DISRUPTION_BUDGETS: Final[Kind[PodDisruptionBudget]] = Kind(
    "policy",
    "v1",
    "PodDisruptionBudget",
    "poddisruptionbudgets",
    True,
    "koord.api.kubernetes.policy:PodDisruptionBudget",
)
STORAGE_CLASSES: Final[Kind[StorageClass]] = Kind(
    "storage.k8s.io", "v1", "StorageClass", "storageclasses", False, "koord.api.kubernetes.storage:StorageClass"
)
CSI_NODES: Final[Kind[CSINode]] = Kind(
    "storage.k8s.io", "v1", "CSINode", "csinodes", False, "koord.api.kubernetes.storage:CSINode"
)
CSI_DRIVERS: Final[Kind[CSIDriver]] = Kind(
    "storage.k8s.io", "v1", "CSIDriver", "csidrivers", False, "koord.api.kubernetes.storage:CSIDriver"
)
CSI_STORAGE_CAPACITIES: Final[Kind[CSIStorageCapacity]] = Kind(
    "storage.k8s.io",
    "v1",
    "CSIStorageCapacity",
    "csistoragecapacities",
    True,
    "koord.api.kubernetes.storage:CSIStorageCapacity",
)
MUTATING_WEBHOOK_CONFIGURATIONS: Final[Kind[MutatingWebhookConfiguration]] = Kind(
    "admissionregistration.k8s.io",
    "v1",
    "MutatingWebhookConfiguration",
    "mutatingwebhookconfigurations",
    False,
    "koord.api.kubernetes.admissionregistration:MutatingWebhookConfiguration",
)
VALIDATING_WEBHOOK_CONFIGURATIONS: Final[Kind[ValidatingWebhookConfiguration]] = Kind(
    "admissionregistration.k8s.io",
    "v1",
    "ValidatingWebhookConfiguration",
    "validatingwebhookconfigurations",
    False,
    "koord.api.kubernetes.admissionregistration:ValidatingWebhookConfiguration",
)
CLUSTER_ROLES: Final[Kind[ClusterRole]] = Kind(
    "rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", False, "koord.api.kubernetes.rbac:ClusterRole"
)
CUSTOM_RESOURCE_DEFINITIONS: Final[Kind[CustomResourceDefinition]] = Kind(
    "apiextensions.k8s.io",
    "v1",
    "CustomResourceDefinition",
    "customresourcedefinitions",
    False,
    "koord.api.kubernetes.apiextensions:CustomResourceDefinition",
)

_DRA: Final = "koord.api.kubernetes.dynamic_resources"
RESOURCE_CLAIMS: Final[Kind[ResourceClaim]] = Kind(
    "resource.k8s.io", "v1", "ResourceClaim", "resourceclaims", True, f"{_DRA}:ResourceClaim"
)
RESOURCE_CLAIM_TEMPLATES: Final[Kind[ResourceClaimTemplate]] = Kind(
    "resource.k8s.io",
    "v1",
    "ResourceClaimTemplate",
    "resourceclaimtemplates",
    True,
    f"{_DRA}:ResourceClaimTemplate",
)
RESOURCE_SLICES: Final[Kind[ResourceSlice]] = Kind(
    "resource.k8s.io", "v1", "ResourceSlice", "resourceslices", False, f"{_DRA}:ResourceSlice"
)
DEVICE_CLASSES: Final[Kind[DeviceClass]] = Kind(
    "resource.k8s.io", "v1", "DeviceClass", "deviceclasses", False, f"{_DRA}:DeviceClass"
)
DEVICE_TAINT_RULES: Final[Kind[DeviceTaintRule]] = Kind(
    "resource.k8s.io", "v1", "DeviceTaintRule", "devicetaintrules", False, f"{_DRA}:DeviceTaintRule"
)

NODE_METRICS: Final[Kind[NodeMetric]] = Kind(
    "slo.koordinator.sh",
    "v1alpha1",
    "NodeMetric",
    "nodemetrics",
    False,
    "koord.api.protocol.crd.node_metric:NodeMetric",
)
NODE_SLOS: Final[Kind[NodeSLO]] = Kind(
    "slo.koordinator.sh", "v1alpha1", "NodeSLO", "nodeslos", False, "koord.api.protocol.crd.node_slo:NodeSLO"
)
RESERVATIONS: Final[Kind[Reservation]] = Kind(
    "scheduling.koordinator.sh",
    "v1alpha1",
    "Reservation",
    "reservations",
    False,
    "koord.api.protocol.crd.reservation:Reservation",
)
POD_MIGRATION_JOBS: Final[Kind[PodMigrationJob]] = Kind(
    "scheduling.koordinator.sh",
    "v1alpha1",
    "PodMigrationJob",
    "podmigrationjobs",
    False,
    "koord.api.protocol.crd.pod_migration_job:PodMigrationJob",
)
DEVICES: Final[Kind[Device]] = Kind(
    "scheduling.koordinator.sh", "v1alpha1", "Device", "devices", False, "koord.api.protocol.crd.device:Device"
)
CLUSTER_NETWORK_TOPOLOGIES: Final[Kind[ClusterNetworkTopology]] = Kind(
    "scheduling.koordinator.sh",
    "v1alpha1",
    "ClusterNetworkTopology",
    "clusternetworktopologies",
    False,
    "koord.api.protocol.crd.network_topology:ClusterNetworkTopology",
)
SCHEDULE_EXPLANATIONS: Final[Kind[ScheduleExplanation]] = Kind(
    "scheduling.koordinator.sh",
    "v1alpha1",
    "ScheduleExplanation",
    "scheduleexplanations",
    True,
    "koord.api.protocol.crd.schedule_explanation:ScheduleExplanation",
)
ELASTIC_QUOTA_PROFILES: Final[Kind[ElasticQuotaProfile]] = Kind(
    "quota.koordinator.sh",
    "v1alpha1",
    "ElasticQuotaProfile",
    "elasticquotaprofiles",
    True,
    "koord.api.protocol.crd.elastic_quota:ElasticQuotaProfile",
)
CLUSTER_COLOCATION_PROFILES: Final[Kind[ClusterColocationProfile]] = Kind(
    "config.koordinator.sh",
    "v1alpha1",
    "ClusterColocationProfile",
    "clustercolocationprofiles",
    False,
    "koord.api.protocol.crd.colocation_profile:ClusterColocationProfile",
)
RECOMMENDATIONS: Final[Kind[Recommendation]] = Kind(
    "analysis.koordinator.sh",
    "v1alpha1",
    "Recommendation",
    "recommendations",
    True,
    "koord.api.protocol.crd.recommendation:Recommendation",
)
INTERFERENCE_PAIRS: Final[Kind[InterferencePair]] = Kind(
    "analysis.koordinator.sh",
    "v1alpha1",
    "InterferencePair",
    "interferencepairs",
    False,
    "koord.api.protocol.crd.interference_pair:InterferencePair",
)
ELASTIC_QUOTAS: Final[Kind[ElasticQuota]] = Kind(
    "scheduling.sigs.k8s.io",
    "v1alpha1",
    "ElasticQuota",
    "elasticquotas",
    True,
    "koord.api.protocol.crd.elastic_quota:ElasticQuota",
)
POD_GROUPS: Final[Kind[PodGroup]] = Kind(
    "scheduling.sigs.k8s.io", "v1alpha1", "PodGroup", "podgroups", True, "koord.api.protocol.crd.pod_group:PodGroup"
)
NODE_RESOURCE_TOPOLOGIES: Final[Kind[NodeResourceTopology]] = Kind(
    "topology.node.k8s.io",
    "v1alpha1",
    "NodeResourceTopology",
    "noderesourcetopologies",
    False,
    "koord.api.protocol.crd.node_resource_topology:NodeResourceTopology",
)

BUILT_IN: Final[tuple[Kind[Any], ...]] = (
    PODS,
    NODES,
    NAMESPACES,
    CONFIG_MAPS,
    SECRETS,
    SERVICES,
    SERVICE_ACCOUNTS,
    REPLICATION_CONTROLLERS,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    EVENTS,
    LEASES,
    PRIORITY_CLASSES,
    RUNTIME_CLASSES,
    LIMIT_RANGES,
    ENDPOINT_SLICES,
    DEPLOYMENTS,
    REPLICA_SETS,
    STATEFUL_SETS,
    DAEMON_SETS,
    CONTROLLER_REVISIONS,
    JOBS,
    CRON_JOBS,
    POD_DISRUPTION_BUDGETS,
    STORAGE_CLASSES,
    CSI_NODES,
    CSI_DRIVERS,
    CSI_STORAGE_CAPACITIES,
    MUTATING_WEBHOOK_CONFIGURATIONS,
    VALIDATING_WEBHOOK_CONFIGURATIONS,
    CLUSTER_ROLES,
    CUSTOM_RESOURCE_DEFINITIONS,
)
"""What every Kubernetes has."""

DEVICES_BY_CLAIM: Final[tuple[Kind[Any], ...]] = (
    RESOURCE_CLAIMS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_SLICES,
    DEVICE_CLASSES,
    DEVICE_TAINT_RULES,
)
"""What Kubernetes has since 1.34; DeviceTaintRules in this version since 1.37."""

CUSTOM: Final[tuple[Kind[Any], ...]] = (
    NODE_METRICS,
    NODE_SLOS,
    RESERVATIONS,
    POD_MIGRATION_JOBS,
    DEVICES,
    CLUSTER_NETWORK_TOPOLOGIES,
    SCHEDULE_EXPLANATIONS,
    ELASTIC_QUOTA_PROFILES,
    CLUSTER_COLOCATION_PROFILES,
    RECOMMENDATIONS,
    INTERFERENCE_PAIRS,
    ELASTIC_QUOTAS,
    POD_GROUPS,
    NODE_RESOURCE_TOPOLOGIES,
)
"""What koord's CustomResourceDefinitions add."""

ALL: Final[tuple[Kind[Any], ...]] = (*BUILT_IN, *DEVICES_BY_CLAIM, *CUSTOM)


def find(api_version: str, kind: str) -> Kind[Any] | None:
    """The kind a manifest means by `apiVersion` and `kind`, if koord knows it."""
    return _by_name().get((api_version, kind))


def versions_of(kind: str) -> list[str]:
    """The values of `apiVersion` under which koord knows a kind of that name."""
    return sorted(version for version, name in _by_name() if name == kind)


@cache
def _by_name() -> dict[tuple[str, str], Kind[Any]]:
    return {(kind.api_version, kind.kind): kind for kind in ALL}
