"""The ceiling of the policy `adaptive`, carried out by suppression; and eviction where batch starves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from koord.agent.host.convert import UNLIMITED
from koord.agent.host.knobs import CPU_QUOTA
from koord.agent.lending.counting import CountedPod
from koord.agent.lending.learning import LendingMemory
from koord.agent.pods import AgentPod
from koord.agent.qos import cpu_evict
from koord.agent.qos.cpu_ceiling import cpu_ceiling
from koord.agent.qos.cpu_suppress import BestEffortLimits, decide
from koord.agent.qos.strategy import Departures, Sight
from koord.agent.series import names
from koord.agent.series.samples import Samples
from koord.agent.state import DEFAULT_GATES, NodeState
from koord.api.configuration.features import AgentGate
from koord.api.text.cpuset import NO_CPUS
from koord.api.text.timestamp import from_seconds
from tests.agent.states import NOW, cpus, node, pod

LEARNED = LendingMemory(minutes=10_000, at_s=1_800_000_000.0)
"""Nothing ever rose: the least margin, 2% of the node."""


def lends(*pods: AgentPod, mark: int = 85, **thresholds: Any) -> NodeState:
    strategy = {"enable": True, "cpuSuppressPolicy": "cfsQuota", **thresholds}
    slo = {"resourceUsedThresholdWithBE": strategy, "lendingStrategy": {"cpuSafetyMarkPercent": mark}}
    return node(*pods, slo=slo, topology=cpus(1, 32, 2))


def services(*values: float) -> Samples:
    """One a second, the last just now."""
    samples = Samples()
    for place, value in enumerate(values):
        samples.add(names.SERVICES_CPU, NOW - len(values) + 1 + place, value)
    return samples


def test_batch_may_use_what_the_mark_leaves_above_the_margin_and_services() -> None:
    ceiling = cpu_ceiling(lends(), LEARNED, services(*[12_600.0] * 30), None, NOW, 0.0)
    assert ceiling is not None
    assert ceiling.allowed == 54_400 - 1_280 - 12_600
    assert str(ceiling) == "mark 54400m - margin 1280m - services 12600m = 40520m"


def test_a_jump_within_the_margin_waits_for_the_mean_and_one_beyond_it_is_given_way_to_at_once() -> None:
    calm = [12_000.0] * 29
    small = cpu_ceiling(lends(), LEARNED, services(*calm, 13_000.0), None, NOW, 0.0)
    large = cpu_ceiling(lends(), LEARNED, services(*calm, 36_000.0), None, NOW, 0.0)
    assert small is not None
    assert large is not None
    assert small.allowed == pytest.approx(54_400 - 1_280 - 12_033, abs=1)
    assert large.allowed == 54_400 - 36_000
    assert str(large) == "mark 54400m - services just now 36000m = 18400m"


def test_a_node_without_history_keeps_a_tenth_free() -> None:
    ceiling = cpu_ceiling(lends(), LendingMemory(), services(10_000.0), None, NOW, 0.0)
    assert ceiling is not None
    assert ceiling.allowed == 54_400 - 6_400 - 10_000


def test_nothing_is_decided_without_a_recent_sample() -> None:
    assert cpu_ceiling(lends(), LEARNED, Samples(), None, NOW, 0.0) is None
    assert cpu_ceiling(lends(), LEARNED, services(10_000.0), None, NOW + 60, 0.0) is None


def test_services_that_need_all_leave_the_floor() -> None:
    ceiling = cpu_ceiling(lends(), LEARNED, services(60_000.0), 5, NOW, 0.0)
    assert ceiling is not None
    assert ceiling.allowed == 3_200


def test_suppression_goes_by_the_ceiling_where_the_policy_is_in_force_and_by_the_threshold_where_not() -> None:
    job = pod("job", "BE")
    usage = services(*[10_000.0] * 30)
    for series, value in {names.NODE_CPU: 20_000.0, names.pod_cpu("job"): 10_000.0}.items():
        usage.add(series, NOW, value)
    limits = BestEffortLimits(NO_CPUS, UNLIMITED)

    def quota(state: NodeState) -> object:
        decision = decide(state, usage, limits, NOW, LEARNED)
        assert decision is not None
        return next(wish.value for wish in decision.wishes if wish.setting is CPU_QUOTA)

    in_force = lends(job)
    assert in_force.slo is not None
    by_threshold = replace(in_force, slo=type(in_force.slo)(in_force.slo.resource_used_threshold_with_be))
    assert quota(in_force) == (54_400 - 1_280 - 10_000) * 100
    assert quota(by_threshold) == (64_000 * 65 // 100 - 10_000) * 100
    off = decide(replace(in_force, is_colocation_off=True), usage, limits, NOW, LEARNED)
    assert off is not None
    assert not off.wishes


def starving(got: float, *pods: AgentPod, peace_s: float | None = None) -> list[str]:
    counted = {pod.uid: CountedPod(20_000.0, is_young=False) for pod in pods}
    memory = replace(LEARNED, got_mean=got, counted=counted)
    gates = {**DEFAULT_GATES, AgentGate.BE_CPU_EVICT: True}
    last = {} if peace_s is None else {cpu_evict.NAME: NOW - peace_s}
    sight = Sight(replace(lends(*pods), gates=gates), services(30_000.0), NOW, Departures(last_s=last), lending=memory)
    decision = cpu_evict.STRATEGY.decide(sight, None, None).decision
    return [] if decision is None else [eviction.pod.uid for eviction in decision.evictions]


def job(name: str, age_s: float, **annotations: str) -> AgentPod:
    made = pod(name, "BE", requests={"kubernetes.io/batch-cpu": "20k"}, annotations=annotations)
    return replace(made, started=from_seconds(1_800_000_000.0 - age_s))


def test_batch_that_starves_loses_the_pod_that_did_least() -> None:
    """Three want 60 cores, and 23 are there: 90% of one fits."""
    assert starving(0.3, job("old", 7200), job("young", 400), job("middle", 3600)) == ["young", "middle"]


def test_a_pod_that_can_save_its_work_goes_first() -> None:
    saves = job("old", 7200, **{"scheduling.koord.sh/eviction-notice": "60s"})
    assert starving(0.3, saves, job("young", 400), job("middle", 3600)) == ["old", "young"]


def test_batch_that_gets_what_it_wants_and_batch_in_peace_lose_nothing() -> None:
    jobs = job("old", 7200), job("young", 400)
    assert starving(0.5, *jobs) == []
    assert starving(0.3, *jobs, peace_s=200) == []
    assert starving(0.3, *jobs, peace_s=400) == ["young"]
