"""CPU suppress: the specification's examples with their arithmetic, and what holds for every node."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.agent.host.knobs import CPU_QUOTA, CPUSET_CPUS
from koord.agent.qos.cpu_budget import CpuBudget
from koord.agent.qos.cpu_choice import choose
from koord.agent.qos.cpu_suppress import STRATEGY, BestEffortLimits, _since, cpu_count, decide, quota_us
from koord.agent.qos.decision import NOTHING
from koord.agent.qos.strategy import Sight
from koord.agent.series.names import NODE_CPU, host_application_cpu, pod_cpu
from koord.agent.series.samples import Samples
from koord.agent.state import Kubelet, NodeState
from koord.api.text.cpuset import NO_CPUS, CPUSet
from tests.agent.states import NOW, cpus, delivered, node, pod, samples

BE_DIR = "kubepods/besteffort"
FREE = BestEffortLimits(NO_CPUS, -1)


def slo(**threshold: Any) -> dict[str, Any]:
    return {
        "resourceUsedThresholdWithBE": {"enable": True, **threshold},
        "hostApplications": [{"name": "web", "qos": "LS"}],
    }


def busy_node(
    *, reserved: int = 1, used: float = 23_000, first: float = 9_250, **threshold: Any
) -> tuple[NodeState, Samples]:
    """48 cores: services of 9.25 and 4.5, best effort of 6, a host application of 1.5."""
    state = node(
        pod("a", "LS", requests={"cpu": "10"}),
        pod("b", "LS", requests={"cpu": "5"}),
        pod("be", "BE"),
        topology=cpus(2, 12, 2),
        slo=slo(cpuSuppressThresholdPercent=70, **threshold),
        allocatable={"cpu": str(48 - reserved)},
    )
    usage = {
        NODE_CPU: used,
        pod_cpu("a"): first,
        pod_cpu("b"): 4_500,
        pod_cpu("be"): 6_000,
        host_application_cpu("web"): 1_500,
    }
    return state, samples(usage)


def cpus_given(state: NodeState, usage: Samples, held: BestEffortLimits = FREE) -> int:
    decision = decide(state, usage, held, NOW)
    assert decision is not None
    (write,) = [write for write in delivered(state, decision.wishes) if write.directory == BE_DIR]
    assert isinstance(write.value, CPUSet)
    return len(write.value)


def test_what_services_leave_of_the_threshold() -> None:
    # system = 23 - 19.75 - 1.5 = 1.75; 33600 - 13750 - 1500 - 1750 = 16600m -> 17 CPUs
    assert cpus_given(*busy_node()) == 17


def test_a_larger_reservation_counts_as_the_system() -> None:
    # 33600 - 13750 - 1500 - 3000 = 15350m -> 16 CPUs
    assert cpus_given(*busy_node(reserved=3)) == 16


def test_an_overloaded_node_leaves_two_cpus_or_the_floor() -> None:
    # Pods of 35.5 + 4.5 = 40, nothing of best effort: 33600 - 40000 - ... < 0.
    assert cpus_given(*busy_node(used=46_000, first=35_500)) == 2
    # 12% of 48 cores = 5760m -> 6 CPUs
    assert cpus_given(*busy_node(used=46_000, first=35_500, cpuSuppressMinPercent=12)) == 6


@pytest.mark.parametrize(("count", "expected"), [(7, "0-1,6-7,12-13,18"), (10, "0-2,6-7,12-14,18-19")])
def test_whole_cores_spread_over_numa_nodes(count: int, expected: str) -> None:
    assert str(choose(count, cpus(2, 6, 2), NO_CPUS, NO_CPUS)) == expected


def test_cpus_of_lsr_pods_are_lent_in_proportion_and_those_of_others_never() -> None:
    # LSR 4, rest 16, n = 9: one of the LSR pod's; of the rest the larger NUMA node first.
    lsr, never = CPUSet.parse("0-1,12-13"), CPUSet.parse("2,14") | CPUSet.parse("6,18")
    assert str(choose(9, cpus(2, 6, 2), never, lsr)) == "0,3-4,7-8,15-16,19-20"


def test_single_cpus_begin_anew_once_no_whole_core_is_left() -> None:
    # Of node 0 there are the core 0,8 and CPUs 1, 2, 3, of node 1 CPUs 4, 5, 6, 7: the core, then 1, 4, 2.
    never = CPUSet.parse("9-15")
    assert str(choose(5, cpus(2, 4, 2), never, NO_CPUS)) == "0-2,4,8"


def test_a_node_without_a_cpu_to_give_is_left_as_it_is() -> None:
    assert choose(2, cpus(1, 1, 2), CPUSet([0, 1]), NO_CPUS) == NO_CPUS


def test_cpus_grow_by_a_tenth_of_the_node_per_round() -> None:
    # Old 4 CPUs, 11200m allowed: 12, capped at 4 + ceil(2.4) = 7, then 10.
    assert cpu_count(11_200, 4, 24) == 7
    assert cpu_count(11_200, 7, 24) == 10
    assert cpu_count(8_600, 24, 24) == 9


@pytest.mark.parametrize(
    ("allowed", "held", "expected"),
    [
        (9_000, 1_200_000, 900_000),
        (9_200, 912_345, 912_345),
        (12_000, 300_000, 700_000),
        (5, 800_000, 2_000),
        (6_000, -1, 600_000),
    ],
)
def test_quota_of_forty_cores(allowed: int, held: int, expected: int) -> None:
    budget = CpuBudget(40_000, 100, pods=40_000 - allowed, host_applications=0, system=0)
    assert quota_us(budget, BestEffortLimits(NO_CPUS, held)) == expected


@pytest.mark.parametrize(
    ("allowed", "for_s", "yields", "expected"),
    [
        # Held: 1000000. Of 40 cores 5% are 200000.
        (10_900, 1.0, False, 1_000_000),
        (10_900, 3.0, False, 1_090_000),
        (9_100, 1.0, False, 910_000),
        (9_100, 19.0, True, 1_000_000),
        (9_100, 20.0, True, 910_000),
        (7_900, 2.0, True, 1_000_000),
        (7_900, 3.0, True, 790_000),
        (12_100, 2.0, True, 1_000_000),
        (12_100, 3.0, True, 1_210_000),
        (36_000, 5.0, False, 1_400_000),
        (36_000, 5.0, True, 3_000_000),
        (10, 1.0, True, 2_000),
    ],
)
def test_small_growth_waits_and_where_best_effort_yields_any_change(
    allowed: int, for_s: float, yields: bool, expected: int
) -> None:
    budget = CpuBudget(40_000, 100, pods=40_000 - allowed, host_applications=0, system=0)
    assert quota_us(budget, BestEffortLimits(NO_CPUS, 1_000_000, yields=yields, for_s=for_s)) == expected


def test_the_quota_lies_on_all_best_effort_pods_together() -> None:
    state, usage = busy_node(cpuSuppressPolicy="cfsQuota")
    decision = decide(state, usage, FREE, NOW)
    assert decision is not None
    (write,) = delivered(state, decision.wishes)
    assert (write.knob, write.directory, write.value) == (CPU_QUOTA, BE_DIR, 1_660_000)
    assert "16600m" in write.why


def test_pods_and_containers_get_the_same_cpus_as_their_parent() -> None:
    state, usage = busy_node()
    held = BestEffortLimits(NO_CPUS, -1, [f"{BE_DIR}/podbe"], [f"{BE_DIR}/podbe/c"])
    decision = decide(state, usage, held, NOW)
    assert decision is not None
    writes = delivered(state, decision.wishes)
    assert {write.knob for write in writes} == {CPUSET_CPUS}
    assert len({write.value for write in writes}) == 1
    assert [write.directory for write in writes] == [BE_DIR, f"{BE_DIR}/podbe", f"{BE_DIR}/podbe/c"]


def test_beside_kubelets_static_policy_only_containers_shrink() -> None:
    state, usage = busy_node()
    static = node(*state.pods.values(), topology=state.topology, slo=slo(), kubelet=Kubelet("static", CPUSet([0])))
    held = BestEffortLimits(NO_CPUS, -1, [f"{BE_DIR}/podbe"], [f"{BE_DIR}/podbe/c"])
    decision = decide(static, usage, held, NOW)
    assert decision is not None
    values = {write.directory: write.value for write in delivered(static, decision.wishes)}
    assert values[BE_DIR] == values[f"{BE_DIR}/podbe"] == CPUSet(range(1, 48))
    container = values[f"{BE_DIR}/podbe/c"]
    assert isinstance(container, CPUSet)
    assert len(container) < 20


def test_a_budget_beyond_what_nobody_has_alone_still_keeps_best_effort_off_the_rest() -> None:
    # 65% of 8 cores, and nothing is used: 6 CPUs, where 3 are left beside those of the LSE pod.
    alone = {"scheduling.koordinator.sh/resource-status": '{"cpuset": "0-4"}'}
    state = node(pod("db", "LSE", annotations=alone), pod("be", "BE"), slo=slo())
    usage = samples({NODE_CPU: 0, pod_cpu("db"): 0, pod_cpu("be"): 0, host_application_cpu("web"): 0})
    decision = decide(state, usage, FREE, NOW)
    assert decision is not None
    assert {write.value for write in delivered(state, decision.wishes)} == {CPUSet([5, 6, 7])}


def test_without_fresh_usage_nothing_is_decided() -> None:
    state, usage = busy_node()
    assert decide(state, usage, FREE, NOW + 3) is None
    assert decide(state, Samples(), FREE, NOW) is None
    assert decide(node(slo=None), usage, FREE, NOW) is None


def test_while_no_pod_is_known_nothing_is_decided() -> None:
    # Kubelet has not answered yet: what best effort uses would count as the system's.
    assert decide(node(slo=slo()), samples({NODE_CPU: 3_000}), FREE, NOW) is None


def test_switched_off_it_wants_nothing() -> None:
    state = node(slo={"resourceUsedThresholdWithBE": {"enable": False}})
    assert decide(state, Samples(), FREE, NOW) == NOTHING


def test_a_pod_that_nobody_knows_counts_as_a_service() -> None:
    state = node(pod("be", "BE"), slo=slo(), topology=cpus(1, 8, 1))
    known = samples({NODE_CPU: 3_000, pod_cpu("be"): 1_000})
    unknown = samples({NODE_CPU: 3_000, pod_cpu("be"): 1_000, pod_cpu("stranger"): 1_500})
    # 65% of 8 = 5200m, less 2000m of system; or 1500m of the stranger and 500m.
    for usage in (known, unknown):
        assert cpus_given(state, usage, BestEffortLimits(CPUSet(range(8)), -1)) == 4


@given(
    st.integers(0, 60_000), st.integers(0, 100), st.integers(0, 30_000), st.integers(0, 9_000),
    st.one_of(st.just(-1), st.integers(2000, 4_800_000)), st.booleans(), st.floats(0, 60),
)  # fmt: skip
def test_a_quota_is_never_below_its_floor_nor_grows_faster_than_it_should(
    pods: int, threshold: int, applications: int, system: int, held: int, yields: bool, for_s: float
) -> None:
    budget = CpuBudget(48_000, threshold, pods, applications, system)
    quota = quota_us(budget, BestEffortLimits(NO_CPUS, held, yields=yields, for_s=for_s))
    assert quota == held or quota >= 2000
    if held != -1:
        assert quota <= held + 480_000 * ((5 if for_s >= 3 else 1) if yields else 1)


@given(
    st.integers(2, 40),
    st.sets(st.integers(0, 23)).map(CPUSet),
    st.sets(st.integers(0, 23)).map(CPUSet),
)
def test_nobody_gets_a_cpu_that_belongs_to_another(count: int, never: CPUSet, lsr: CPUSet) -> None:
    chosen = choose(count, cpus(2, 6, 2), never, lsr)
    assert chosen.isdisjoint(never)
    assert len(chosen) <= count


def test_where_best_effort_yields_a_quota_is_decided_upon_every_five_seconds_by_what_was_used_in_them() -> None:
    state, _ = busy_node(cpuSuppressPolicy="cfsQuota")
    usage, memory, decided = Samples(), STRATEGY.memory, {}
    for second in range(13):
        now_s = NOW + second
        service = 9_000 if second % 2 else 11_000
        figures = {NODE_CPU: service + 10_500, pod_cpu("a"): service, pod_cpu("b"): 4_500, pod_cpu("be"): 6_000}
        for series, value in figures.items():
            usage.add(series, now_s, value)
        held = BestEffortLimits(NO_CPUS, 1_000_000, yields=True)
        decision, memory = STRATEGY.decide(Sight(state, usage, now_s), held, memory)
        if decision is not None:
            decided[second] = {write.knob.name: write.value for write in delivered(state, decision.wishes)}
    assert list(decided) == [0, 5, 10]
    # 70% of 48, less services of 10 (9 and 11) and 4.5, and 1 of the system, which has that reserved.
    assert decided[5][CPU_QUOTA.name] == decided[10][CPU_QUOTA.name] == 1_810_000
    other = node(*state.pods.values(), topology=state.topology, slo=slo(cpuSuppressPolicy="cfsQuota"))
    decision, _ = STRATEGY.decide(Sight(other, usage, NOW + 12), held, memory)
    assert decision is not None, "another state counts at once"


def test_where_best_effort_yields_a_service_that_needs_more_has_it_counted_at_the_second_decision() -> None:
    """The first one writes a quota, which is seen a round later."""
    state, _ = busy_node(cpuSuppressPolicy="cfsQuota")
    usage, memory, quota, written = Samples(), STRATEGY.memory, -1, {}
    for second in range(9):
        now_s, service = NOW + second, 9_000 if second == 0 else 19_000
        figures = {NODE_CPU: service + 10_500, pod_cpu("a"): service, pod_cpu("b"): 4_500, pod_cpu("be"): 6_000}
        for series, value in figures.items():
            usage.add(series, now_s, value)
        held = BestEffortLimits(NO_CPUS, quota, yields=True, for_s=now_s - _since(memory, quota, now_s).since_s)
        decision, memory = STRATEGY.decide(Sight(state, usage, now_s), held, memory)
        for write in delivered(state, decision.wishes) if decision is not None else ():
            if write.knob.name == CPU_QUOTA.name and isinstance(write.value, int) and write.value != quota:
                written[second] = quota = write.value
    assert list(written) == [0, 5]
