"""What each component may do on a cluster, and why. Roles, examples and docs are generated from these tables.

A right holds in the whole cluster, or in one namespace. The right to create cannot be limited to a name, since the
server decides before it knows the name: so objects with fixed names are created at installation, and components may
only change them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from koord.api.configuration.features import AgentGate, Gate, ManagerGate, SchedulerGate
from koord.api.protocol import names

READ: Final = ("get", "list", "watch")
WATCH: Final = ("list", "watch")

Where = Literal["cluster", "configuration", "own", "authentication"]
"""The whole cluster, the namespace of the configuration and the leases, that of the workloads, or kube-system."""


@dataclass(frozen=True, slots=True)
class Right:
    why: str
    resources: tuple[str, ...]
    "The group follows a dot, as in `reservations.scheduling.koordinator.sh`; a subresource follows a slash."
    verbs: tuple[str, ...]
    named: tuple[str, ...] = ()
    "Limits the right to objects with these names."
    where: Where = "cluster"
    gate: Gate | None = None
    "The right is needed only with this gate."
    only_if: Literal["", "old_kubelets", "new_kubelets"] = ""


SCHEDULING: Final = "scheduling.koordinator.sh"
SLO: Final = "slo.koordinator.sh"
SIGS: Final = "scheduling.sigs.k8s.io"
QUOTA: Final = "quota.koordinator.sh"
ANALYSIS: Final = "analysis.koordinator.sh"
DEVICES_BY_CLAIM: Final = "resource.k8s.io"
LEASES: Final = "leases.coordination.k8s.io"


def _lease(name: str) -> tuple[Right, ...]:
    return (
        Right("find, follow and renew its lease", (LEASES,), ("get", "watch", "patch"), (name,), "configuration"),
        Right("take its lease the first time", (LEASES,), ("create",), (), "configuration"),
    )


EVENTS: Final = Right("say what happens, in events", ("events.events.k8s.io",), ("create", "patch"))

SERVING: Final = (
    Right(
        "ask who reads its metrics, and whether they may",
        ("tokenreviews.authentication.k8s.io", "subjectaccessreviews.authorization.k8s.io"),
        ("create",),
    ),
    Right(
        "take client certificates of the API server's authority",
        ("configmaps",),
        ("get",),
        ("extension-apiserver-authentication",),
        "authentication",
    ),
)

SCHEDULED_BY: Final = (
    Right(
        "know what there is to place, and where",
        ("nodes", "namespaces", "pods", "services", "replicationcontrollers"),
        READ,
    ),
    Right("place pods where their volumes are", ("persistentvolumeclaims", "persistentvolumes"), READ),
    Right(
        "place pods where their volumes can be",
        tuple(
            f"{resource}.storage.k8s.io"
            for resource in ("storageclasses", "csinodes", "csidrivers", "csistoragecapacities")
        ),
        READ,
    ),
    Right(
        "know which devices there are, and who claims them",
        tuple(
            f"{resource}.{DEVICES_BY_CLAIM}"
            for resource in ("resourceclaims", "resourceslices", "deviceclasses", "devicetaintrules")
        ),
        READ,
    ),
    Right("spread the pods of a workload", ("replicasets.apps", "statefulsets.apps"), READ),
    Right("keep disruption budgets", ("poddisruptionbudgets.policy",), READ),
    Right("place jobs and keep quotas", (f"podgroups.{SIGS}", f"elasticquotas.{SIGS}"), READ),
    Right("keep what is reserved", (f"reservations.{SCHEDULING}",), READ),
    Right(
        "know devices and the network",
        (f"devices.{SCHEDULING}", f"clusternetworktopologies.{SCHEDULING}"),
        READ,
    ),
    Right("know what nodes use and when their agents act", (f"nodemetrics.{SLO}", f"nodeslos.{SLO}"), READ),
    Right("know NUMA nodes and CPUs", ("noderesourcetopologies.topology.node.k8s.io",), READ),
    Right("know which workloads disturb each other", (f"interferencepairs.{ANALYSIS}",), READ),
    Right(
        "know which parts of NPUs may be asked for",
        ("configmaps",),
        READ,
        (names.CONFIGMAP_GPU_SHARED_RESOURCE_TEMPLATES,),
        "configuration",
    ),
)

SCHEDULER: Final = (
    *SCHEDULED_BY,
    Right("bind pods", ("pods/binding",), ("create",)),
    Right("say why pods wait, and tell pods that must go", ("pods/status",), ("patch",)),
    Right("write on pods what they get; let less important pods make room", ("pods",), ("patch", "delete")),
    Right("take back what a quota lent (monitorAllQuotas)", ("pods/eviction",), ("create",)),
    Right("let volumes be bound", ("persistentvolumeclaims", "persistentvolumes"), ("patch",)),
    Right("give devices to claims", (f"resourceclaims.{DEVICES_BY_CLAIM}",), ("patch",)),
    Right(
        "say in claims which devices they have",
        (f"resourceclaims.{DEVICES_BY_CLAIM}/status", f"resourceclaims.{DEVICES_BY_CLAIM}/binding"),
        ("patch",),
    ),
    Right("keep the state of jobs", (f"podgroups.{SIGS}",), ("patch",)),
    Right(
        "make the default quotas, keep what quotas use",
        (f"elasticquotas.{SIGS}",),
        ("create", "patch"),
    ),
    Right("keep what quotas use", (f"elasticquotas.{SIGS}/status",), ("patch",)),
    Right("place and end reservations", (f"reservations.{SCHEDULING}",), ("patch", "delete")),
    Right(
        "keep the state of reservations and networks",
        (f"reservations.{SCHEDULING}/status", f"clusternetworktopologies.{SCHEDULING}/status"),
        ("patch",),
    ),
    Right("lock nodes of some vendors for one pod", ("nodes",), ("patch",), gate=SchedulerGate.DEVICE_PLUGIN_ADAPTION),
    Right(
        "keep nodes with reservations from autoscalers",
        ("nodes",),
        ("patch",),
        gate=SchedulerGate.RESERVATIONS_KEEP_NODES,
    ),
    EVENTS,
    Right(
        "take its lease, see those of other schedulers, and announce its scheduler names",
        (LEASES,),
        (*READ, "create", "patch"),
        (),
        "configuration",
    ),
    *SERVING,
)

DESCHEDULER: Final = (
    *SCHEDULED_BY,
    Right("know how many replicas workloads have", ("deployments.apps",), READ),
    Right("know which jobs must not be disturbed", ("jobs.batch",), READ),
    Right("know how important pods are", ("priorityclasses.scheduling.k8s.io",), READ),
    Right(
        "know how many replicas workloads of other kinds have",
        ("clonesets.apps.kruise.io/scale", "statefulsets.apps.kruise.io/scale"),
        ("get",),
    ),
    Right(
        "know when agents evict: its own marks must be below",
        ("configmaps",),
        ("get",),
        (names.CONFIGMAP_SLO_CONTROLLER,),
        "configuration",
    ),
    Right(
        "ask for moves, and keep their state", (f"podmigrationjobs.{SCHEDULING}",), (*READ, "create", "patch", "delete")
    ),
    Right("keep the state of moves", (f"podmigrationjobs.{SCHEDULING}/status",), ("update",)),
    Right("hold room for moves", (f"reservations.{SCHEDULING}",), ("create", "patch", "delete")),
    Right("evict pods", ("pods/eviction",), ("create",)),
    Right("note on nodes whom they lost; cordon them (CustomPriority)", ("nodes",), ("patch",)),
    Right("tell pods that must go", ("pods/status",), ("patch",)),
    Right("move pods with the evict policies Delete and SoftEviction", ("pods",), ("patch", "delete")),
    Right("replace pods of Deployments before they go", ("deployments.apps",), ("patch",)),
    Right("leave Deployments alone that an autoscaler has", ("horizontalpodautoscalers.autoscaling",), ("list",)),
    EVENTS,
    *_lease(names.LEASE_DESCHEDULER),
    *SERVING,
)

MANAGER: Final = (
    Right("know what nodes have, and which pods are on them", ("nodes", "pods"), READ),
    Right("publish what nodes lend", ("nodes/status", "nodes"), ("patch",)),
    Right(
        "keep one of each for every node",
        (f"nodemetrics.{SLO}", f"nodeslos.{SLO}"),
        (*READ, "create", "patch", "delete"),
    ),
    Right("publish what NUMA nodes lend", ("noderesourcetopologies.topology.node.k8s.io",), (*READ, "patch")),
    Right("publish devices", (f"devices.{SCHEDULING}",), READ),
    Right("judge pods by their namespaces and priorities", ("namespaces", "priorityclasses.scheduling.k8s.io"), READ),
    Right("make pods what profiles say", ("clustercolocationprofiles.config.koordinator.sh",), READ),
    Right("make waiting pods what profiles say", ("pods",), ("patch",), gate=ManagerGate.COLOCATION_PROFILE_CONTROLLER),
    Right("keep quota trees", (f"elasticquotas.{SIGS}",), (*READ, "create", "patch")),
    Right(
        "ask whether who writes a quota may list the namespaces in it",
        ("subjectaccessreviews.authorization.k8s.io",),
        ("create",),
    ),
    Right("make quotas from profiles", (f"elasticquotaprofiles.{QUOTA}",), (*READ, "patch")),
    Right("say what workloads should request", (f"recommendations.{ANALYSIS}",), READ),
    Right("say what workloads should request", (f"recommendations.{ANALYSIS}/status",), ("patch",)),
    Right(
        "learn which workloads disturb each other",
        (f"interferencepairs.{ANALYSIS}",),
        (*READ, "create", "patch", "delete"),
    ),
    Right("report that no component fills them in", (f"scheduleexplanations.{SCHEDULING}",), WATCH),
    Right(
        "keep its webhooks registered",
        (
            "mutatingwebhookconfigurations.admissionregistration.k8s.io",
            "validatingwebhookconfigurations.admissionregistration.k8s.io",
        ),
        (*READ, "patch"),
        (names.WEBHOOK_MUTATING_CONFIGURATION, names.WEBHOOK_VALIDATING_CONFIGURATION),
    ),
    Right(
        "keep the webhooks' certificates", ("secrets",), (*READ, "patch"), (names.SECRET_WEBHOOK_CERTIFICATES,), "own"
    ),
    Right(
        "follow the configuration, and say what is wrong with it",
        ("configmaps",),
        (*READ, "patch"),
        (names.CONFIGMAP_SLO_CONTROLLER,),
        "configuration",
    ),
    Right(
        "say what is in force while the configuration is invalid",
        ("configmaps",),
        (*READ, "patch", "delete"),
        (names.CONFIGMAP_SLO_IN_FORCE,),
        "configuration",
    ),
    Right("say what is in force while the configuration is invalid", ("configmaps",), ("create",), (), "configuration"),
    Right("have roll-outs go on", ("configmaps",), (*READ, "patch"), (names.CONFIGMAP_ROLLOUTS,), "configuration"),
    Right(
        "follow the rules for pods",
        ("configmaps",),
        READ,
        (names.CONFIGMAP_POD_ENHANCED_VALIDATOR,),
        "configuration",
        gate=ManagerGate.ENABLE_POD_ENHANCED_VALIDATOR,
    ),
    EVENTS,
    *_lease(names.LEASE_MANAGER),
    *SERVING,
)

AGENT: Final = (
    Right("know its node, and note evictions on it", ("nodes",), (*READ, "patch")),
    Right("know what it may do", (f"nodeslos.{SLO}",), READ),
    Right("report usage", (f"nodemetrics.{SLO}",), READ),
    Right("report usage", (f"nodemetrics.{SLO}/status",), ("patch",)),
    Right("report CPUs and NUMA nodes", ("noderesourcetopologies.topology.node.k8s.io",), (*READ, "create", "patch")),
    Right("report devices", (f"devices.{SCHEDULING}",), (*READ, "create", "patch")),
    Right("ask its kubelet for pods and settings", ("nodes/pods", "nodes/configz"), ("get",), only_if="new_kubelets"),
    Right("ask its kubelet for pods and settings", ("nodes/proxy",), ("get",), only_if="old_kubelets"),
    Right("evict pods", ("pods/eviction",), ("create",)),
    Right("look at pods before they are evicted", ("pods",), ("get",)),
    Right("tell pods that must go", ("pods/status",), ("patch",)),
    Right("compare a pod with its replicas", ("pods",), ("list",), gate=AgentGate.INTERFERENCE_DETECTION),
    Right("compare a pod with its replicas", ("pods",), ("list",), gate=AgentGate.INTERFERENCE_CONTROL),
    Right(
        "have pods moved that suffer",
        (f"podmigrationjobs.{SCHEDULING}",),
        ("create",),
        gate=AgentGate.INTERFERENCE_CONTROL,
    ),
    EVENTS,
    *SERVING,
)

BY_COMPONENT: Final = {"manager": MANAGER, "scheduler": SCHEDULER, "descheduler": DESCHEDULER, "agent": AGENT}
