from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from typing import Any

import pytest

from koord_minicluster.demo.ledger import Ledger, PodSeen
from koord_minicluster.demo.page import page
from koord_minicluster.demo.scenario import Scenario
from koord_minicluster.demo.settings import hot_node, load
from koord_minicluster.demo.simulated import Machines, simulate
from koord_minicluster.demo.summary import course, steady, summary
from koord_minicluster.hollow.load_model import Course, SeededLoad
from koord_minicluster.hollow.load_replay import read_replay
from tests.minicluster.demo.looks import ledger, look

COURSE = Course(1000.0, 360.0)
SIZE = Machines(32_000, 128 * 1024**3)


def test_utilisation_is_averaged_over_time() -> None:
    # 40 of 100 cores for 2 s, then 10 for 6 s: (80 + 60) / 8 = 17.5 of them
    came = course([look(0, batch=40), look(2, batch=10), look(8, batch=99)], done=5)
    assert came.seconds == 8
    assert came.by_band["batch"] == pytest.approx(0.175)
    assert came.by_band["system"] == pytest.approx(0.02)
    assert came.batch_core_hours == pytest.approx(140 / 3600)
    assert came.done == 5


def test_a_machine_that_slept_does_not_count_for_hours() -> None:
    assert course([look(0, batch=40), look(7200, batch=40)], done=0).seconds == 10


def test_the_time_until_services_run_and_nodes_have_told_so_is_left_out() -> None:
    looks = [look(0, ready=0), look(4, ready=9), look(8), look(12), look(18), look(20)]
    assert [cluster_sample.time_s for cluster_sample in steady(looks)] == [18, 20]
    assert steady([look(0, ready=0), look(2, ready=5)]) == []
    assert steady([look(0), look(8)]) == []


def test_violations_are_services_that_are_short_of_cpu_or_of_pods() -> None:
    fine = ledger(look(0, prod=40), look(10, prod=40), look(12, prod=40))
    assert summary(fine).violations == []
    bad = ledger(look(0), look(10, prod=40, short=1), look(12, prod=40, ready=9), look(14, prod=40))
    assert summary(bad).violations == [
        "services got less CPU than they wanted for 2 s",
        "fewer than 95% of the services' pods were ready for 2 s",
    ]


def test_evictions_are_counted_by_their_reason_and_moves_apart() -> None:
    seen = ledger(look(0), look(10), look(12))
    for reason in ("evictPodSuccess", "QuotaOverused", "QuotaOverused", "Descheduled", "Scheduled"):
        seen.hear_event(reason)
    came = summary(seen)
    assert came.moved == 1
    assert list(came.evicted.items()) == [("beyond their tenant's share", 2), ("left too little CPU", 1)]


def test_a_pod_that_was_done_before_is_not_work_done() -> None:
    seen = Ledger()
    runs = PodSeen("research", "encode-1-a", "Running", node="n1", batch_milli=4000)
    done = replace(runs, state="Succeeded")
    seen.hear_pod("research/encode-0-x", None, done)
    seen.hear_pod("research/encode-1-a", None, runs)
    assert seen.tenants()[0].used == 4000
    seen.hear_pod("research/encode-1-a", runs, done)
    seen.hear_pod("research/encode-1-a", done, done)
    assert seen.done == 1
    assert seen.tenants()[0].used == 0


@pytest.fixture(scope="module")
def alone() -> tuple[list[Any], int]:
    return without(80.0)


def without(seconds: float) -> tuple[list[Any], int]:
    scenario = Scenario(10)
    model = read_replay(load(scenario).splitlines(), "load", course=COURSE, otherwise=SeededLoad(0, COURSE))
    return simulate(scenario, model, 1000.0, seconds, SIZE)


def test_without_co_location_the_same_seed_gives_the_same_course(alone: tuple[list[Any], int]) -> None:
    looks, done = alone
    assert done > 0
    again, _ = without(20.0)
    assert again == looks[: len(again)]


def test_without_co_location_nothing_is_lent_and_no_node_is_overfilled(alone: tuple[list[Any], int]) -> None:
    looks, _ = alone
    assert all(look.lent == 0 and look.total <= look.capacity for look in looks)
    assert all(look.used["batch"] > 0 for look in looks[2:])


def test_the_load_of_the_hot_node_follows_the_speed_of_the_load() -> None:
    scenario = Scenario()
    name = hot_node(scenario)
    rows = load(scenario)
    assert f"node:{name}," in rows
    slow = read_replay(rows.splitlines(), "load", course=Course(0.0, 1.0), otherwise=SeededLoad())
    fast = read_replay(rows.splitlines(), "load", course=Course(0.0, 360.0), otherwise=SeededLoad())
    for hour in (1, 9, 15, 17, 25, 33):
        at = {replayed_load.tracks[f"node:{name}"].cpu[0] for replayed_load in (slow, fast)}
        assert len(at) == 1
        assert slow._time(hour * 3600.0) == pytest.approx(fast._time(hour * 10.0))


def test_the_page_stands_alone_and_has_the_figures() -> None:
    seen = ledger(*(look(1000 + 2.0 * i, prod=30, batch=i, lent=50, held=1) for i in range(20)))
    seen.hear_event("QuotaOverused")
    plain = [look(1000 + 4.0 * i, prod=30, batch=5) for i in range(10)]
    came = summary(seen, course(plain, 3))
    text = page(came, 50, seen.looks, plain, COURSE)
    assert not re.search(r"(?:src|href)=|url\(|@import|<script", text)
    assert f"{came.colocated.total:.0%} of all CPU was used; without co-location it is 37%" in text
    assert "1 beyond their tenant&#x27;s share" in text
    for drawing in re.findall(r"<svg.*?</svg>", text, re.DOTALL):
        for figure in ET.fromstring(drawing).iter():
            for point in figure.get("points", "").split():
                x, y = map(float, point.split(","))
                assert 0 <= x <= 480
                assert 0 <= y <= 260
