"""What is usual at an hour of the day, by the last week."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace as changed

from koord.agent.interference.control import Node, decide
from koord.agent.interference.episode import Step
from koord.agent.interference.hours import (
    FORGOTTEN_AFTER_H,
    HOUR_S,
    LEAST_DAYS,
    LEAST_WINDOWS,
    MOST_WORKLOADS,
    Hours,
    HoursError,
    Usual,
    read_hours,
)
from koord.agent.interference.signals import Signal
from koord.agent.live.usual_hours import FILE, UsualHours
from koord.api.kubernetes.meta import OwnerReference
from tests.agent import states
from tests.agent.interference.nodes import BATCH, SERVICE, Story

DAY_S = 24 * HOUR_S
DELAY = Signal.RUN_QUEUE_DELAY.key
WEB = "ns/deployment/web"


def morning(days: int, value: float = 6.0, windows: int = LEAST_WINDOWS) -> Hours:
    """A service that waits that long each morning from nine to ten, and 0.5 ms in the next hour."""
    hours = Hours()
    for day in range(days):
        for hour, each in ((9, value), (10, 0.5)):
            for window in range(windows):
                hours.learn(WEB, DELAY, each, day * DAY_S + hour * HOUR_S + window * 10)
    hours.learn(WEB, DELAY, 0.5, (days - 1) * DAY_S + 11 * HOUR_S)
    return hours


def test_an_hour_is_known_after_three_days_and_for_that_hour_alone() -> None:
    at_nine = 20 * DAY_S + 9 * HOUR_S
    assert morning(LEAST_DAYS - 1).usual(WEB, at_nine) == {}
    hours = morning(LEAST_DAYS)
    assert hours.usual(WEB, at_nine) == {DELAY: Usual(6.0, 0.0)}
    assert hours.usual(WEB, at_nine + HOUR_S)[DELAY].mean == 0.5
    assert hours.usual(WEB, at_nine + 5 * HOUR_S) == {}
    assert hours.usual("ns/deployment/other", at_nine) == {}


def test_an_hour_of_which_little_was_seen_teaches_nothing() -> None:
    assert morning(7, windows=LEAST_WINDOWS - 1).usual(WEB, 9 * HOUR_S) == {}


def test_a_week_of_another_usage_is_learnt() -> None:
    hours = morning(7)
    for day in range(7, 21):
        for window in range(LEAST_WINDOWS):
            hours.learn(WEB, DELAY, 2.0, day * DAY_S + 9 * HOUR_S + window * 10)
    hours.learn(WEB, DELAY, 2.0, 21 * DAY_S)
    # (6/7)^14 of the difference is left.
    assert hours.usual(WEB, 9 * HOUR_S)[DELAY].mean == pytest.approx(2.0 + 4.0 * (6 / 7) ** 14)


@pytest.mark.parametrize(
    ("value", "is_exceeded"), [(6.0, False), (7.0, False), (8.9, False), (9.1, True), (60.0, True)]
)
def test_what_exceeds_the_hour_exceeds_it_by_the_rule_for_baselines(value: float, is_exceeded: bool) -> None:
    # 1.5 x 6 = 9 is more than 6 + 3 x 10% of 6.
    assert Usual(6.0, 0.0).is_exceeded(value) == is_exceeded


def steps_of_a_morning(usual: Mapping[str, Usual]) -> list[Step]:
    """A build beside the service begins as the service's busy hour does."""
    story = Story({"web": SERVICE, "build": BATCH})
    story.calm()
    steps: list[Step] = []
    memory = story.memory
    for window in range(1, 6):
        windows = {
            uid: replace(memory.history[-1][uid], signals={Signal.RUN_QUEUE_DELAY: 6.0} if uid == "web" else {})
            for uid in story.standings
        }
        node = Node(story.now_s + 10 * window, 10.0, windows, story.standings, usual={"web": usual})
        outcome = decide(node, memory)
        memory, steps = outcome.memory, [*steps, *(finding.taken.step for finding in outcome.findings)]
    return steps


def test_who_is_as_busy_every_morning_is_not_slowed_down() -> None:
    assert steps_of_a_morning({}) == [Step.SLOWED]
    assert steps_of_a_morning({DELAY: Usual(6.0, 0.5)}) == []
    assert steps_of_a_morning({DELAY: Usual(0.5, 0.1)}) == [Step.SLOWED]


def test_it_survives_a_restart_and_a_damaged_file_costs_the_history_alone(tmp_path: Path) -> None:
    class Noon:
        at_s = 100 * DAY_S + 12 * HOUR_S

        def now(self) -> float:
            return self.at_s

        def monotonic(self) -> float:
            return self.at_s

        async def sleep(self, seconds: float) -> None: ...

    clock = Noon()
    owner = OwnerReference("apps/v1", "StatefulSet", "web", "s-1", controller=True)
    pod = states.pod("web", "LS")
    pods = {"web": replace(pod, meta=changed(pod.meta, owner_references=(owner,))), "bare": states.pod("bare", "LS")}
    first = UsualHours(tmp_path, clock, {})
    for day in range(4):
        for window in range(LEAST_WINDOWS + 1):
            clock.at_s = (100 + day) * DAY_S + 12 * HOUR_S + window * 10
            first.heard(pods, {"web": {DELAY: 3.0}, "bare": {DELAY: 9.0}})
    clock.at_s += HOUR_S
    first.heard(pods, {"web": {DELAY: 0.1}})
    usual: dict[str, Mapping[str, Usual]] = {}
    clock.at_s += 23 * HOUR_S
    UsualHours(tmp_path, clock, usual).heard(pods, {"web": {DELAY: 3.0}})
    assert usual["web"][DELAY].mean == pytest.approx(3.0)
    assert "bare" not in usual

    (tmp_path / FILE).write_text('{"version": 1')
    after: dict[str, Mapping[str, Usual]] = {}
    UsualHours(tmp_path, clock, after).heard(pods, {"web": {DELAY: 3.0}})
    assert after == {}


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b'{"version": 2, "seen": {}, "hours": {}}',
        b'{"version": 1, "seen": 3}',
        b'{"version": 1, "seen": {"\xff": 3}}',
    ],
)
def test_a_file_that_says_nothing_of_hours_is_refused(text: bytes) -> None:
    with pytest.raises(HoursError):
        read_hours(text)


def test_workloads_that_left_and_too_many_are_forgotten() -> None:
    hours = morning(3)
    for number in range(MOST_WORKLOADS + 5):
        hours.learn(f"w{number:04}", DELAY, 1.0, 30 * DAY_S + number)
    hours.forget(30 * DAY_S + HOUR_S)
    assert len(hours.seen) == MOST_WORKLOADS
    assert WEB not in hours.seen
    assert WEB not in hours.of_days
    assert 30 * 24 - FORGOTTEN_AFTER_H > 3 * 24


@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(0, 40 * 24), st.floats(0, 1e6)), max_size=20))
def test_what_is_kept_reads_as_it_was_and_stays_within_what_was_seen(told: list[tuple[int, float]]) -> None:
    hours = Hours()
    for hour, value in told:
        for window in range(LEAST_WINDOWS):
            hours.learn(WEB, DELAY, value, hour * HOUR_S + window)
    hours.learn(WEB, DELAY, 0.0, 99 * DAY_S)
    again = read_hours(hours.dumped())
    assert (again.of_days, again.seen) == (hours.of_days, hours.seen)
    for each in hours.of_days.get(WEB, {}).get(DELAY, {}).values():
        assert -1e-6 <= each.mean <= max(value for _, value in told) * (1 + 1e-9) + 1e-6
        assert each.variance >= -1e-6
