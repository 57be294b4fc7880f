"""The CPUs of one pod alone: best effort is kept from them whatever else is decided."""

import json
from dataclasses import replace
from typing import Any

import pytest

from koord.agent import wish
from koord.agent.host.knobs import CPU_QUOTA, CPUSET_CPUS
from koord.agent.pods import AgentPod
from koord.agent.qos.cpu_suppress import BestEffortLimits, decide, is_by_cpus, managed
from koord.agent.qos.decision import NOTHING, StrategyDecision
from koord.agent.series.names import NODE_CPU, pod_cpu
from koord.agent.state import Kubelet, NodeState
from koord.agent.wish import Wish
from koord.api.kubernetes.words import KubeQoS
from koord.api.text.cpuset import NO_CPUS, CPUSet
from tests.agent.states import NOW, cpus, node, pod, samples

BE = "kubepods/besteffort"
HELD = BestEffortLimits(NO_CPUS, -1, [f"{BE}/podjob"], [f"{BE}/podjob/job-main", f"{BE}/podjob/sandbox"])
RESERVATION, SYSTEM = "node.koordinator.sh/reservation", "node.koordinator.sh/system-qos-resource"
STATUS = "scheduling.koordinator.sh/resource-status"


def owner(qos: str, owned: str) -> AgentPod:
    return pod(
        "own", qos, requests={"cpu": "1"}, limits={"cpu": "1"}, annotations={STATUS: json.dumps({"cpuset": owned})}
    )


def job(**status: Any) -> AgentPod:
    return pod("job", "BE", annotations={STATUS: json.dumps(status)} if status else {})


def of(*pods: AgentPod, annotations: dict[str, str] | None = None, **threshold: Any) -> NodeState:
    """Two NUMA nodes of four cores: CPUs 0-3, 8-11 and 4-7, 12-15."""
    settings = {"resourceUsedThresholdWithBE": {"enable": True, "cpuSuppressPolicy": "cfsQuota", **threshold}}
    return node(*pods, topology=cpus(2, 4, 2), annotations=annotations, slo=settings)


def where(wanted: Wish) -> str:
    return BE if wanted.target == wish.band(KubeQoS.BEST_EFFORT) else wanted.target.name


def given(decision: StrategyDecision | None) -> dict[str, str]:
    assert decision is not None
    return {where(wish): str(wish.value) for wish in decision.wishes if wish.setting is CPUSET_CPUS}


def decided(state: NodeState) -> StrategyDecision | None:
    return decide(state, samples({NODE_CPU: 2_000, pod_cpu("job"): 1_000}), HELD, NOW)


@pytest.mark.parametrize("enable", [True, False])
@pytest.mark.parametrize(
    ("pods", "annotations", "expected"),
    [
        ([owner("LSE", "7")], {}, "0-6,8-15"),
        ([owner("LSR", "7")], {}, None),
        ([owner("LSE", "7")], {RESERVATION: '{"reservedCPUs": "0-1"}'}, "2-6,8-15"),
        ([owner("LSE", "7")], {SYSTEM: '{"cpuset": "0-1"}'}, "2-6,8-15"),
        ([owner("LSE", "7")], {SYSTEM: '{"cpuset": "0-1", "cpusetExclusive": false}'}, "0-6,8-15"),
        ([], {RESERVATION: '{"reservedCPUs": "0-1"}'}, "2-15"),
        ([], {}, None),
    ],
)
def test_with_a_quota_and_switched_off_best_effort_is_kept_from_cpus_of_others(
    pods: list[AgentPod], annotations: dict[str, str], expected: str | None, enable: bool
) -> None:
    state = of(job(), *pods, annotations=annotations, enable=enable)
    everywhere = [BE, *HELD.pod_directories, *HELD.container_directories]
    decision = decided(state)
    assert given(decision) == (dict.fromkeys(everywhere, expected) if expected else {})
    assert is_by_cpus(state) == bool(expected)
    assert decision is not None
    assert any(wish.setting is CPU_QUOTA for wish in decision.wishes) == enable


def test_with_the_node_switched_off_nobody_is_kept_from_anything() -> None:
    state = replace(of(job(), owner("LSE", "7")), is_colocation_off=True)
    assert decided(state) == NOTHING
    assert managed(state, HELD) == NOTHING


def test_a_nodes_annotation_that_cannot_be_read_does_not_keep_suppression_on() -> None:
    state = of(job(), owner("LSE", "7"), annotations={RESERVATION: "?"}, enable=False)
    assert not is_by_cpus(state)
    assert decided(state) == NOTHING


def test_cpus_that_kubelet_reserves_and_lends_to_all_stay_lent() -> None:
    state = of(job(), owner("LSE", "7"), enable=False)
    lending = Kubelet("static", CPUSet([0]))
    strict = replace(lending, cpu_options={"strict-cpu-reservation": "true"})
    assert set(given(decided(replace(state, kubelet=lending))).values()) == {"0-6,8-15"}
    assert set(given(decided(replace(state, kubelet=strict))).values()) == {"1-6,8-15"}


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"numaNodeResources": [{"node": 1, "resources": {"kubernetes.io/batch-cpu": "2000"}}]}, "4-6,12-15"),
        ({"cpuset": "4-5"}, "4-5"),
        ({"numaNodeResources": [{"node": 1, "resources": {"kubernetes.io/batch-memory": "1Gi"}}]}, "0-6,8-15"),
    ],
)
def test_what_the_scheduler_gave_counts_in_place_of_a_budget(status: dict[str, Any], expected: str) -> None:
    state = of(job(**status), owner("LSE", "7"), cpuSuppressPolicy="cpuset")
    decision = managed(state, HELD)
    assert given(decision) == {
        BE: "0-6,8-15",
        f"{BE}/podjob": "0-6,8-15",
        f"{BE}/podjob/job-main": expected,
        f"{BE}/podjob/sandbox": expected,
    }


def test_where_the_scheduler_gave_nothing_nothing_is_said() -> None:
    assert managed(of(job()), HELD) == NOTHING
    assert managed(node(slo=None), HELD) is None
