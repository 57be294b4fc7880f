"""The worked examples of caster, Crane, Katalyst and LAR, and what holds for all of them."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koord.agent.lending.peers import caster, crane, katalyst, lar
from koord.agent.lending.peers.detection import Counters, detect
from koord.agent.lending.peers.flow import Band, LarPool, flow
from koord.agent.lending.peers.hours import Hours, with_minute
from koord.agent.lending.peers.policy import AnyPeer, BatchPod, Load, PeerNode, result
from koord.agent.lending.peers.registry import PEERS

GIB = 1024.0**3
HOUR_S = 3600.0
NODE = PeerNode(64_000, 256 * GIB)


def load(
    at_s: float = 0.0,
    *,
    services: float = 20_000,
    requests: float = 40_000,
    batch: float = 0,
    batch_requests: float = 0,
) -> Load:
    return Load(at_s, services, requests, 64 * GIB, 128 * GIB, batch, batch_requests)


@pytest.mark.parametrize(("online", "lent"), [(20_000, 24_800), (50_000, 0)])
def test_caster_lends_what_its_watermark_leaves(online: float, lent: float) -> None:
    memory = caster.POLICY.after_minute(caster.CasterMemory(), load(services=online), NODE)
    assert result(caster.POLICY.cpu(memory, NODE)) == pytest.approx(lent)


def test_caster_evicts_the_least_important_and_youngest_and_closes_the_node_twice_as_long_each_time() -> None:
    pods = [BatchPod("old", 1000, 900), BatchPod("young", 1000, 60), BatchPod("important", 1000, 10, priority=9)]
    memory = caster.CasterMemory()
    closed = []
    for at_s in (10_000.0, 10_060.0, 10_400.0):
        memory = caster.POLICY.after_minute(memory, load(at_s, services=50_000, batch_requests=3000), NODE)
        assert caster.POLICY.why_evict(memory, NODE)
        leaving, memory = caster.POLICY.to_evict(memory, pods, NODE)
        assert leaving == ("young",)
        closed.append(memory.closed_until_s - at_s)
    assert closed == [300, 300, 600]
    calm = caster.POLICY.after_minute(memory, load(10_500.0, services=1000, batch_requests=2000), NODE)
    assert result(caster.POLICY.cpu(calm, NODE)) == 2000
    assert not caster.POLICY.why_evict(calm, NODE)
    later = caster.POLICY.after_minute(memory, load(20_000.0, services=1000), NODE)
    assert result(caster.POLICY.cpu(later, NODE)) == pytest.approx(0.7 * 64_000 - 1000)
    assert later.cool_down_s == 0


def test_crane_takes_the_larger_of_forecast_and_measurement() -> None:
    node = PeerNode(16_000, 64 * GIB)
    day = crane.CraneMemory()
    for hour in range(26):
        peak = 6200 / 1.2 if hour in (1, 2) else 1000.0
        day = crane.POLICY.after_minute(day, load(hour * HOUR_S, services=peak), node)
    assert crane.forecast(day.cpu) == pytest.approx(6200)
    now = replace(day, services_milli=7000)
    assert result(crane.POLICY.cpu(now, node)) == pytest.approx(16_000 * 0.9 - 7000)
    idle = replace(day, services_milli=100)
    assert result(crane.POLICY.cpu(idle, node)) == pytest.approx(16_000 * 0.9 - 6200)


def test_crane_forecasts_nothing_before_a_day_of_history() -> None:
    assert crane.forecast(Hours(23, 1, (1.0,) * 24, (1.0,) * 24)) is None


def test_hours_keep_their_mean_and_peak_and_a_gap_ends_history() -> None:
    hours = Hours()
    for at_s, value in ((0.0, 1.0), (60.0, 3.0), (HOUR_S, 5.0)):
        hours = with_minute(hours, at_s, value, 2)
    assert (hours.means, hours.most) == ((2.0, 5.0), (3.0, 5.0))
    assert with_minute(hours, 4 * HOUR_S, 7.0, 2).means == (7.0,)


def test_crane_closes_a_node_above_its_watermark_for_five_minutes() -> None:
    hot = crane.POLICY.after_minute(
        crane.CraneMemory(), load(1000.0, services=50_000, batch=10_000, batch_requests=12_000), NODE
    )
    cool = crane.POLICY.after_minute(hot, load(1060.0, services=1000, batch_requests=12_000), NODE)
    open_again = crane.POLICY.after_minute(cool, load(1300.0, services=1000, batch_requests=12_000), NODE)
    assert result(crane.POLICY.cpu(cool, NODE)) == 12_000
    assert result(crane.POLICY.cpu(open_again, NODE)) == pytest.approx(0.9 * 64_000 - 1000)


def test_cranes_counters_are_sticky_until_restored() -> None:
    counters, events = Counters(), []
    for is_above in (True, True, False, True, False, False):
        counters, event = detect(counters, is_above=is_above, avoidance_threshold=2, restore_threshold=2)
        events.append(event)
    assert events == ["", "Triggered", "", "Triggered", "", "Restored"]


def test_katalysts_headroom_follows_the_use_of_the_reclaim_pool() -> None:
    # u = 5/20: 20 + 20 * (0.6 - 0.25) = 27, at most 1.2 * 20
    assert katalyst.headroom_milli(20_000, 20_000, 5000, NODE) == 24_000
    assert katalyst.headroom_milli(24_000, 20_000, 13_000, NODE) == 20_000


def test_katalysts_share_pool_grows_at_once_and_shrinks_by_two_cores_in_half_a_minute() -> None:
    # 20 * 1.25 + 4 = 29: whole pairs
    assert katalyst.required(20_000, NODE) == 30_000
    assert katalyst.regulated(30_000, 40_000, NODE) == 54_000
    assert katalyst.regulated(54_000, 20_000, NODE) == 50_000


def test_katalyst_reports_by_eight_cores_a_minute_and_no_small_change() -> None:
    assert katalyst.reported(20_000, 20_200) == 20_000
    assert katalyst.reported(20_000, 40_000) == 28_000
    assert katalyst.reported(20_000, 2000) == 12_000


def test_katalyst_evicts_the_largest_pod_until_the_pool_is_no_longer_requested_five_times() -> None:
    # a pool of 5 cores for 30: 30 / 5 = 6; without the 8-core pod 22 / 5 = 4.4
    memory = katalyst.KatalystMemory(minutes=9, share_milli=59_000, requested_milli=30_000, suppressed_minutes=6)
    pods = [BatchPod("large", 8000, 0), *(BatchPod(f"small-{i}", 2000, 0) for i in range(11))]
    assert katalyst.POLICY.why_evict(memory, NODE)
    leaving, after = katalyst.POLICY.to_evict(memory, pods, NODE)
    assert leaving == ["large"]
    assert not katalyst.POLICY.why_evict(after, NODE)


LAR_BANDS = (Band(0.3, 0.5), Band(0.45, 0.6), Band(0.5, 0.8))


def cores(*of: float, used: tuple[float, float, float], rounds: int = 1) -> list[float]:
    requests = (60_000, 50_000, 1000)
    pools = [
        LarPool(band, size * 1000, use * 1000, request)
        for band, size, use, request in zip(LAR_BANDS, of, used, requests, strict=True)
    ]
    return [round(pool.size / 1000, 1) for pool in flow(pools, rounds)]


def test_lars_pools_take_from_the_lowest_first_and_then_by_force() -> None:
    # pool 0: load .6, wants 12/.4 = 30; pool 2 may give 50 - 20/.8 = 25
    assert cores(20, 30, 50, used=(12, 15, 20)) == [30, 30, 40]
    # one round above the band: only what pool 2 can spare, 40 - 30/.8 = 2.5
    assert cores(30, 30, 40, used=(20, 24, 30)) == [32.5, 30, 37.5]
    # two rounds: pool 0 wants 20/.4 = 50, pool 1 then 24/.525 = 45.7, both by force
    assert cores(30, 30, 40, used=(20, 24, 30), rounds=2) == [50, 45.7, 4.3]


def test_lars_pools_shrink_after_six_low_rounds_by_a_tenth_each() -> None:
    low = (1.0, 15.0, 20.0)
    assert cores(20, 30, 50, used=low, rounds=5) == [20, 30, 50]
    assert cores(20, 30, 50, used=low, rounds=6) == [18, 30, 52]
    assert cores(20, 30, 50, used=low, rounds=7) == [16.2, 30, 53.8]


def test_lars_factor_sells_what_requests_of_known_use_leave() -> None:
    # 96 cores: pool 0 requests 40 and peaks at 10, pool 1 requests 60 and peaks at 12
    first, second = lar.factor(10, 40, LAR_BANDS[0]), lar.factor(12, 60, LAR_BANDS[1])
    assert (round(first, 3), round(second, 3)) == (0.625, 0.381)
    assert round(96 - first * 40 - second * 60, 1) == 48.1
    assert lar.factor(None, 40, LAR_BANDS[0]) == 1


@given(
    sizes=st.lists(st.floats(0, 100_000), min_size=3, max_size=3),
    used=st.lists(st.floats(0, 100_000), min_size=3, max_size=3),
    requests=st.lists(st.floats(0, 100_000), min_size=3, max_size=3),
    rounds=st.integers(1, 12),
)
@settings(max_examples=200)
def test_cores_that_flow_between_pools_are_never_lost(
    sizes: list[float], used: list[float], requests: list[float], rounds: int
) -> None:
    pools = [LarPool(*of) for of in zip(LAR_BANDS, sizes, used, requests, strict=True)]
    after = flow(pools, rounds)
    assert sum(pool.size for pool in after) == pytest.approx(sum(sizes), abs=1e-6)
    assert all(pool.size >= -1e-6 for pool in after)


@pytest.mark.parametrize("peer", PEERS.values(), ids=PEERS)
@given(
    minutes=st.lists(
        st.tuples(st.floats(0, 64_000), st.floats(0, 64_000), st.floats(0, 90_000)), min_size=1, max_size=8
    ),
    gap_s=st.sampled_from([60.0, 1800.0, HOUR_S]),
    percent=st.none() | st.floats(1, 100),
)
@settings(max_examples=100)
def test_a_node_never_lends_less_than_nothing_nor_a_box_larger_than_itself(
    peer: AnyPeer, minutes: list[tuple[float, float, float]], gap_s: float, percent: float | None
) -> None:
    node, memory = PeerNode(64_000, 256 * GIB, percent, percent), peer.memory_type()
    for place, (services, batch, requested) in enumerate(minutes):
        now = load(place * gap_s, services=services, batch=min(batch, 64_000 - services), batch_requests=requested)
        memory = peer.after_minute(memory, now, node)
        lent, box = result(peer.cpu(memory, node)), result(peer.box(memory, services, node))
        assert 0 <= box <= node.cpu_milli + 1e-6
        assert math.isfinite(lent)
        assert lent >= 0
        assert 0 <= result(peer.memory_bytes(memory, node)) <= node.memory_bytes


@pytest.mark.parametrize("peer", PEERS.values(), ids=PEERS)
def test_a_box_shrinks_as_soon_as_services_need_more(peer: AnyPeer) -> None:
    memory = peer.after_minute(peer.memory_type(), load(services=10_000), NODE)
    assert result(peer.box(memory, 40_000, NODE)) < result(peer.box(memory, 10_000, NODE))
