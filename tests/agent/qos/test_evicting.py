"""Victims of eviction: which pods count as leaving, which are asked, and in which order."""

from dataclasses import replace
from typing import Any

import pytest
from msgspec.structs import replace as changed

from koord.agent.pods import AgentPod
from koord.agent.qos import cpu_evict, memory_evict
from koord.agent.qos.allocatable_evict import to_release as above_allocatable
from koord.agent.qos.decision import StrategyDecision
from koord.agent.series.names import BE_CPU, BE_CPU_LIMIT, BE_CPU_REQUEST, NODE_CPU, NODE_MEMORY, pod_cpu, pod_memory
from koord.agent.series.samples import Samples
from koord.agent.state import NodeState
from koord.api.configuration.features import AgentGate
from tests.agent.states import NOW, cpus, evicting, node, pod, samples

NEVER = float("-inf")
OFFERED = {"koordinator.sh/eviction-enabled": "true"}
BATCH_CPU, MID_CPU = "kubernetes.io/batch-cpu", "kubernetes.io/mid-cpu"


def gates(*on: AgentGate) -> dict[AgentGate, bool]:
    return {gate: gate in on for gate in AgentGate}


def names(decision: StrategyDecision | None) -> list[str]:
    assert decision is not None
    return [eviction.pod.meta.name for eviction in decision.evictions]


def leaving(of: AgentPod) -> AgentPod:
    return replace(of, meta=changed(of.meta, deletion_timestamp="2026-11-15T15:00:00Z"))


def thresholds(*pods: AgentPod, allocatable: dict[str, str] | None = None, **strategy: Any) -> NodeState:
    """A node of 100 CPUs and 120 GB."""
    slo = {"resourceUsedThresholdWithBE": {"enable": True, **strategy}}
    return node(*pods, slo=slo, topology=cpus(1, 100, 1), memory=120 * 10**9, allocatable=allocatable)


def evicts_memory(state: NodeState, used: Samples, *on: AgentGate, **more: Any) -> list[str]:
    settings = {"gone": (), "last_release_s": NEVER, "now_s": NOW, **more}
    return names(evicting(memory_evict.STRATEGY, state, used, gates(*on), **settings))


def evicts_cpu(state: NodeState, used: Samples, *on: AgentGate, **more: Any) -> list[str]:
    settings = {"gone": (), "last_release_s": NEVER, "now_s": NOW, **more}
    return names(evicting(cpu_evict.STRATEGY, state, used, gates(*on), **settings))


def gigabytes(node_used: int, **pods: int) -> Samples:
    return samples({NODE_MEMORY: node_used * 10**9, **{pod_memory(name): pod * 10**9 for name, pod in pods.items()}})


@pytest.mark.parametrize(
    ("threshold", "lower", "expected"),
    [
        # 115 of 120 GB are 95%; 1% is 1.2 GB.
        (82, None, ["large"]),  # 18.0 GB
        (80, None, ["large", "small"]),  # 20.4 GB
        (50, None, ["large", "small", "later"]),
        (82, 78, ["large", "small"]),
        (82, 74, ["large", "small", "later"]),  # 25.2 GB
        (82, 82, []),
        (82, 90, []),
    ],
)
def test_only_pods_labelled_best_effort_give_back_memory(
    threshold: int, lower: int | None, expected: list[str]
) -> None:
    pods = [
        pod("reserved", "LSR", priority=1000),
        pod("service", "LS", priority=500),
        pod("plain", priority=100),
        pod("small", "BE", priority=100),
        pod("large", "BE", priority=100),
        pod("later", "BE", priority=120),
    ]
    used = gigabytes(115, reserved=40, service=30, plain=10, small=5, large=20, later=10)
    strategy: dict[str, Any] = {"memoryEvictThresholdPercent": threshold, "memoryEvictLowerPercent": lower}
    state = thresholds(*pods, **{key: value for key, value in strategy.items() if value is not None})
    assert evicts_memory(state, used, AgentGate.BE_MEMORY_EVICT) == expected


def test_who_asked_for_no_batch_cpu_or_has_no_label_cannot_satisfy_the_others() -> None:
    pods = [
        pod("plain", priority=100),
        pod("asks nothing", "BE", priority=100),
        pod("asks", "BE", priority=5000, requests={BATCH_CPU: "50000"}),
    ]
    strategy: dict[str, Any] = {"cpuEvictBESatisfactionLowerPercent": 30, "cpuEvictBESatisfactionUpperPercent": 40}
    used = samples({BE_CPU_REQUEST: 50_000, BE_CPU_LIMIT: 10_000, BE_CPU: 9500})
    assert evicts_cpu(thresholds(*pods, **strategy), used, AgentGate.BE_CPU_EVICT) == ["asks"]


def test_memory_of_a_pod_that_takes_its_time_to_leave_counts_as_released() -> None:
    first, second = pod("first", "BE", priority=5000), pod("second", "BE", priority=5001)
    state = thresholds(leaving(first), second, memoryEvictThresholdPercent=80)
    used = gigabytes(100, first=10, second=10)  # 83% to 78%: 6 GB
    assert evicts_memory(state, used, AgentGate.BE_MEMORY_EVICT, gone={"first"}) == []
    # A pod that left by itself, or long ago, is not counted upon.
    assert evicts_memory(state, used, AgentGate.BE_MEMORY_EVICT) == ["second"]


def test_who_leaves_for_one_reason_counts_for_the_others() -> None:
    batch = pod("batch", "BE", priority=5000, requests={BATCH_CPU: "50000"})
    offered = pod("offered", priority=5000, labels=OFFERED, requests={"cpu": "1"})
    state = thresholds(
        batch,
        offered,
        cpuEvictBESatisfactionLowerPercent=30,
        cpuEvictBESatisfactionUpperPercent=40,
        cpuEvictThresholdPercent=80,
        evictEnabledPriorityThreshold=5999,
    )
    used = samples(
        {
            BE_CPU_REQUEST: 50_000,
            BE_CPU_LIMIT: 10_000,
            BE_CPU: 9500,
            NODE_CPU: 83_000,  # 83% to 78%: 5000m
            pod_cpu("batch"): 9500,
            pod_cpu("offered"): 6000,
        }
    )
    assert evicts_cpu(state, used, AgentGate.CPU_EVICT) == ["offered"]
    assert evicts_cpu(state, used, AgentGate.BE_CPU_EVICT, AgentGate.CPU_EVICT) == ["batch"]
    assert evicts_cpu(state, used, AgentGate.CPU_EVICT, gone={"batch"}) == []


def test_whom_the_api_keeps_does_not_keep_others_from_going() -> None:
    kept, other = pod("kept", "BE", priority=5000), pod("other", "BE", priority=5001)
    state = thresholds(kept, other, memoryEvictThresholdPercent=80)
    used = gigabytes(100, kept=10, other=10)
    assert evicts_memory(state, used, AgentGate.BE_MEMORY_EVICT) == ["kept"]
    assert evicts_memory(state, used, AgentGate.BE_MEMORY_EVICT, refused={"kept"}) == ["other"]
    # Where the others are not enough it is asked for again.
    few = gigabytes(100, kept=10, other=5)
    assert evicts_memory(state, few, AgentGate.BE_MEMORY_EVICT, refused={"kept"}) == ["other", "kept"]
    # With the node about to run out, a refusal is no answer.
    full = gigabytes(118, kept=60, other=60)
    assert evicts_memory(state, full, AgentGate.BE_MEMORY_EVICT, refused={"kept"}) == ["kept"]


def test_a_service_that_names_no_priority_is_as_important_as_services_are() -> None:
    own = {"cpu": "1", "memory": "1Gi"}
    pods = [
        pod("service", labels=OFFERED, requests=own, limits=own),
        pod("zero", priority=0, labels=OFFERED, requests=own),
        pod("batch", "BE", labels=OFFERED),
    ]
    state = thresholds(*pods, memoryEvictThresholdPercent=80, evictEnabledPriorityThreshold=8000)
    used = gigabytes(115, service=50, zero=50, batch=1)
    assert evicts_memory(state, used, AgentGate.MEMORY_EVICT) == ["batch"]


def test_the_order_below_a_priority_is_the_labels_number_also_where_it_is_zero() -> None:
    def offered(name: str, number: str) -> AgentPod:
        return pod(name, "BE", priority=120, labels={**OFFERED, "koordinator.sh/priority": number})

    pods = [offered("c", "3000"), offered("none", ""), offered("bad", "x"), offered("b", "2"), offered("a", "0")]
    state = thresholds(*pods, cpuEvictThresholdPercent=80, evictEnabledPriorityThreshold=3000)
    used = samples({NODE_CPU: 99_000, **{pod_cpu(pod.uid): 10 for pod in pods}})
    # Who has no number, or none that can be read, has the priority itself: 120.
    assert evicts_cpu(state, used, AgentGate.CPU_EVICT) == ["a", "b", "bad", "none", "c"]


def test_a_pod_counts_only_where_its_band_buys() -> None:
    batch = pod("batch", "BE", priority=5000, labels=OFFERED, requests={BATCH_CPU: "85000"})
    mid = pod("mid", "LS", priority=7000, labels=OFFERED, requests={"cpu": "85", MID_CPU: "40000"})
    strategy: dict[str, Any] = {
        "cpuAllocatableEvictThresholdPercent": 80,
        "cpuAllocatableEvictLowerPercent": 70,
        "allocatableEvictPriorityThreshold": 7999,
    }

    def evicted(**of_both: str) -> list[str]:
        sold = {BATCH_CPU: "100000", MID_CPU: "100000", **of_both}
        return evicts_cpu(
            thresholds(batch, mid, allocatable=sold, **strategy), Samples(), AgentGate.CPU_ALLOCATABLE_EVICT
        )

    # 85 of the node's 100 CPUs are requested too, but the mid pod pays for them with mid-cpu; there is enough.
    assert evicted() == ["batch"]
    assert evicted(**{MID_CPU: "50000"}) == ["batch"], "80% is not above 80%"
    assert evicted(**{MID_CPU: "49000"}) == ["mid", "batch"]


def test_a_fraction_of_a_milli_core_is_not_released() -> None:
    # Half of 101 is 50.5: 99 - 50.5 = 48.5
    assert above_allocatable(99, 101, 60, 50) == 48
    assert above_allocatable(85_000, 100_000, 80, 70) == 15_000
