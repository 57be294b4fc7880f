"""From samples to a minute: what counts as services, what batch wanted, and what its pods are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from koord.agent.lending.counting import CountedPod
from koord.agent.lending.learner import Learner
from koord.agent.lending.measuring import minute_of
from koord.agent.pods import AgentPod
from koord.agent.series import names
from koord.agent.series.samples import Samples, Series
from koord.agent.state import NodeState
from koord.api.text.timestamp import from_seconds
from tests.agent.states import GIB, cpus, node, pod

END_S = 1000.0
AT_S = 1_800_000_000.0
ADAPTIVE: dict[str, Any] = {
    "resourceUsedThresholdWithBE": {"enable": True, "cpuSuppressPolicy": "cfsQuota"},
    "lendingStrategy": {"cpuSafetyMarkPercent": 85},
}


def job(name: str, request: str = "4k", age_s: float = 3600.0) -> AgentPod:
    made = pod(name, "BE", requests={"kubernetes.io/batch-cpu": request})
    return replace(made, started=from_seconds(AT_S - age_s))


def known(*pods: AgentPod, slo: dict[str, Any] | None = None, **given: Any) -> NodeState:
    return node(*pods, slo=ADAPTIVE if slo is None else slo, topology=cpus(1, 4, 2), **given)


def sampled(values: dict[Series, float], seconds: int = 90) -> Samples:
    samples = Samples()
    for second in range(seconds):
        for series, value in values.items():
            samples.add(series, END_S - seconds + 1 + second, value)
    return samples


CALM = {names.SERVICES_CPU: 2_000.0, names.BE_CPU: 1_500.0, names.NODE_MEMORY: 20.0 * GIB}


def test_services_are_the_mean_of_the_minute_and_their_rise_is_seen_against_the_30_s_before() -> None:
    samples = Samples()
    for second in range(90):
        samples.add(names.SERVICES_CPU, END_S - 89 + second, 2_000 if second < 60 else 5_000)
    minute = minute_of(known(), samples, {}, END_S, AT_S)
    assert minute is not None
    assert minute.services_milli == 3_500
    assert minute.rise_milli == pytest.approx(sum(3_000 * (1 - s / 30) for s in range(30)) / 60, rel=0.05)


def test_less_than_half_of_a_minute_is_none() -> None:
    assert minute_of(known(), sampled(CALM, seconds=25), {}, END_S, AT_S) is None
    assert minute_of(known(), Samples(), {}, END_S, AT_S) is None


def test_throttled_time_is_what_batch_wanted_beyond_its_use() -> None:
    minute = minute_of(known(), sampled({**CALM, names.BE_THROTTLED: 700.0}), {}, END_S, AT_S)
    assert minute is not None
    assert minute.batch_wanted_milli == 2_200


def test_batch_that_fills_its_cpus_wants_what_its_pods_count_for() -> None:
    by_cpus = known(slo={"resourceUsedThresholdWithBE": {"enable": True}, "lendingStrategy": {}})
    full = sampled({**CALM, names.BE_CPU: 1_950.0, names.BE_CPU_LIMIT: 2_000.0})
    counted = {"job": CountedPod(3_000, is_young=False)}
    minute = minute_of(by_cpus, full, counted, END_S, AT_S)
    assert minute is not None
    assert minute.batch_wanted_milli == 3_000


def test_batch_pods_have_their_use_their_age_and_requests_in_cpus_of_the_node() -> None:
    fast = {"node.koordinator.sh/cpu-normalization-ratio": "2.00"}
    state = known(job("a", age_s=100.0), job("new"), pod("web", "LS", requests={"cpu": "1"}), annotations=fast)
    minute = minute_of(state, sampled({**CALM, names.pod_cpu("a"): 700.0, names.pod_cpu("web"): 1.0}), {}, END_S, AT_S)
    assert minute is not None
    assert dict(minute.pods) == {"a": (2_000, 700, 100)}, "a pod that was not measured yet is counted by the manager"


def test_containers_of_yarn_are_batch_one_by_one() -> None:
    guest = replace(job("container_1"), started=from_seconds(AT_S - 50))
    state = replace(known(), guests={"container_1": guest})
    minute = minute_of(state, sampled({**CALM, names.guest_cpu("container_1"): 900.0}), {}, END_S, AT_S)
    assert minute is not None
    assert minute.pods["container_1"] == (4_000, 900, 50)


def test_memory_of_services_is_the_highest_of_the_minute_without_batch() -> None:
    samples = sampled({**CALM, names.pod_memory("a"): 5.0 * GIB})
    samples.add(names.NODE_MEMORY, END_S + 0.5, 30.0 * GIB)
    samples.add(names.pod_memory("a"), END_S + 0.5, 12.0 * GIB)
    minute = minute_of(known(job("a")), samples, {}, END_S + 0.5, AT_S)
    assert minute is not None
    assert minute.services_memory_bytes == 18 * GIB


def test_memory_that_the_system_reserves_and_does_not_use_is_not_lent() -> None:
    state = known(allocatable={"memory": str(58 * GIB)})
    minute = minute_of(state, sampled({**CALM, names.SYSTEM_MEMORY: 2.0 * GIB}), {}, END_S, AT_S)
    assert minute is not None
    assert minute.services_memory_bytes == 20 * GIB + 4 * GIB


def test_a_node_with_another_policy_learns_but_moves_no_controller() -> None:
    """What did not follow from the margin says nothing about it."""
    samples = sampled({**CALM, names.BE_CPU: 7_500.0, names.BE_THROTTLED: 3_000.0})
    other, adaptive = Learner(), Learner()
    assert other.learn(known(slo={"resourceUsedThresholdWithBE": {"enable": True}}), samples, END_S, AT_S)
    assert adaptive.learn(known(), samples, END_S, AT_S)
    assert (other.memory.minutes, other.memory.batch_minutes, other.memory.scale) == (1, 0, 1.0)
    assert adaptive.memory.batch_minutes == 1
    assert adaptive.memory.scale > 1, "8 cores used of 8, above the mark"


def test_figures_are_told_of_a_recent_minute_and_of_what_a_predecessor_learned_a_short_time_ago() -> None:
    state, samples, learner = known(), sampled(CALM), Learner()
    assert learner.outlook(state, samples, END_S, AT_S) is None, "nothing was learned yet"
    learner.learn(state, samples, END_S, AT_S)
    outlook = learner.outlook(state, samples, END_S, AT_S)
    assert outlook is not None
    assert outlook.is_in_force
    assert outlook.ceiling_milli == pytest.approx(6_800 - 800 - 2_000, abs=1)
    assert learner.outlook(state, samples, END_S + 200, AT_S + 200) is None
    successor = Learner(learner.memory)
    assert successor.outlook(state, Samples(), 5.0, AT_S + 60) is not None
    assert successor.outlook(state, Samples(), 5.0, AT_S + 7200) is None
