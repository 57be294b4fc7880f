"""CPU burst: the specification's examples, and who has no part in it."""

from dataclasses import replace
from typing import Any

import pytest

from koord.agent.host.knobs import CPU_BURST, CPU_QUOTA
from koord.agent.qos.burst_tokens import Tokens
from koord.agent.qos.cpu_burst import BurstOutcome, Move, Pool, burst_us, decide, move_of, moved, pool_state
from koord.agent.qos.decision import NOTHING
from koord.agent.series.names import NODE_CPU, container_throttled, pod_cpu
from koord.agent.series.samples import Samples
from koord.agent.state import NodeState
from tests.agent.states import NOW, cpus, delivered, node, pod, samples

POD, CONTAINER = "kubepods/burstable/podweb", "kubepods/burstable/podweb/web-main"


def web(**annotations: str) -> Any:
    keys = {f"koordinator.sh/{key}": value for key, value in annotations.items()}
    return pod("web", "LS", requests={"cpu": "1"}, limits={"cpu": "1500m"}, annotations=keys)


def bursting(*pods: Any, **strategy: Any) -> NodeState:
    return node(*pods, slo={"cpuBurstStrategy": {"policy": "auto", **strategy}}, topology=cpus(1, 16, 2))


def decided(state: NodeState, usage: Samples, quotas: dict[str, int]) -> BurstOutcome:
    outcome = decide(state, usage, quotas, {}, seed=0, now_s=NOW)
    assert outcome is not None
    return outcome


@pytest.mark.parametrize(("limit", "percent", "expected"), [(2500, 800, 2_000_000), (500, 1000, 500_000)])
def test_what_can_be_saved_up(limit: int, percent: int, expected: int) -> None:
    assert burst_us(limit, percent, within_quota=False) == expected


def test_a_mainline_kernel_saves_up_one_quota_at_most() -> None:
    assert burst_us(2500, 800, within_quota=True) == 250_000
    assert burst_us(2500, 50, within_quota=True) == 125_000


@pytest.mark.parametrize(
    ("used", "best_effort", "expected"),
    # 20000 - 4000 - 3500 = 12500 of 26000, 0.481; 19500 - 4000 - 3900 = 11600, 0.446; 17000 + 7500 = 26500 of 26000
    [(20_000, 3_500, Pool.COOLING), (19_500, 3_900, Pool.IDLE), (21_000, 3_500, Pool.OVERLOAD)],
)
def test_how_busy_the_share_pool_is(used: float, best_effort: float, expected: Pool) -> None:
    state = bursting(pod("r", "LSR", requests={"cpu": "6"}), pod("be", "BE"))
    usage = samples({NODE_CPU: used, pod_cpu("r"): 4_000, pod_cpu("be"): best_effort})
    assert pool_state(state, usage, 50, NOW) is expected


def test_without_data_the_pool_is_unknown_and_without_shared_cpus_full() -> None:
    assert pool_state(bursting(), Samples(), 50, NOW) is Pool.UNKNOWN
    state = bursting(pod("r", "LSR", requests={"cpu": "32"}))
    assert pool_state(state, samples({NODE_CPU: 0.0}), 50, NOW) is Pool.OVERLOAD


def test_a_quota_climbs_to_its_ceiling_and_back() -> None:
    base, quota, seen = 150_000, 150_000, []
    for _ in range(7):
        quota = moved(Move.UP, base, quota, 300)
        seen.append(quota)
    assert seen == [180_000, 216_000, 259_200, 311_040, 373_248, 447_897, 450_000]
    seen = [quota := moved(Move.DOWN, base, quota, 300) for _ in range(3)]
    assert seen == [360_000, 288_000, 230_400]
    assert moved(Move.RESET, base, quota, 300) == 150_000
    assert moved(Move.UP, base, base, 100) == 150_000


@pytest.mark.parametrize(
    ("pool", "throttled", "allowed", "expected"),
    [
        (Pool.IDLE, 0.07, True, Move.UP),
        (Pool.IDLE, 0.0, True, Move.REMAIN),
        (Pool.IDLE, None, True, Move.REMAIN),
        (Pool.IDLE, 0.07, False, Move.DOWN),
        (Pool.COOLING, 0.07, True, Move.REMAIN),
        (Pool.UNKNOWN, 0.07, True, Move.REMAIN),
        (Pool.OVERLOAD, 0.07, True, Move.DOWN),
        (Pool.OVERLOAD, 0.0, True, Move.DOWN),
    ],
)
def test_who_is_raised(pool: Pool, throttled: float | None, allowed: bool, expected: Move) -> None:
    assert move_of(pool, throttled, allowed) is expected


def test_tokens_are_spent_above_the_limit_and_earned_well_below() -> None:
    tokens, seen = Tokens(Tokens.capacity_of(120, 250), 4000, 0.0), []
    assert tokens.capacity == 18_000
    for step, used in enumerate((180, 220, 75, 40), start=1):
        tokens = tokens.after(used, step * 5.0)
        seen.append(tokens.left)
        assert tokens.allows
    assert seen == [3600, 3000, 3000, 3300]


def test_tokens_of_a_short_period_run_out() -> None:
    tokens, seen = Tokens(Tokens.capacity_of(20, 300), 1000, 0.0), []
    for at_s, used in ((5.0, 250), (10.0, 250), (20.0, 40)):
        tokens = tokens.after(used, at_s)
        seen.append((tokens.left, tokens.allows))
    assert seen == [(250, True), (-500, False), (100, True)]


def test_a_period_of_nothing_lets_no_quota_stay_raised() -> None:
    usage = samples({NODE_CPU: 1_000, container_throttled("containerd://web-main"): 0.5})
    for period, expected in ((0, 240_000), (-1, 360_000)):
        state = bursting(web(), policy="cfsQuotaBurstOnly", cfsQuotaBurstPeriodSeconds=period)
        wishes = decided(state, usage, {POD: 300_000, CONTAINER: 300_000}).decision.wishes
        assert {wish.value for wish in wishes} == {expected}


def test_tokens_outlive_a_round_without_their_container_and_are_gone_after_two_periods() -> None:
    state = bursting(cfsQuotaBurstPeriodSeconds=300)
    tokens = {
        name: replace(Tokens.fresh(300, 300, 0, name, NOW), at_s=NOW - ago_s)
        for name, ago_s in (("late", 590.0), ("gone", 610.0))
    }
    outcome = decide(state, samples({NODE_CPU: 1_000}), {}, tokens, seed=0, now_s=NOW)
    assert outcome is not None
    assert outcome.tokens == {"late": tokens["late"]}


def test_a_time_of_which_nobody_knows_costs_no_tokens() -> None:
    state = bursting(web(), cfsQuotaBurstPeriodSeconds=300)
    before = replace(Tokens.fresh(300, 300, 0, "x", NOW), left=1000.0, at_s=NOW - 50)
    quotas = {POD: 150_000, CONTAINER: 150_000}
    outcome = decide(state, samples({NODE_CPU: 1_000}), quotas, {"containerd://web-main": before}, 0, NOW)
    assert outcome is not None
    assert outcome.tokens["containerd://web-main"] == replace(before, at_s=NOW)


def test_a_guaranteed_pod_on_shared_cpus_is_a_service_like_others() -> None:
    own = {"cpu": "2", "memory": "1Gi"}
    cpus_of_its_own = {"scheduling.koordinator.sh/resource-status": '{"cpuset": "0-1"}'}
    usage = samples({NODE_CPU: 1_000, container_throttled("containerd://g-main"): 0.5})
    quotas = {"kubepods/podg": 200_000, "kubepods/podg/g-main": 200_000}
    shared = bursting(pod("g", requests=own, limits=own), policy="cfsQuotaBurstOnly")
    assert {write.value for write in decided(shared, usage, quotas).decision.wishes} == {240_000}
    bound = bursting(pod("g", requests=own, limits=own, annotations=cpus_of_its_own))
    assert decided(bound, usage, quotas).decision == NOTHING
    # 13000 of 32000 are used; of 30000, where two CPUs are a pod's that uses none.
    used = samples({NODE_CPU: 13_500})
    assert pool_state(shared, used, 50, NOW) is Pool.IDLE
    assert pool_state(bound, used, 50, NOW) is Pool.COOLING


def test_beside_a_normalised_quota_no_more_than_that_is_saved_up() -> None:
    # The kernel refuses a quota below what is saved up, and what is saved up above the quota.
    two = [{"name": name, "resources": {"limits": {"cpu": "1"}}} for name in ("a", "b")]
    state = bursting(pod("web", "LS", containers=two), policy="cpuBurstOnly")
    ratio = {"node.koordinator.sh/cpu-normalization-ratio": "1.15"}
    meta = node(annotations=ratio).node
    state = replace(state, node=meta)

    def saved(ratio: float | None) -> list[object]:
        outcome = decide(state, samples({NODE_CPU: 1_000}), {}, {}, 0, NOW, ratio)
        assert outcome is not None
        return [write.value for write in outcome.decision.wishes]

    # 100000 / 1.15 = 86956.5; the pod's 200000 / 1.15 = 173913.04
    assert saved(1.15) == [173_914, 86_957, 86_957]
    # Where quotas are not normalised, whatever the node says.
    assert saved(None) == [200_000, 100_000, 100_000]


def test_a_throttled_container_and_its_pod_get_more() -> None:
    usage = samples({NODE_CPU: 1_000, container_throttled("containerd://web-main"): 0.07})
    state = bursting(web())
    wishes = decided(state, usage, {POD: 150_000, CONTAINER: 150_000}).decision.wishes
    values = {(write.knob.name, write.directory): write.value for write in delivered(state, wishes)}
    assert values == {
        (CPU_BURST.name, POD): 150_000,
        (CPU_BURST.name, CONTAINER): 150_000,
        (CPU_QUOTA.name, CONTAINER): 180_000,
        (CPU_QUOTA.name, POD): 180_000,
    }


def test_an_unlimited_pod_stays_so() -> None:
    usage = samples({NODE_CPU: 1_000, container_throttled("containerd://web-main"): 0.07})
    state = bursting(web())
    wishes = decided(state, usage, {POD: -1, CONTAINER: 150_000}).decision.wishes
    assert [write.directory for write in delivered(state, wishes) if write.knob is CPU_QUOTA] == [CONTAINER]


def test_a_pods_own_word_counts_more_than_the_nodes() -> None:
    usage = samples({NODE_CPU: 1_000})
    quotas = {POD: 150_000, CONTAINER: 150_000}
    off = decided(bursting(web(cpuBurst='{"policy": "none"}')), usage, quotas)
    assert off.decision == NOTHING
    own = decided(bursting(web(cpuBurst='{"cpuBurstPercent": 80}'), policy="cpuBurstOnly"), usage, quotas)
    assert {write.value for write in own.decision.wishes} == {120_000}


@pytest.mark.parametrize("qos", ["LSR", "LSE", "BE"])
def test_pods_with_their_own_cpus_and_best_effort_have_no_part(qos: str) -> None:
    state = bursting(pod("x", qos, requests={"cpu": "1"}, limits={"cpu": "1"}))
    assert decided(state, samples({NODE_CPU: 1_000}), {}).decision == NOTHING


def test_without_settings_nothing_is_decided() -> None:
    assert decide(node(slo=None), Samples(), {}, {}, 0, NOW) is None
