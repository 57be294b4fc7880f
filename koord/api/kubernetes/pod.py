"""Pods, as far as koord decides by them.

The scheduler, manager, descheduler and agent hold very many of these, so a field that none of them reads is absent:
no environment, commands, probes, mounts or container IDs (on a pod's own node, it is read as a
`koord.api.kubernetes.runnable.RunnablePod`).
Times are RFC 3339 strings and resources are quantities, as sent; see `koord.api.kubernetes.resources` for numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec.structs import force_setattr

from koord.api.kubernetes.meta import ObjectMeta
from koord.api.kubernetes.words import (
    ConditionStatus,
    KubeQoS,
    NodeInclusion,
    PodConditionType,
    PodPhase,
    PreemptionPolicy,
    Protocol,
    RestartPolicy,
    SchedulerName,
    TaintEffect,
    TaintKey,
    TolerationOperator,
    TopologyKey,
    WhenUnsatisfiable,
)
from koord.api.machinery.struct import EMPTY, Struct
from koord.api.text.quantity import ResourceList
from koord.api.text.selector import LabelSelector, NodeSelector, NodeSelectorTerm


class ResourceClaimUse(Struct):
    """A container's use of one of its pod's resource claims."""

    name: str
    request: str = ""


class ResourceRequirements(Struct):
    requests: ResourceList = EMPTY
    limits: ResourceList = EMPTY
    claims: tuple[ResourceClaimUse, ...] = ()

    def __post_init__(self) -> None:
        # The pods of one workload have equal requests: sharing their maps saves a sixth of a pod's memory.
        if self.requests:
            force_setattr(self, "requests", _shared(self.requests))
        if self.limits:
            force_setattr(self, "limits", _shared(self.limits))


_known_amounts: dict[tuple[tuple[str, object], ...], ResourceList] = {}
_AMOUNTS_KEPT: Final = 16384


def _shared(amounts: ResourceList) -> ResourceList:
    """The first map that was equal to this one. Bounded: what is dropped is only no longer shared with what comes."""
    key = tuple(amounts.items())
    stored_known = _known_amounts.get(key)
    if stored_known is None:
        if len(_known_amounts) >= _AMOUNTS_KEPT:
            _known_amounts.clear()
        stored_known = _known_amounts[key] = amounts
    return stored_known


class ContainerPort(Struct):
    container_port: int = 0
    host_port: int = 0
    host_ip: str = ""
    protocol: Protocol = Protocol.TCP
    name: str = ""


class Container(Struct):
    name: str
    image: str = ""
    ports: tuple[ContainerPort, ...] = ()
    resources: ResourceRequirements = ResourceRequirements()
    restart_policy: RestartPolicy | None = None

    @property
    def is_sidecar(self) -> bool:
        """Whether this, as an init container, goes on running beside the main containers."""
        return self.restart_policy is RestartPolicy.ALWAYS


class HostPathVolume(Struct):
    path: str = ""
    type: str = ""


class EmptyDirVolume(Struct):
    medium: str = ""


class ClaimVolume(Struct):
    claim_name: str = ""
    read_only: bool = False


class CsiVolume(Struct):
    driver: str = ""
    read_only: bool = False


class ClaimSpec(Struct):
    """What a persistent volume claim asks for."""

    access_modes: tuple[str, ...] = ()
    storage_class_name: str | None = None
    volume_name: str = ""
    volume_mode: str = "Filesystem"
    selector: LabelSelector | None = None
    resources: ResourceRequirements = ResourceRequirements()
    volume_attributes_class_name: str | None = None


class ClaimTemplate(Struct):
    metadata: ObjectMeta = ObjectMeta()
    spec: ClaimSpec = ClaimSpec()


class EphemeralVolume(Struct):
    """A claim that lives and dies with the pod; its object is named `<pod>-<volume>`."""

    volume_claim_template: ClaimTemplate | None = None


class GceDiskVolume(Struct):
    pd_name: str = ""
    read_only: bool = False


class AwsDiskVolume(Struct):
    volume_id: str = ""
    read_only: bool = False


class AzureDiskVolume(Struct):
    disk_name: str = ""
    disk_uri: str = ""


class CinderVolume(Struct):
    volume_id: str = ""
    read_only: bool = False


class IscsiVolume(Struct):
    iqn: str = ""
    read_only: bool = False


class RbdVolume(Struct):
    monitors: tuple[str, ...] = ()
    image: str = ""
    pool: str = "rbd"
    read_only: bool = False


class Volume(Struct):
    """One volume; at most one of the sources is set. A source that no decision looks at leaves all unset."""

    name: str
    persistent_volume_claim: ClaimVolume | None = None
    ephemeral: EphemeralVolume | None = None
    csi: CsiVolume | None = None
    host_path: HostPathVolume | None = None
    empty_dir: EmptyDirVolume | None = None
    gce_persistent_disk: GceDiskVolume | None = None
    aws_elastic_block_store: AwsDiskVolume | None = None
    azure_disk: AzureDiskVolume | None = None
    cinder: CinderVolume | None = None
    iscsi: IscsiVolume | None = None
    rbd: RbdVolume | None = None


class Toleration(Struct):
    key: TaintKey = TaintKey.ANY
    operator: TolerationOperator = TolerationOperator.EQUAL
    value: str = ""
    effect: TaintEffect = TaintEffect.ALL
    toleration_seconds: int | None = None


class PreferredSchedulingTerm(Struct):
    weight: int
    preference: NodeSelectorTerm


class NodeAffinity(Struct):
    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredSchedulingTerm, ...] = ()


class PodAffinityTerm(Struct):
    topology_key: TopologyKey
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(Struct):
    weight: int
    pod_affinity_term: PodAffinityTerm


class PodAffinity(Struct):
    """Affinity to pods, or anti-affinity: the two have one form."""

    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTerm, ...] = ()
    preferred_during_scheduling_ignored_during_execution: tuple[WeightedPodAffinityTerm, ...] = ()


class Affinity(Struct):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TopologySpreadConstraint(Struct):
    max_skew: int
    topology_key: TopologyKey
    when_unsatisfiable: WhenUnsatisfiable
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: NodeInclusion = NodeInclusion.HONOR
    node_taints_policy: NodeInclusion = NodeInclusion.IGNORE
    match_label_keys: tuple[str, ...] = ()


class SchedulingGate(Struct):
    name: str


class PodResourceClaim(Struct):
    name: str
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodSpec(Struct):
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    volumes: tuple[Volume, ...] = ()
    node_name: str = ""
    node_selector: Mapping[str, str] = EMPTY
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    scheduler_name: SchedulerName = SchedulerName.DEFAULT
    scheduling_gates: tuple[SchedulingGate, ...] = ()
    priority_class_name: str = ""
    priority: int | None = None
    preemption_policy: PreemptionPolicy = PreemptionPolicy.PREEMPT_LOWER_PRIORITY
    resources: ResourceRequirements | None = None
    resource_claims: tuple[PodResourceClaim, ...] = ()
    overhead: ResourceList = EMPTY
    runtime_class_name: str = ""
    host_network: bool = False
    restart_policy: RestartPolicy = RestartPolicy.ALWAYS
    termination_grace_period_seconds: int | None = None
    active_deadline_seconds: int | None = None


class PodCondition(Struct):
    type: PodConditionType
    status: ConditionStatus
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class ContainerWaiting(Struct):
    reason: str = ""
    message: str = ""


class ContainerRunning(Struct):
    started_at: str | None = None


class ContainerTerminated(Struct):
    exit_code: int = 0
    reason: str = ""
    message: str = ""
    started_at: str | None = None
    finished_at: str | None = None


class ContainerState(Struct):
    """Where a container is; exactly one is set, and none means waiting."""

    waiting: ContainerWaiting | None = None
    running: ContainerRunning | None = None
    terminated: ContainerTerminated | None = None


class ContainerStatus(Struct):
    name: str
    ready: bool = False
    started: bool | None = None
    restart_count: int = 0
    state: ContainerState = ContainerState()
    resources: ResourceRequirements | None = None
    allocated_resources: ResourceList = EMPTY


class PodResourceClaimStatus(Struct):
    """Which claim was made for an entry of spec.resourceClaims. None: it needs no claim."""

    name: str
    resource_claim_name: str | None = None


class PodStatus(Struct):
    phase: PodPhase = PodPhase.PENDING
    conditions: tuple[PodCondition, ...] = ()
    reason: str = ""
    message: str = ""
    nominated_node_name: str = ""
    pod_ip: str = ""
    start_time: str | None = None
    qos_class: KubeQoS | None = None
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    ephemeral_container_statuses: tuple[ContainerStatus, ...] = ()
    resources: ResourceRequirements | None = None
    allocated_resources: ResourceList = EMPTY
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()

    def condition(self, type_: str) -> PodCondition | None:
        return next((condition for condition in self.conditions if condition.type == type_), None)


FINISHED: Final = (PodPhase.SUCCEEDED, PodPhase.FAILED)
"""Phases of pods that hold no resources any more."""


class Pod(Struct):
    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def is_finished(self) -> bool:
        """Whether it has run to its end: it holds no resources any more."""
        return self.status.phase in FINISHED


class PodTemplateSpec(Struct):
    """The pods that a workload makes, as far as koord decides by them."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
