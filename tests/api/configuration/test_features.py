"""Gates are compared with the lists of the protocol (names and defaults), parsing with Kubernetes' rules."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.api.configuration.features import (
    AgentGate,
    DeschedulerGate,
    Gate,
    GateError,
    ManagerGate,
    SchedulerGate,
    Stage,
    parse_gates,
    render_gates,
)

TRANSFORMERS = "PriorityTransformer PreemptionPolicyTransformer ReplaceResourcesTransformer"
LISTS: list[tuple[type[Gate], str, str]] = [
    (
        SchedulerGate,
        "DynamicSchedulerCheck GangPendingPodsConditionPatch EnableBatchScheduleNodeSnapshot CSIStorageCapacity"
        " GenericEphemeralVolume PodDisruptionBudget",
        "CompatibleCSIStorageCapacity CompatiblePodDisruptionBudget DisableCSIStorageCapacityInformer"
        " DisablePodDisruptionBudgetInformer DisableDynamicResourceAllocationInformer ResizePod MultiQuotaTree"
        " ElasticQuotaIgnorePodOverhead ElasticQuotaIgnoreTerminatingPod ElasticQuotaImmediateIgnoreTerminatingPod"
        " ElasticQuotaGuaranteeUsage DisableDefaultQuota SupportParentQuotaSubmitPod LazyReservationRestore"
        " OmitNodeLabelsForReservation SkipReservationFitsNode DevicePluginAdaption CleanExpiredReservationAllocated"
        " SkipFilterWithNominatedPods SyncBarrier CrossSchedulerNomination EnableInlineBatchSchedule"
        " ReservationsKeepNodes QuotaExceededReason " + TRANSFORMERS,
    ),
    (DeschedulerGate, "", "DisablePVCReservation"),
    (
        AgentGate,
        "BECPUSuppress CPUBurst RdtResctrl NodeTopologyReport GroupIdentity CPUSetAllocator BatchResource",
        "AuditEvents AuditEventsHTTPHandler BECPUManager BECPUEvict CPUEvict CPUAllocatableEvict BEMemoryEvict"
        " MemoryEvict MemoryAllocatableEvict SystemConfig ResctrlCollector CgroupReconcile Accelerators RDMADevices"
        " CPICollector Libpfm4 PSICollector BlkIOReconcile ColdPageCollector HugePageReport PodResourcesProxy"
        " HamiCoreVGPUMonitor PerCPUMetric NodeMetricPromMetrics GPUEnvInject RDMADeviceInject CPUNormalization"
        " CoreSched TerwayQoS TCNetworkQoS Resctrl OOMScoreAdj CPUDelayCollector MemoryDelayCollector"
        " ApplicationProbeCollector SchedSwitchSampler"
        " InterferenceDetection InterferenceControl",
    ),
    (
        ManagerGate,
        "WebhookFramework PodMutatingWebhook PodValidatingWebhook ElasticMutatingWebhook ElasticValidatingWebhook"
        " ConfigMapValidatingWebhook AgentNodeRestriction",
        "NodeMutatingWebhook NodeValidatingWebhook ReservationMutatingWebhook"
        " BindingAdmissionWebhook ColocationProfileSkipMutatingResources ColocationProfileSkipValidatingPriority"
        " ColocationProfileController MultiQuotaTree ElasticQuotaIgnorePodOverhead ElasticQuotaGuaranteeUsage"
        " ElasticQuotaEnableUpdateResourceKey ElasticQuotaEvaluationTransformPod DisableDefaultQuota"
        " SupportParentQuotaSubmitPod EnableQuotaAdmission EnableQuotaAdmissionOnUpdate EnablePodEnhancedValidator"
        " EnableSyncGPUSharedResource ValidatePodDeviceResource DisableExtendedResourceSpec DisableDeviceResourceSpec"
        " RecommendedRequests " + TRANSFORMERS,
    ),
]


@pytest.mark.parametrize(("gates", "on", "off"), LISTS)
def test_each_component_has_the_protocols_gates_and_defaults(gates: type[Gate], on: str, off: str) -> None:
    defaults = {gate.gate: state for gate, state in parse_gates(gates).items()}
    assert defaults == dict.fromkeys(on.split(), True) | dict.fromkeys(off.split(), False)


def test_a_stage_switches_all_that_is_not_named_whatever_the_order() -> None:
    gates = parse_gates(AgentGate, "CPUBurst=false,AllBeta=true,AllAlpha=true,CoreSched=false")
    assert not gates[AgentGate.CPU_BURST]
    assert not gates[AgentGate.CORE_SCHED]
    assert all(on for gate, on in gates.items() if gate not in (AgentGate.CPU_BURST, AgentGate.CORE_SCHED))


def test_a_stage_leaves_the_other_stages_alone() -> None:
    gates = parse_gates(SchedulerGate, "AllAlpha=false")
    assert not gates[SchedulerGate.DYNAMIC_SCHEDULER_CHECK]
    assert all(gates[gate] == gate.default for gate in SchedulerGate if gate.stage is not Stage.ALPHA)


@pytest.mark.parametrize("text", ["CPUBurst=false", " CPUBurst = F ,", ",CPUBurst=0,,", "CPUBurst=true,CPUBurst=False"])
def test_spaces_empty_parts_and_gos_booleans_are_taken(text: str) -> None:
    assert not parse_gates(AgentGate, text)[AgentGate.CPU_BURST]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("CpuBurst=true", r"CpuBurst.*did you mean CPUBurst\?"),
        ("MultiQuotaTree=true", "MultiQuotaTree: is not known here; valid are Accelerators, .*CPUBurst, .*TerwayQoS"),
        ("CPUBurst", "CPUBurst: must be CPUBurst=true or CPUBurst=false"),
        ("CPUBurst=yes", "CPUBurst: must be true or false, not 'yes'"),
        ("CPUBurst=", "CPUBurst: must be true or false"),
        ("=true", "is not known"),
    ],
)
def test_a_bad_gate_is_named_with_what_would_be_right(text: str, says: str) -> None:
    with pytest.raises(GateError, match=says):
        parse_gates(AgentGate, text)


@given(st.dictionaries(st.sampled_from(list(AgentGate)), st.booleans()))
def test_rendered_gates_parse_to_the_same(chosen: dict[AgentGate, bool]) -> None:
    gates = parse_gates(AgentGate) | chosen
    assert parse_gates(AgentGate, render_gates(gates)) == gates


@given(st.text(alphabet="AlphBetrufs=,10 CPU", max_size=30))
def test_any_text_gives_gates_or_a_gate_error(text: str) -> None:
    try:
        gates: dict[Any, bool] = parse_gates(AgentGate, text)
    except GateError:
        return
    assert set(gates) == set(AgentGate)
