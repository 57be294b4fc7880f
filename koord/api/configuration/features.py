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
    ELASTIC_QUOTA_IGNORE_POD_OVERHEAD = "ElasticQuotaIgnorePodOverhead", Stage.ALPHA, False
    ELASTIC_QUOTA_IGNORE_TERMINATING_POD = "ElasticQuotaIgnoreTerminatingPod", Stage.ALPHA, False
    ELASTIC_QUOTA_IMMEDIATE_IGNORE_TERMINATING_POD = "ElasticQuotaImmediateIgnoreTerminatingPod", Stage.ALPHA, False
    ELASTIC_QUOTA_GUARANTEE_USAGE = "ElasticQuotaGuaranteeUsage", Stage.ALPHA, False
    DISABLE_DEFAULT_QUOTA = "DisableDefaultQuota", Stage.ALPHA, False
    SUPPORT_PARENT_QUOTA_SUBMIT_POD = "SupportParentQuotaSubmitPod", Stage.ALPHA, False
    LAZY_RESERVATION_RESTORE = "LazyReservationRestore", Stage.ALPHA, False
    OMIT_NODE_LABELS_FOR_RESERVATION = "OmitNodeLabelsForReservation", Stage.ALPHA, False
    SKIP_RESERVATION_FITS_NODE = "SkipReservationFitsNode", Stage.ALPHA, False
    DEVICE_PLUGIN_ADAPTION = "DevicePluginAdaption", Stage.ALPHA, False
    CLEAN_EXPIRED_RESERVATION_ALLOCATED = "CleanExpiredReservationAllocated", Stage.ALPHA, False
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


class AgentGate(Gate):
    BE_CPU_SUPPRESS = "BECPUSuppress", Stage.BETA, True
    CPU_BURST = "CPUBurst", Stage.BETA, True
    RDT_RESCTRL = "RdtResctrl", Stage.BETA, True
    NODE_TOPOLOGY_REPORT = "NodeTopologyReport", Stage.BETA, True
    GROUP_IDENTITY = "GroupIdentity", Stage.BETA, True
    CPU_SET_ALLOCATOR = "CPUSetAllocator", Stage.BETA, True
    BATCH_RESOURCE = "BatchResource", Stage.BETA, True
    AUDIT_EVENTS = "AuditEvents", Stage.ALPHA, False
    AUDIT_EVENTS_HTTP_HANDLER = "AuditEventsHTTPHandler", Stage.ALPHA, False
    BE_CPU_MANAGER = "BECPUManager", Stage.ALPHA, False
    BE_CPU_EVICT = "BECPUEvict", Stage.ALPHA, False
    CPU_EVICT = "CPUEvict", Stage.ALPHA, False
    CPU_ALLOCATABLE_EVICT = "CPUAllocatableEvict", Stage.ALPHA, False
    BE_MEMORY_EVICT = "BEMemoryEvict", Stage.ALPHA, False
    MEMORY_EVICT = "MemoryEvict", Stage.ALPHA, False
    MEMORY_ALLOCATABLE_EVICT = "MemoryAllocatableEvict", Stage.ALPHA, False
    SYSTEM_CONFIG = "SystemConfig", Stage.ALPHA, False
    RESCTRL_COLLECTOR = "ResctrlCollector", Stage.ALPHA, False
    CGROUP_RECONCILE = "CgroupReconcile", Stage.ALPHA, False
    ACCELERATORS = "Accelerators", Stage.ALPHA, False
    RDMA_DEVICES = "RDMADevices", Stage.ALPHA, False
    CPI_COLLECTOR = "CPICollector", Stage.ALPHA, False
    LIBPFM4 = "Libpfm4", Stage.ALPHA, False
    PSI_COLLECTOR = "PSICollector", Stage.ALPHA, False
    BLKIO_RECONCILE = "BlkIOReconcile", Stage.ALPHA, False
    COLD_PAGE_COLLECTOR = "ColdPageCollector", Stage.ALPHA, False
    HUGE_PAGE_REPORT = "HugePageReport", Stage.ALPHA, False
    POD_RESOURCES_PROXY = "PodResourcesProxy", Stage.ALPHA, False
    HAMI_CORE_VGPU_MONITOR = "HamiCoreVGPUMonitor", Stage.ALPHA, False
    PER_CPU_METRIC = "PerCPUMetric", Stage.ALPHA, False
    NODE_METRIC_PROM_METRICS = "NodeMetricPromMetrics", Stage.ALPHA, False
    GPU_ENV_INJECT = "GPUEnvInject", Stage.ALPHA, False
    RDMA_DEVICE_INJECT = "RDMADeviceInject", Stage.ALPHA, False
    CPU_NORMALIZATION = "CPUNormalization", Stage.ALPHA, False
    CORE_SCHED = "CoreSched", Stage.ALPHA, False
    TERWAY_QOS = "TerwayQoS", Stage.ALPHA, False
    TC_NETWORK_QOS = "TCNetworkQoS", Stage.ALPHA, False
    RESCTRL = "Resctrl", Stage.ALPHA, False
    OOM_SCORE_ADJ = "OOMScoreAdj", Stage.ALPHA, False
    CPU_DELAY_COLLECTOR = "CPUDelayCollector", Stage.ALPHA, False
    MEMORY_DELAY_COLLECTOR = "MemoryDelayCollector", Stage.ALPHA, False
    APPLICATION_PROBE_COLLECTOR = "ApplicationProbeCollector", Stage.ALPHA, False
    SCHED_SWITCH_SAMPLER = "SchedSwitchSampler", Stage.ALPHA, False
    INTERFERENCE_DETECTION = "InterferenceDetection", Stage.ALPHA, False
    INTERFERENCE_CONTROL = "InterferenceControl", Stage.ALPHA, False


class ManagerGate(Gate):
    WEBHOOK_FRAMEWORK = "WebhookFramework", Stage.BETA, True
    POD_MUTATING_WEBHOOK = "PodMutatingWebhook", Stage.BETA, True
    POD_VALIDATING_WEBHOOK = "PodValidatingWebhook", Stage.BETA, True
    ELASTIC_MUTATING_WEBHOOK = "ElasticMutatingWebhook", Stage.BETA, True
    ELASTIC_VALIDATING_WEBHOOK = "ElasticValidatingWebhook", Stage.BETA, True
    NODE_MUTATING_WEBHOOK = "NodeMutatingWebhook", Stage.ALPHA, False
    NODE_VALIDATING_WEBHOOK = "NodeValidatingWebhook", Stage.ALPHA, False
    CONFIG_MAP_VALIDATING_WEBHOOK = "ConfigMapValidatingWebhook", Stage.BETA, True
    RESERVATION_MUTATING_WEBHOOK = "ReservationMutatingWebhook", Stage.ALPHA, False
    BINDING_ADMISSION_WEBHOOK = "BindingAdmissionWebhook", Stage.ALPHA, False
    COLOCATION_PROFILE_SKIP_MUTATING_RESOURCES = "ColocationProfileSkipMutatingResources", Stage.ALPHA, False
    COLOCATION_PROFILE_SKIP_VALIDATING_PRIORITY = "ColocationProfileSkipValidatingPriority", Stage.ALPHA, False
    COLOCATION_PROFILE_CONTROLLER = "ColocationProfileController", Stage.ALPHA, False
    MULTI_QUOTA_TREE = "MultiQuotaTree", Stage.ALPHA, False
    ELASTIC_QUOTA_IGNORE_POD_OVERHEAD = "ElasticQuotaIgnorePodOverhead", Stage.ALPHA, False
    ELASTIC_QUOTA_GUARANTEE_USAGE = "ElasticQuotaGuaranteeUsage", Stage.ALPHA, False
    ELASTIC_QUOTA_ENABLE_UPDATE_RESOURCE_KEY = "ElasticQuotaEnableUpdateResourceKey", Stage.ALPHA, False
    ELASTIC_QUOTA_EVALUATION_TRANSFORM_POD = "ElasticQuotaEvaluationTransformPod", Stage.ALPHA, False
    DISABLE_DEFAULT_QUOTA = "DisableDefaultQuota", Stage.ALPHA, False
    SUPPORT_PARENT_QUOTA_SUBMIT_POD = "SupportParentQuotaSubmitPod", Stage.ALPHA, False
    ENABLE_QUOTA_ADMISSION = "EnableQuotaAdmission", Stage.ALPHA, False
    ENABLE_QUOTA_ADMISSION_ON_UPDATE = "EnableQuotaAdmissionOnUpdate", Stage.ALPHA, False
    ENABLE_POD_ENHANCED_VALIDATOR = "EnablePodEnhancedValidator", Stage.ALPHA, False
    ENABLE_SYNC_GPU_SHARED_RESOURCE = "EnableSyncGPUSharedResource", Stage.ALPHA, False
    VALIDATE_POD_DEVICE_RESOURCE = "ValidatePodDeviceResource", Stage.ALPHA, False
    DISABLE_EXTENDED_RESOURCE_SPEC = "DisableExtendedResourceSpec", Stage.ALPHA, False
    DISABLE_DEVICE_RESOURCE_SPEC = "DisableDeviceResourceSpec", Stage.ALPHA, False
    PRIORITY_TRANSFORMER = "PriorityTransformer", Stage.ALPHA, False
    PREEMPTION_POLICY_TRANSFORMER = "PreemptionPolicyTransformer", Stage.ALPHA, False
    REPLACE_RESOURCES_TRANSFORMER = "ReplaceResourcesTransformer", Stage.ALPHA, False
    RECOMMENDED_REQUESTS = "RecommendedRequests", Stage.ALPHA, False
    AGENT_NODE_RESTRICTION = "AgentNodeRestriction", Stage.BETA, True


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
