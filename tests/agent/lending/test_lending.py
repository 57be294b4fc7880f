"""What a node lends by the policy `adaptive`: the worked example, the rules one by one, and what must never happen."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.agent.lending import eviction, protection, sale
from koord.agent.lending.counting import CountedPod, counted
from koord.agent.lending.eviction import Starving, to_evict, to_free
from koord.agent.lending.learning import (
    DAY_MINUTES,
    LendingMemory,
    after_minute,
    ceiling,
    figures,
    services_most_bytes,
)
from koord.agent.lending.minute import Minute, PodMinute, batch_wanted
from tests.agent.lending.minutes import GIB, NODE, after, histogram_of, minute, pod


def test_the_worked_example() -> None:
    """64 cores; five batch pods asked for 40 and count for 27.7."""
    margin = 0.9 * max(1900.0, 0.02 * NODE.milli)
    amount = sale.amount_milli(margin, 11_200, 3_200, NODE)
    before = {uid: CountedPod(milli, is_young=False) for uid, milli in (("c", 3100.0), ("d", 600.0))}
    pods = {
        "a": pod(8, 8),
        "b": pod(8, 8),
        "c": pod(8, 3.1),
        "d": pod(8, 0.6),
        "e": pod(8, 2, age_s=120),
    }
    total = sum(counted(before.get(uid), pod, got=1.0).milli for uid, pod in pods.items())
    assert NODE.mark_milli == 54_400
    assert margin == pytest.approx(1_710)
    assert amount == pytest.approx(44_690)
    assert total == pytest.approx(27_700)
    assert 40_000 + amount - total == pytest.approx(56_990)
    assert protection.ceiling_milli(margin, 12_600, NODE) == pytest.approx(40_090)


def test_the_figures_are_those_of_the_worked_example() -> None:
    memory = LendingMemory(
        rises=histogram_of(1_900),
        services=histogram_of(11_000),
        hour=(11_200.0,) * 60,
        counted={"a": CountedPod(27_700, is_young=False)},
        scale=0.9,
        more_milli=3_200,
        minutes=10_000,
    )
    lines = figures(memory, NODE)
    assert 1_900 <= lines.rise <= 1.05 * 1_900 + 25
    assert lines.margin == pytest.approx(0.9 * lines.rise)
    assert lines.amount == pytest.approx(54_400 - lines.margin - 11_200 + 3_200)
    assert lines.counted == 27_700
    assert lines.stable == pytest.approx(54_400 - lines.margin - memory.services.percentile(0.95))
    assert ceiling(memory, 12_600, NODE) == pytest.approx(54_400 - lines.margin - 12_600)


# Rise and margin


def test_the_rise_of_a_steady_service_is_nothing() -> None:
    times = [float(second) for second in range(90)]
    assert protection.rise(times, [5000.0] * 90, 89.0) == pytest.approx(0.0)


def test_the_rise_is_what_services_use_above_their_mean_of_the_half_minute_before() -> None:
    # By samples of 10 s: 3 before the minute at 4 cores, then 6 at 10, 4, 4, 4, 4 and 4 cores.
    times = [float(second) for second in range(10, 100, 10)]
    values = [4000.0, 4000, 4000, 10_000, 4000, 4000, 4000, 4000, 4000]
    expected = (6000 - 2000 - 2000 - 2000 + 0 + 0) / 6
    assert protection.rise(times, values, 90.0) == pytest.approx(expected)


def test_without_a_sample_before_it_there_is_no_rise() -> None:
    assert protection.rise([], [], 60.0) is None
    assert protection.rise([59.0], [3000.0], 60.0) is None
    assert protection.rise([0.0, 59.0], [3000.0, 9000.0], 60.0) is None


def test_in_the_first_two_hours_the_rise_is_at_least_a_tenth_of_the_node() -> None:
    calm = minute(services=10, rise=0.1)
    assert figures(after(119, calm), NODE).margin == pytest.approx(6_400)
    assert figures(after(120, calm), NODE).margin == pytest.approx(1_280)


def test_the_margin_is_corrected_by_violations_that_happen() -> None:
    quiet = after(100, minute(services=10, used=40))
    assert quiet.scale == pytest.approx(1 - 100 * 0.05 * 0.007)
    violated = after(1, minute(services=20, used=40), quiet)
    assert violated.scale == pytest.approx(quiet.scale + 0.05 * 0.993)


def test_services_alone_above_the_mark_are_no_violation() -> None:
    memory = after(500, minute(services=60, used=2))
    assert memory.violated_share == 0
    assert memory.scale < 1


def test_an_idle_week_teaches_nothing() -> None:
    learned = LendingMemory(scale=1.3, more_milli=4_000, minutes=500)
    for idle in (minute(services=5), minute(services=5, used=0.001, pods={"asleep": pod(8, 0.001)})):
        memory = after(2_000, idle, learned)
        assert (memory.scale, memory.more_milli, memory.batch_minutes) == (1.3, 4_000, 0)
        assert memory.minutes == 2_500


def test_in_balance_seven_minutes_in_a_thousand_violate() -> None:
    scale, violated = 1.98, 0
    for number in range(20_000):
        # Rises are spread evenly between nothing and 2: a margin of 2 * 0.993 lets 0.7% through.
        rise = 2 * ((number * 7919) % 20_011) / 20_011
        is_violated = rise > scale
        violated += is_violated
        scale = protection.scale_after(scale, is_violated)
    assert violated / 20_000 == pytest.approx(0.007, rel=0.1)


# What a pod counts for


def test_a_young_pod_counts_for_its_request() -> None:
    assert counted(None, pod(8, 1, age_s=179), got=1.0) == CountedPod(8000, is_young=True)


def test_then_it_counts_for_what_it_used_in_that_minute() -> None:
    assert counted(CountedPod(8000, is_young=True), pod(8, 1, age_s=180), got=1.0) == CountedPod(1000, is_young=False)
    assert counted(None, pod(8, 1), got=1.0) == CountedPod(1000, is_young=False)


def test_use_above_its_figure_counts_at_once_and_use_below_it_by_a_tenth() -> None:
    before = CountedPod(4000, is_young=False)
    assert counted(before, pod(8, 6), got=1.0).milli == 6000
    assert counted(before, pod(8, 6), got=0.5).milli == 6000
    assert counted(before, pod(8, 1), got=1.0).milli == pytest.approx(3700)


@given(before=st.floats(0, 64_000), used=st.floats(0, 64_000), got=st.floats(0, 0.98))
def test_a_pod_that_is_held_back_never_counts_for_less(before: float, used: float, got: float) -> None:
    after_it = counted(CountedPod(before, is_young=False), PodMinute(8000, used, 3600), got)
    assert after_it.milli == max(before, used)


@given(used=st.floats(0, 64_000), got=st.floats(0, 0.98))
def test_a_pod_that_grows_up_while_it_is_held_back_counts_for_more_than_its_use(used: float, got: float) -> None:
    figure = counted(CountedPod(8000, is_young=True), PodMinute(8000, used, 180), got).milli
    assert used <= figure <= max(8000, used)


def test_a_pod_that_is_gone_counts_for_nothing() -> None:
    memory = after(1, minute(used=8, pods={"a": pod(8, 8)}))
    assert figures(memory, NODE).counted == 8000
    assert figures(after(1, minute(), memory), NODE).counted == 0


# The sale


def test_more_is_sold_while_batch_is_hardly_ever_short() -> None:
    pods = {"a": pod(64, 50)}
    sold_out = after(200, minute(services=10, used=50, pods=pods))
    assert sold_out.more_milli == pytest.approx(200 * 0.0005 * 64_000)
    short = after(1, minute(services=10, used=40, wanted=50, pods=pods), sold_out)
    assert short.more_milli == pytest.approx(sold_out.more_milli - 0.0045 * 64_000)


def test_no_more_is_sold_while_there_is_room() -> None:
    assert after(200, minute(services=10, used=5, pods={"a": pod(8, 5)})).more_milli == 0


def test_batch_that_is_always_short_is_oversold_by_nothing() -> None:
    assert after(500, minute(services=10, used=10, wanted=50)).more_milli == 0


def test_batch_that_is_never_short_is_oversold_by_a_quarter_of_the_node_at_most() -> None:
    memory = after(3_000, minute(services=0, used=50, pods={"a": pod(200, 50, age_s=60)}))
    assert memory.more_milli == pytest.approx(16_000)


def test_the_amount_goes_by_the_mean_of_the_last_hour() -> None:
    memory = after(60, minute(services=10))
    assert figures(memory, NODE).services == pytest.approx(10_000)
    assert figures(after(30, minute(services=20), memory), NODE).services == pytest.approx(15_000)
    assert figures(after(60, minute(services=20), memory), NODE).services == pytest.approx(20_000)


def test_after_a_long_gap_the_hour_begins_again_and_what_was_learned_stays() -> None:
    memory = after(600, minute(services=10, rise=3))
    later = after_minute(memory, minute(services=30, at_s=600 * 60 + 7200, rise=0), NODE)
    assert figures(later, NODE).services == pytest.approx(30_000)
    assert figures(later, NODE).rise == pytest.approx(figures(memory, NODE).rise)


def test_what_is_called_stable_is_there_in_all_but_the_busiest_minutes() -> None:
    memory = after(94, minute(services=10, rise=0))
    memory = after(6, minute(services=40, rise=0), memory)
    lines = figures(replace(memory, minutes=1000), NODE)
    assert lines.stable == pytest.approx(54_400 - lines.margin - memory.services.percentile(0.95))
    assert memory.services.percentile(0.95) >= 40_000
    assert lines.stable < lines.amount


def test_memory_goes_by_the_highest_use_of_24_hours() -> None:
    memory = after(60, minute(memory_gib=30))
    memory = after(23 * 60, minute(memory_gib=10), memory)
    assert services_most_bytes(memory) == 30 * GIB
    memory = after(60, minute(memory_gib=10), memory)
    assert services_most_bytes(memory) == 30 * GIB
    memory = after(60, minute(memory_gib=10), memory)
    assert services_most_bytes(memory) == 10 * GIB
    assert sale.batch_memory_bytes(100 * GIB, 30 * GIB) == pytest.approx(60 * GIB)
    assert sale.batch_memory_bytes(100 * GIB, 95 * GIB) == 0


# What batch wanted


def test_batch_wanted_what_it_used_and_what_it_was_throttled_for() -> None:
    assert batch_wanted(10_000, 4_000, cpus_milli=64_000, counted_milli=30_000) == 14_000


def test_batch_that_fills_its_cpus_wants_what_its_pods_count_for() -> None:
    assert batch_wanted(7_700, 0, cpus_milli=8_000, counted_milli=30_000) == 30_000
    assert batch_wanted(7_000, 0, cpus_milli=8_000, counted_milli=30_000) == 7_000


# Eviction


def test_batch_starves_after_about_a_quarter_of_an_hour_and_not_before() -> None:
    got, minutes = 1.0, 0
    while not eviction.starves(got):
        got, minutes = eviction.got_after(got, 0.2), minutes + 1
    assert 15 <= minutes <= 25
    for _ in range(100):
        got = eviction.got_after(got, 0.45)
    assert not eviction.starves(got)


def test_pods_that_lose_little_and_free_much_go_first() -> None:
    saved = Starving("saved", 8000, 8000, unsaved_milli_s=0)
    unsaved = Starving("unsaved", 8000, 8000, unsaved_milli_s=8000 * 3600)
    small = Starving("small", 1000, 1000, unsaved_milli_s=0)
    protected = Starving("protected", 8000, 8000, unsaved_milli_s=0, may_go=False)
    # 25 cores are wanted, 12.6 fit: 11 of them must go.
    assert to_free([saved, unsaved, small, protected], 12_600) == pytest.approx(11_000)
    assert [each.uid for each in to_evict([saved, unsaved, small, protected], 12_600)] == ["saved", "small", "unsaved"]


def test_what_a_pod_frees_beyond_the_need_does_not_count() -> None:
    large = Starving("large", 32_000, 32_000, unsaved_milli_s=0)
    small = Starving("small", 2000, 2000, unsaved_milli_s=0)
    assert [each.uid for each in to_evict([large, small], 30_000)] == ["small"]


STARVING = st.builds(
    Starving,
    uid=st.uuids().map(str),
    request_milli=st.floats(0, 32_000),
    wanted_milli=st.floats(0, 32_000),
    unsaved_milli_s=st.floats(0, 1e9),
    may_go=st.booleans(),
)


@given(pods=st.lists(STARVING, max_size=12, unique_by=lambda each: each.uid), room=st.floats(0, 64_000))
def test_evictions_suffice_where_they_can_and_none_is_in_vain(pods: list[Starving], room: float) -> None:
    gone = to_evict(pods, room)
    need = to_free(pods, room)
    assert all(each.may_go for each in gone)
    if need <= 0:
        assert gone == []
        return
    freed = sum(each.wanted_milli for each in gone)
    assert freed >= need - 1e-6 or {each.uid for each in gone} == {
        pod.uid for pod in pods if pod.may_go and pod.wanted_milli > 0
    }
    if gone:
        assert freed - gone[-1].wanted_milli < need


# Any minutes at all

MINUTES = st.lists(
    st.builds(
        minute,
        services=st.floats(0, 64),
        used=st.floats(0, 64),
        wanted=st.none() | st.floats(0, 200),
        rise=st.floats(-64, 64),
        memory_gib=st.floats(0, 256),
        pods=st.dictionaries(
            st.sampled_from(["a", "b", "c"]),
            st.builds(pod, st.floats(0, 64), st.floats(0, 64), st.floats(0, 7200)),
        ),
    ),
    max_size=40,
)


@given(MINUTES)
def test_whatever_happens_figures_stay_within_their_bounds(minutes: list[Minute]) -> None:
    memory = LendingMemory()
    for number, each in enumerate(minutes):
        before = memory
        memory = after_minute(memory, replace(each, at_s=60.0 * number), NODE)
        assert before.minutes == number
        lines = figures(memory, NODE)
        assert 0.5 <= lines.scale <= 3
        assert lines.margin >= 0.5 * 0.02 * NODE.milli
        assert 0 <= lines.more <= 16_000
        assert 0 <= lines.stable <= lines.amount <= NODE.mark_milli + 16_000
        assert 0 <= memory.got_mean <= 1
        assert 0 <= memory.short_share <= 1
        assert (
            ceiling(memory, each.services_milli, NODE) + each.services_milli
            <= max(NODE.mark_milli - lines.margin, each.services_milli) + 1e-6
        )
        assert len(memory.hour) <= 60


@given(MINUTES)
def test_a_minute_changes_no_memory_that_came_before(minutes: list[Minute]) -> None:
    memory = after(3, minute(services=7, used=3, rise=1))
    lines, total = figures(memory, NODE), memory.rises.total
    for each in minutes:
        after_minute(memory, replace(each, at_s=240.0), NODE)
    assert figures(memory, NODE) == lines
    assert memory.rises.total == total


def test_the_share_of_short_minutes_is_that_of_the_last_day() -> None:
    short = minute(services=10, used=10, wanted=20)
    enough = minute(services=10, used=10)
    memory = after(10, enough, after(10, short))
    assert memory.short_share == pytest.approx(0.5)
    assert after(5 * DAY_MINUTES, enough, memory).short_share < 0.01
