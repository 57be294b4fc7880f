"""The CustomResourceDefinitions of koord's kinds, for `koord crds` and for servers of those kinds.

The registry in `koord.api.kinds` says where a kind lives and which type reads it; this table adds what only a
definition says: short names, subresources, versions, and the columns that `kubectl get` prints. The columns are
chosen to answer "is it fine, and if not, why?". Those marked wide are printed with `-o wide` only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

from koord.api import kinds
from koord.api.kinds import Kind
from koord.api.machinery.schema import resource_schema

CATEGORY: Final = "koord"
"""`kubectl get koord` lists the objects of all these kinds."""

_APPROVAL: Final = "api-approved.kubernetes.io"
_PLUGINS_APPROVAL: Final = "https://github.com/kubernetes-sigs/scheduler-plugins/pull/52"
_TOPOLOGY_APPROVAL: Final = "https://github.com/kubernetes/enhancements/pull/1870"


@dataclass(frozen=True, slots=True)
class Column:
    """One column of `kubectl get`. Where its path finds several values, the first is printed."""

    name: str
    path: str
    type: Literal["string", "integer", "number", "boolean", "date"] = "string"
    wide: bool = False
    description: str = ""


AGE: Final = Column("Age", ".metadata.creationTimestamp", "date")


@dataclass(frozen=True, slots=True)
class Definition:
    """What a CustomResourceDefinition says beyond its kind and schema. `kind.version` is always served."""

    kind: Kind[Any]
    columns: tuple[Column, ...]
    short_names: tuple[str, ...] = ()
    has_status: bool = True
    """Whether status is written through a subresource of its own."""
    stored_version: str = ""
    """The version that is stored, where that is not `kind.version`. Both are served, with the same schema."""
    approval: str = ""
    """Where the kind was approved; the API server asks for it in groups under k8s.io."""

    @property
    def name(self) -> str:
        return self.kind.resource

    def names(self) -> frozenset[str]:
        """All that a user may call the kind, in lower case."""
        kind = self.kind
        return frozenset((kind.kind.lower(), kind.plural, kind.resource, *self.short_names))


DEFINITIONS: Final[tuple[Definition, ...]] = (
    Definition(
        kinds.CLUSTER_COLOCATION_PROFILES,
        (
            Column("QoS", ".spec.qosClass"),
            Column("PriorityClass", ".spec.priorityClassName"),
            Column("Scheduler", ".spec.schedulerName"),
            Column("Probability", ".spec.probability", description="Share of the matching pods that get the profile."),
            Column("Selector", ".spec.selector.matchLabels", wide=True),
            Column("NamespaceSelector", ".spec.namespaceSelector.matchLabels", wide=True),
            Column("Labels", ".spec.labels", wide=True),
            AGE,
        ),
    ),
    Definition(
        kinds.NODE_METRICS,
        (
            Column("CPU", ".status.nodeMetric.nodeUsage.resources.cpu", description="CPU that the node uses."),
            Column("Memory", ".status.nodeMetric.nodeUsage.resources.memory", description="Memory that the node uses."),
            Column("Reported", ".status.updateTime", "date", description="How long ago the agent last reported."),
            Column("SystemCPU", ".status.nodeMetric.systemUsage.resources.cpu", wide=True),
            Column("SystemMemory", ".status.nodeMetric.systemUsage.resources.memory", wide=True),
            Column("ReclaimableCPU", ".status.prodReclaimableMetric.resource.resources.cpu", wide=True),
            Column("ReclaimableMemory", ".status.prodReclaimableMetric.resource.resources.memory", wide=True),
            Column("Interval", ".spec.metricCollectPolicy.reportIntervalSeconds", "integer", wide=True),
            AGE,
        ),
    ),
    Definition(
        kinds.NODE_SLOS,
        (
            Column(
                "Enabled",
                ".spec.resourceUsedThresholdWithBE.enable",
                "boolean",
                description="Whether best-effort pods are suppressed and evicted.",
            ),
            Column("CPUSuppress%", ".spec.resourceUsedThresholdWithBE.cpuSuppressThresholdPercent", "integer"),
            Column("MemoryEvict%", ".spec.resourceUsedThresholdWithBE.memoryEvictThresholdPercent", "integer"),
            Column("CPUBurst", ".spec.cpuBurstStrategy.policy"),
            Column("CPUSuppressPolicy", ".spec.resourceUsedThresholdWithBE.cpuSuppressPolicy", wide=True),
            Column("CPUEvict%", ".spec.resourceUsedThresholdWithBE.cpuEvictThresholdPercent", "integer", wide=True),
            Column("CPUQoS", ".spec.resourceQOSStrategy.beClass.cpuQOS.enable", "boolean", wide=True),
            Column("MemoryQoS", ".spec.resourceQOSStrategy.beClass.memoryQOS.enable", "boolean", wide=True),
            AGE,
        ),
    ),
    Definition(
        kinds.RESERVATIONS,
        (
            Column("Phase", ".status.phase", description="Pending, Waiting, Available, Succeeded or Failed."),
            Column("Reason", ".status.conditions[-1:].reason", description="Why the reservation is in its phase."),
            Column("Node", ".status.nodeName"),
            Column("TTL", ".spec.ttl"),
            Column("Expires", ".spec.expires"),
            Column("CPU", ".status.allocatable.cpu", wide=True),
            Column("CPUAllocated", ".status.allocated.cpu", wide=True),
            Column("Memory", ".status.allocatable.memory", wide=True),
            Column("MemoryAllocated", ".status.allocated.memory", wide=True),
            Column("Owner", ".status.currentOwners[0].name", wide=True, description="The first pod that uses it."),
            Column("Message", ".status.conditions[-1:].message", wide=True),
            AGE,
        ),
    ),
    Definition(
        kinds.POD_MIGRATION_JOBS,
        (
            Column("Phase", ".status.phase", description="Pending, Running, Succeeded, Failed or Aborted."),
            Column("Status", ".status.status", description="The latest step."),
            Column("Reason", ".status.reason", description="Why the job is where it is."),
            Column("Node", ".status.nodeName", description="Node that the pod moves to."),
            Column("Reservation", ".spec.reservationOptions.reservationRef.name"),
            Column("PodNamespace", ".spec.podRef.namespace"),
            Column("Pod", ".spec.podRef.name"),
            Column("NewPod", ".status.podRef.name"),
            Column("TTL", ".spec.ttl"),
            Column("Mode", ".spec.mode", wide=True),
            Column("Message", ".status.message", wide=True),
            AGE,
        ),
        short_names=("pmj",),
    ),
    Definition(
        kinds.DEVICES,
        (
            Column("Type", ".spec.devices[0].type", description="Kind of the first device."),
            Column("Model", r".metadata.labels.node\.koordinator\.sh/gpu-model"),
            Column(
                "Unhealthy",
                ".spec.devices[?(@.health==false)].minor",
                "integer",
                description="The first device that does not work; empty if all do.",
            ),
            Column("Reason", ".spec.devices[?(@.health==false)].conditions[0].message", description="Why it does not."),
            Column("Driver", r".metadata.labels.node\.koordinator\.sh/gpu-driver-version", wide=True),
            Column("Resources", ".spec.devices[0].resources", wide=True),
            AGE,
        ),
        has_status=False,
    ),
    Definition(
        kinds.CLUSTER_NETWORK_TOPOLOGIES,
        (
            Column("TopLayer", ".spec.networkTopologySpec[0].topologyLayer"),
            Column("Layers", ".spec.networkTopologySpec", wide=True),
            Column(
                "Nodes",
                '.status.detailStatus[?(@.topologyInfo.topologyLayer=="ClusterTopologyLayer")].nodeNum',
                "integer",
                description="Nodes that have a place in the topology.",
            ),
            AGE,
        ),
    ),
    Definition(
        kinds.SCHEDULE_EXPLANATIONS,
        (
            Column("Object", ".spec.questionObjectKey", description="What is asked about."),
            Column("Schedulable", ".status.schedulable", "boolean"),
            Column("AfterPreemption", ".status.schedulableAfterPreemption", "boolean"),
            Column("Reason", ".status.failedMessage", description="Why it cannot be scheduled."),
            Column("Updated", ".status.lastUpdateTime", "date"),
            Column("TTL", ".spec.ttl", wide=True),
            AGE,
        ),
        short_names=("sched-exp",),
    ),
    Definition(
        kinds.ELASTIC_QUOTA_PROFILES,
        (
            Column("Quota", ".spec.quotaName"),
            Column("Ratio", ".spec.resourceRatio"),
            Column("Tree", r".metadata.labels.quota\.scheduling\.koordinator\.sh/tree-id"),
            Column("NodeSelector", ".spec.nodeSelector.matchLabels", wide=True),
            AGE,
        ),
        short_names=("eqp",),
        has_status=False,
    ),
    Definition(
        kinds.RECOMMENDATIONS,
        (
            Column("Type", ".spec.target.type"),
            Column("Kind", ".spec.target.workload.kind"),
            Column("Name", ".spec.target.workload.name"),
            Column("Container", ".status.podStatus.containerStatuses[0].containerName", description="The first one."),
            Column("CPU", ".status.podStatus.containerStatuses[0].resources.cpu"),
            Column("Memory", ".status.podStatus.containerStatuses[0].resources.memory"),
            Column(
                "Problem",
                '.status.conditions[?(@.status=="True")].type',
                description="Why the recommendation is missing or not to be trusted.",
            ),
            Column("LastUpdateTime", ".status.updateTime", "date"),
            Column("Message", '.status.conditions[?(@.status=="True")].message', wide=True),
            AGE,
        ),
        short_names=("recom",),
    ),
    Definition(
        kinds.INTERFERENCE_PAIRS,
        (
            Column("VictimNamespace", ".spec.victim.namespace"),
            Column("Victim", ".spec.victim.name", description="Whose pods are slowed down."),
            Column("CulpritNamespace", ".spec.culprit.namespace"),
            Column("Culprit", ".spec.culprit.name", description="Whose pods slow them down."),
            Column("Weight", ".status.weight", "integer", description="Points that a node loses, 0 to 100."),
            Column("Seen", ".status.seen", "integer", description="How often agents found it so."),
            Column("LastSeen", ".status.lastSeen", "date"),
            Column("Signal", ".status.signal", wide=True, description="What the victim suffered from."),
            Column("Node", ".status.node", wide=True, description="Where it was last judged."),
            AGE,
        ),
        short_names=("ifpair",),
        has_status=False,
    ),
    Definition(
        kinds.ELASTIC_QUOTAS,
        (
            Column("Parent", r".metadata.labels.quota\.scheduling\.koordinator\.sh/parent"),
            Column("CPUUsed", ".status.used.cpu"),
            Column("CPUMin", ".spec.min.cpu"),
            Column("CPUMax", ".spec.max.cpu"),
            Column("MemoryUsed", ".status.used.memory"),
            Column("MemoryMin", ".spec.min.memory"),
            Column("MemoryMax", ".spec.max.memory"),
            Column("Tree", r".metadata.labels.quota\.scheduling\.koordinator\.sh/tree-id", wide=True),
            Column("Used", ".status.used", wide=True),
            Column("Runtime", r".metadata.annotations.quota\.scheduling\.koordinator\.sh/runtime", wide=True),
            AGE,
        ),
        has_status=False,
        approval=_PLUGINS_APPROVAL,
    ),
    Definition(
        kinds.POD_GROUPS,
        (
            Column("Phase", ".status.phase"),
            Column("MinMember", ".spec.minMember", "integer"),
            Column("Scheduled", ".status.scheduled", "integer"),
            Column("Running", ".status.running", "integer"),
            Column("Succeeded", ".status.succeeded", "integer"),
            Column("Failed", ".status.failed", "integer"),
            Column("Started", ".status.scheduleStartTime", "date", wide=True),
            Column("OccupiedBy", ".status.occupiedBy", wide=True),
            AGE,
        ),
        has_status=False,
        approval=_PLUGINS_APPROVAL,
    ),
    Definition(
        kinds.NODE_RESOURCE_TOPOLOGIES,
        (
            Column("Policy", ".topologyPolicies[0]", description="The kubelet's topology manager policy."),
            Column("LastZone", ".zones[-1:].name", description="The last part of the node."),
            Column("ManagedBy", r".metadata.labels.app\.kubernetes\.io/managed-by", wide=True),
            AGE,
        ),
        short_names=("node-res-topo",),
        has_status=False,
        stored_version="v1alpha2",
        approval=_TOPOLOGY_APPROVAL,
    ),
)


def find(name: str) -> Definition | None:
    """The definition that a user means by a kind, plural, short name or full name."""
    return next((definition for definition in DEFINITIONS if name.lower() in definition.names()), None)


def manifest(definition: Definition) -> dict[str, Any]:
    """The CustomResourceDefinition, as plain data."""
    kind = definition.kind
    stored = definition.stored_version or kind.version
    metadata: dict[str, Any] = {"name": definition.name}
    if definition.approval:
        metadata["annotations"] = {_APPROVAL: definition.approval}
    return {
        "apiVersion": kinds.CUSTOM_RESOURCE_DEFINITIONS.api_version,
        "kind": kinds.CUSTOM_RESOURCE_DEFINITIONS.kind,
        "metadata": metadata,
        "spec": {
            "group": kind.group,
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "names": {
                "kind": kind.kind,
                "listKind": f"{kind.kind}List",
                "plural": kind.plural,
                "singular": kind.kind.lower(),
                **({"shortNames": list(definition.short_names)} if definition.short_names else {}),
                "categories": [CATEGORY],
            },
            "versions": [_version(definition, version, stored) for version in sorted({kind.version, stored})],
        },
    }


def _version(definition: Definition, version: str, stored: str) -> dict[str, Any]:
    return {
        "name": version,
        "served": True,
        "storage": version == stored,
        **({"subresources": {"status": {}}} if definition.has_status else {}),
        "additionalPrinterColumns": [_column(column) for column in definition.columns],
        "schema": {"openAPIV3Schema": resource_schema(definition.kind.type)},
    }


def _column(column: Column) -> dict[str, Any]:
    return {
        "name": column.name,
        "type": column.type,
        "jsonPath": column.path,
        **({"description": column.description} if column.description else {}),
        **({"priority": 1} if column.wide else {}),
    }
