"""Feature gates: what each component can have switched on and off, and how `--feature-gates` says it.

One enumeration per component, so that asking the scheduler's gates for an agent's feature is a type error:
`gates = parse_gates(AgentGate, "AllAlpha=true,CPUBurst=false"); gates[AgentGate.CPU_BURST]`.
As in Kubernetes, a gate that is named beats `AllAlpha` and `AllBeta` wherever they stand, and the last of several
values counts.
"""

from __future__ import annotations

import difflib
from enum import Enum, StrEnum
from typing import Final, TypeVar

from koord.api.machinery.faults import BadInput


class Stage(StrEnum):
    ALPHA = "ALPHA"
    BETA = "BETA"
    GA = "GA"


class Gate(Enum):
    """Base of the components' gates. A member's value is (name on the command line, stage, default)."""

    def __init__(self, gate: str, stage: Stage, default: bool) -> None:
        self.gate: Final = gate
        self.stage: Final = stage
        self.default: Final = default

    def __str__(self) -> str:
        return self.gate


G = TypeVar("G", bound=Gate)


class SchedulerGate(Gate):
    DYNAMIC_SCHEDULER_CHECK = "DynamicSchedulerCheck", Stage.ALPHA, True
    GANG_PENDING_PODS_CONDITION_PATCH = "GangPendingPodsConditionPatch", Stage.BETA, True
    ENABLE_BATCH_SCHEDULE_NODE_SNAPSHOT = "EnableBatchScheduleNodeSnapshot", Stage.BETA, True
    CSI_STORAGE_CAPACITY = "CSIStorageCapacity", Stage.GA, True
    GENERIC_EPHEMERAL_VOLUME = "GenericEphemeralVolume", Stage.GA, True
    POD_DISRUPTION_BUDGET = "PodDisruptionBudget", Stage.GA, True
    COMPATIBLE_CSI_STORAGE_CAPACITY = "CompatibleCSIStorageCapacity", Stage.ALPHA, False
    COMPATIBLE_POD_DISRUPTION_BUDGET = "CompatiblePodDisruptionBudget", Stage.ALPHA, False
    DISABLE_CSI_STORAGE_CAPACITY_INFORMER = "DisableCSIStorageCapacityInformer", Stage.ALPHA, False
    DISABLE_POD_DISRUPTION_BUDGET_INFORMER = "DisablePodDisruptionBudgetInformer", Stage.ALPHA, False
    DISABLE_DYNAMIC_RESOURCE_ALLOCATION_INFORMER = "DisableDynamicResourceAllocationInformer", Stage.ALPHA, False
    RESIZE_POD = "ResizePod", Stage.ALPHA, False
    MULTI_QUOTA_TREE = "MultiQuotaTree", Stage.ALPHA, False
    "Allows several trees of quotas, for pools of nodes."
    ELASTIC_QUOTA_IGNORE_POD_OVERHEAD = "ElasticQuotaIgnorePodOverhead", Stage.ALPHA, False
    "Counts pods without the overhead of their runtime."
    ELASTIC_QUOTA_IGNORE_TERMINATING_POD = "ElasticQuotaIgnoreTerminatingPod", Stage.ALPHA, False
    "Does not count pods that are past their grace period."
    ELASTIC_QUOTA_IMMEDIATE_IGNORE_TERMINATING_POD = "ElasticQuotaImmediateIgnoreTerminatingPod", Stage.ALPHA, False
    "Does not count pods from their deletion on."
    ELASTIC_QUOTA_GUARANTEE_USAGE = "ElasticQuotaGuaranteeUsage", Stage.ALPHA, False
    "Guarantees what the quotas below a quota use, up to their min."
    DISABLE_DEFAULT_QUOTA = "DisableDefaultQuota", Stage.ALPHA, False
    "Leaves pods that name no quota out of all quotas."
    SUPPORT_PARENT_QUOTA_SUBMIT_POD = "SupportParentQuotaSubmitPod", Stage.ALPHA, False
    LAZY_RESERVATION_RESTORE = "LazyReservationRestore", Stage.ALPHA, False
    OMIT_NODE_LABELS_FOR_RESERVATION = "OmitNodeLabelsForReservation", Stage.ALPHA, False
    "Does not copy labels of the node for the matching of reservations."
    SKIP_RESERVATION_FITS_NODE = "SkipReservationFitsNode", Stage.ALPHA, False
    DEVICE_PLUGIN_ADAPTION = "DevicePluginAdaption", Stage.ALPHA, False
    "Writes allocations for the device plugins of vendors."
    CLEAN_EXPIRED_RESERVATION_ALLOCATED = "CleanExpiredReservationAllocated", Stage.ALPHA, False
    "Removes the mark of a Reservation that has ended from its pods."
    SKIP_FILTER_WITH_NOMINATED_PODS = "SkipFilterWithNominatedPods", Stage.ALPHA, False
    SYNC_BARRIER = "SyncBarrier", Stage.ALPHA, False
    CROSS_SCHEDULER_NOMINATION = "CrossSchedulerNomination", Stage.ALPHA, False
    ENABLE_INLINE_BATCH_SCHEDULE = "EnableInlineBatchSchedule", Stage.ALPHA, False
    PRIORITY_TRANSFORMER = "PriorityTransformer", Stage.ALPHA, False
    PREEMPTION_POLICY_TRANSFORMER = "PreemptionPolicyTransformer", Stage.ALPHA, False
    REPLACE_RESOURCES_TRANSFORMER = "ReplaceResourcesTransformer", Stage.ALPHA, False
    RESERVATIONS_KEEP_NODES = "ReservationsKeepNodes", Stage.ALPHA, False
    "koord's own: nodes with Reservations are kept from autoscalers."
    QUOTA_EXCEEDED_REASON = "QuotaExceededReason", Stage.ALPHA, False
    "koord's own: pods that their quota holds back say so in their condition's reason, and autoscalers add no nodes."


class DeschedulerGate(Gate):
    DISABLE_PVC_RESERVATION = "DisablePVCReservation", Stage.BETA, False
    "Does not reserve volumes for pods that move."


class AgentGate(Gate):
    BE_CPU_SUPPRESS = "BECPUSuppress", Stage.BETA, True
    "Holds batch pods to the CPU that services leave."
    CPU_BURST = "CPUBurst", Stage.BETA, True
    "Lets throttled services exceed their CPU limit for a while."
    RDT_RESCTRL = "RdtResctrl", Stage.BETA, True
    "Limits the cache and memory bandwidth of QoS classes."
    NODE_TOPOLOGY_REPORT = "NodeTopologyReport", Stage.BETA, True
    "Reports NUMA zones and CPUs as a NodeResourceTopology."
    GROUP_IDENTITY = "GroupIdentity", Stage.BETA, True
    "Sets the kernel's CPU priority of pods by QoS class."
    CPU_SET_ALLOCATOR = "CPUSetAllocator", Stage.BETA, True
    "Writes the CPUs that the scheduler gave to pods."
    BATCH_RESOURCE = "BatchResource", Stage.BETA, True
    "Sets CPU and memory limits of batch pods by their batch resources."
    AUDIT_EVENTS = "AuditEvents", Stage.ALPHA, False
    AUDIT_EVENTS_HTTP_HANDLER = "AuditEventsHTTPHandler", Stage.ALPHA, False
    BE_CPU_MANAGER = "BECPUManager", Stage.ALPHA, False
    "Holds each batch pod to the CPUs of its own NUMA nodes."
    BE_CPU_EVICT = "BECPUEvict", Stage.ALPHA, False
    "Evicts batch pods that get too little CPU for too long."
    CPU_EVICT = "CPUEvict", Stage.ALPHA, False
    "Evicts pods of low priority while the CPU usage of the node is too high."
    CPU_ALLOCATABLE_EVICT = "CPUAllocatableEvict", Stage.ALPHA, False
    "Evicts pods while pods of their priority request more CPU than the node lends."
    BE_MEMORY_EVICT = "BEMemoryEvict", Stage.ALPHA, False
    "Evicts batch pods while the memory usage of the node is too high."
    MEMORY_EVICT = "MemoryEvict", Stage.ALPHA, False
    "Evicts pods of low priority while the memory usage of the node is too high."
    MEMORY_ALLOCATABLE_EVICT = "MemoryAllocatableEvict", Stage.ALPHA, False
    "Evicts pods while pods of their priority request more memory than the node lends."
    SYSTEM_CONFIG = "SystemConfig", Stage.ALPHA, False
    "Writes the kernel settings of system-config."
    RESCTRL_COLLECTOR = "ResctrlCollector", Stage.ALPHA, False
    "Measures cache and memory bandwidth of QoS classes and pods."
    CGROUP_RECONCILE = "CgroupReconcile", Stage.ALPHA, False
    "Sets memory protection and priorities of pods by QoS class."
    ACCELERATORS = "Accelerators", Stage.ALPHA, False
    "Reports GPUs as a Device."
    RDMA_DEVICES = "RDMADevices", Stage.ALPHA, False
    "Reports RDMA cards as a Device."
    CPI_COLLECTOR = "CPICollector", Stage.ALPHA, False
    "Measures cycles per instruction of containers."
    LIBPFM4 = "Libpfm4", Stage.ALPHA, False
    PSI_COLLECTOR = "PSICollector", Stage.ALPHA, False
    "Measures pressure of the node and its pods."
    BLKIO_RECONCILE = "BlkIOReconcile", Stage.ALPHA, False
    "Sets disk limits and weights by QoS class."
    COLD_PAGE_COLLECTOR = "ColdPageCollector", Stage.ALPHA, False
    "Measures page cache that was not used lately."
    HUGE_PAGE_REPORT = "HugePageReport", Stage.ALPHA, False
    POD_RESOURCES_PROXY = "PodResourcesProxy", Stage.ALPHA, False
    "Serves kubelet's pod-resources socket with the scheduler's allocations added."
    HAMI_CORE_VGPU_MONITOR = "HamiCoreVGPUMonitor", Stage.ALPHA, False
    "Gives containers with part of a GPU the library that divides it."
    PER_CPU_METRIC = "PerCPUMetric", Stage.ALPHA, False
    NODE_METRIC_PROM_METRICS = "NodeMetricPromMetrics", Stage.ALPHA, False
    GPU_ENV_INJECT = "GPUEnvInject", Stage.ALPHA, False
    "Names the allocated GPUs in the environment of containers."
    RDMA_DEVICE_INJECT = "RDMADeviceInject", Stage.ALPHA, False
    "Gives containers the allocated RDMA devices."
    CPU_NORMALIZATION = "CPUNormalization", Stage.ALPHA, False
    "Sets CPU quotas by the ratio of the node's CPU model."
    CORE_SCHED = "CoreSched", Stage.ALPHA, False
    "Keeps pods that do not trust each other off the two threads of a core at the same time."
    TERWAY_QOS = "TerwayQoS", Stage.ALPHA, False
    "Writes network limits for Terway."
    TC_NETWORK_QOS = "TCNetworkQoS", Stage.ALPHA, False
    "Limits the network of QoS classes by traffic control."
    RESCTRL = "Resctrl", Stage.ALPHA, False
    "Limits cache and memory bandwidth of single pods by their annotation."
    OOM_SCORE_ADJ = "OOMScoreAdj", Stage.ALPHA, False
    "Sets which pods the kernel kills first when memory runs out."
    CPU_DELAY_COLLECTOR = "CPUDelayCollector", Stage.ALPHA, False
    "Measures how long tasks of pods wait for a CPU."
    MEMORY_DELAY_COLLECTOR = "MemoryDelayCollector", Stage.ALPHA, False
    "Measures how long tasks of pods wait for memory."
    APPLICATION_PROBE_COLLECTOR = "ApplicationProbeCollector", Stage.ALPHA, False
    "Measures response times of services that name a probe."
    SCHED_SWITCH_SAMPLER = "SchedSwitchSampler", Stage.ALPHA, False
    "Samples which tasks take the CPU from services."
    INTERFERENCE_DETECTION = "InterferenceDetection", Stage.ALPHA, False
    "Finds services that suffer and the neighbours that cause it."
    INTERFERENCE_CONTROL = "InterferenceControl", Stage.ALPHA, False
    "Holds back neighbours that cause suffering."


class ManagerGate(Gate):
    WEBHOOK_FRAMEWORK = "WebhookFramework", Stage.BETA, True
    "Serves webhooks at all."
    POD_MUTATING_WEBHOOK = "PodMutatingWebhook", Stage.BETA, True
    "Applies ClusterColocationProfiles to new pods."
    POD_VALIDATING_WEBHOOK = "PodValidatingWebhook", Stage.BETA, True
    "Refuses invalid combinations of QoS class, priority and resources."
    ELASTIC_MUTATING_WEBHOOK = "ElasticMutatingWebhook", Stage.BETA, True
    "Fills in defaults of ElasticQuotas."
    ELASTIC_VALIDATING_WEBHOOK = "ElasticValidatingWebhook", Stage.BETA, True
    "Refuses invalid ElasticQuotas and trees."
    NODE_MUTATING_WEBHOOK = "NodeMutatingWebhook", Stage.ALPHA, False
    "Amplifies the resources of nodes."
    NODE_VALIDATING_WEBHOOK = "NodeValidatingWebhook", Stage.ALPHA, False
    "Refuses labels of nodes for which items of slo-controller-config conflict."
    CONFIG_MAP_VALIDATING_WEBHOOK = "ConfigMapValidatingWebhook", Stage.BETA, True
    "Refuses an invalid slo-controller-config."
    RESERVATION_MUTATING_WEBHOOK = "ReservationMutatingWebhook", Stage.ALPHA, False
    "Fills in defaults of Reservations."
    BINDING_ADMISSION_WEBHOOK = "BindingAdmissionWebhook", Stage.ALPHA, False
    "Refuses bindings by users who are not schedulers."
    COLOCATION_PROFILE_SKIP_MUTATING_RESOURCES = "ColocationProfileSkipMutatingResources", Stage.ALPHA, False
    "Leaves the resources of matching pods unchanged."
    COLOCATION_PROFILE_SKIP_VALIDATING_PRIORITY = "ColocationProfileSkipValidatingPriority", Stage.ALPHA, False
    "Allows changes of a pod's rank within its priority."
    COLOCATION_PROFILE_CONTROLLER = "ColocationProfileController", Stage.ALPHA, False
    "Applies profiles also to pods that exist and wait."
    MULTI_QUOTA_TREE = "MultiQuotaTree", Stage.ALPHA, False
    "Allows several trees of quotas, for pools of nodes."
    ELASTIC_QUOTA_IGNORE_POD_OVERHEAD = "ElasticQuotaIgnorePodOverhead", Stage.ALPHA, False
    "Counts pods without the overhead of their runtime."
    ELASTIC_QUOTA_GUARANTEE_USAGE = "ElasticQuotaGuaranteeUsage", Stage.ALPHA, False
    "Guarantees what the quotas below a quota use, up to their min."
    ELASTIC_QUOTA_ENABLE_UPDATE_RESOURCE_KEY = "ElasticQuotaEnableUpdateResourceKey", Stage.ALPHA, False
    "Allows changes of the resources that a quota names."
    ELASTIC_QUOTA_EVALUATION_TRANSFORM_POD = "ElasticQuotaEvaluationTransformPod", Stage.ALPHA, False
    DISABLE_DEFAULT_QUOTA = "DisableDefaultQuota", Stage.ALPHA, False
    "Leaves pods that name no quota out of all quotas."
    SUPPORT_PARENT_QUOTA_SUBMIT_POD = "SupportParentQuotaSubmitPod", Stage.ALPHA, False
    "Allows pods in quotas that have quotas below them."
    ENABLE_QUOTA_ADMISSION = "EnableQuotaAdmission", Stage.ALPHA, False
    "Refuses new pods that exceed their quota."
    ENABLE_QUOTA_ADMISSION_ON_UPDATE = "EnableQuotaAdmissionOnUpdate", Stage.ALPHA, False
    "The same for changed pods."
    ENABLE_POD_ENHANCED_VALIDATOR = "EnablePodEnhancedValidator", Stage.ALPHA, False
    "Refuses pods that lack the labels that a ConfigMap requires."
    ENABLE_SYNC_GPU_SHARED_RESOURCE = "EnableSyncGPUSharedResource", Stage.ALPHA, False
    "Publishes shared GPU resources of nodes."
    VALIDATE_POD_DEVICE_RESOURCE = "ValidatePodDeviceResource", Stage.ALPHA, False
    "Refuses invalid requests for devices."
    DISABLE_EXTENDED_RESOURCE_SPEC = "DisableExtendedResourceSpec", Stage.ALPHA, False
    "Does not write the annotation with a pod's batch resources."
    DISABLE_DEVICE_RESOURCE_SPEC = "DisableDeviceResourceSpec", Stage.ALPHA, False
    "Does not complete requests for devices."
    PRIORITY_TRANSFORMER = "PriorityTransformer", Stage.ALPHA, False
    PREEMPTION_POLICY_TRANSFORMER = "PreemptionPolicyTransformer", Stage.ALPHA, False
    REPLACE_RESOURCES_TRANSFORMER = "ReplaceResourcesTransformer", Stage.ALPHA, False
    RECOMMENDED_REQUESTS = "RecommendedRequests", Stage.ALPHA, False
    "Gives new pods the requests of their Recommendation."
    AGENT_NODE_RESTRICTION = "AgentNodeRestriction", Stage.BETA, True
    "Refuses what an agent writes about other nodes than its own."


class GateError(BadInput):
    """A `--feature-gates` that cannot be followed."""


def parse_gates(gates: type[G], text: str = "") -> dict[G, bool]:
    """Whether each gate of a component is on, given its `--feature-gates`."""
    gates_by_name = {member.gate: member for member in gates}
    whole_stages = {"AllAlpha": Stage.ALPHA, "AllBeta": Stage.BETA}
    by_stage: dict[Stage, bool] = {}
    by_name: dict[G, bool] = {}
    for part in text.split(","):
        if not part.strip():
            continue
        name, equals, written = (side.strip() for side in part.partition("="))
        if not equals:
            raise GateError(f"feature gate {name}: must be {name}=true or {name}=false")
        value = _parse_bool(name, written)
        if name in whole_stages:
            by_stage[whole_stages[name]] = value
        elif name in gates_by_name:
            by_name[gates_by_name[name]] = value
        else:
            valid = [*gates_by_name, *whole_stages]
            listed = ", ".join(sorted(valid, key=str.lower))
            raise GateError(f"feature gate {name}: is not known here{_suggestion(name, valid)}; valid are {listed}")
    return {member: by_name.get(member, by_stage.get(member.stage, member.default)) for member in gates}


def render_gates(gates: dict[G, bool]) -> str:
    """The shortest `--feature-gates` that says the same: what differs from the defaults, by name."""
    changed = {member.gate: on for member, on in gates.items() if on != member.default}
    return ",".join(f"{name}={str(on).lower()}" for name, on in sorted(changed.items()))


def _parse_bool(name: str, text: str) -> bool:
    if text in ("1", "t", "T", "true", "TRUE", "True"):
        return True
    if text in ("0", "f", "F", "false", "FALSE", "False"):
        return False
    raise GateError(f"feature gate {name}: must be true or false, not {text!r}")


def _suggestion(name: str, valid: list[str]) -> str:
    near = difflib.get_close_matches(name, valid, n=1, cutoff=0.6)
    return f" (did you mean {near[0]}?)" if near else ""
