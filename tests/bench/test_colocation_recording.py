"""Recordings of response times: what a visit measures, what is measured again, and one on this machine's kernel."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from koord.api.machinery.faults import BadInput
from koord.sim.latency_recording import ALONE, UNLIMITED, Point, Setting, parse
from koord_bench import colocation_node, colocation_recording
from koord_bench.colocation_neighbours import NEIGHBOURS, Neighbour
from koord_bench.colocation_node import NAME
from koord_bench.colocation_recording import LOADS, Order, record, settings_of

CPU, CACHE = NEIGHBOURS[:2]


def measured(setting: Setting, disturbed: float = 0.0) -> Point:
    return Point(*setting, 0.1, 0.5, 1.0, 2.0, 100, 1.0, disturbed)


def test_a_visit_has_every_load_with_and_without_the_agent_and_some_with_a_ceiling() -> None:
    settings = settings_of(CPU, LOADS, 0)
    for protected in (True, False):
        assert {Setting(load, "cpu", protected, UNLIMITED) for load in LOADS} <= set(settings)
    assert {setting.ceiling_percent for setting in settings if setting.neighbour} == {40, 65, UNLIMITED}


def test_visits_together_measure_each_load_alone_at_least_twice() -> None:
    loads = [
        setting.load
        for number, neighbour in enumerate(NEIGHBOURS)
        for setting in settings_of(neighbour, LOADS, number)
        if setting.neighbour == ALONE
    ]
    assert min(map(loads.count, LOADS)) >= 2


class Sweeps:
    """In place of the kernel: every point of the first visit is disturbed."""

    def __init__(self) -> None:
        self.settings: list[Sequence[Setting]] = []

    def points(self, neighbour: Neighbour, settings: Sequence[Setting], seconds: float) -> list[Point]:
        self.settings.append(settings)
        return [measured(setting, 0.2 if len(self.settings) == 1 else 0.0) for setting in settings]


@pytest.fixture
def sweeps(monkeypatch: pytest.MonkeyPatch) -> Sweeps:
    sweeps = Sweeps()
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(colocation_node, "clean", lambda: None)
    monkeypatch.setattr(colocation_recording, "_points", sweeps.points)
    return sweeps


def test_what_was_disturbed_is_measured_again_and_what_was_not_is_not(sweeps: Sweeps, tmp_path: Path) -> None:
    order = Order(tmp_path / "points.json", (CPU, CACHE))
    record(order)
    cpu, cache, again, *alone = sweeps.settings
    assert {setting.neighbour for setting in cache} == {ALONE, "cache"}
    assert [setting for setting in again if setting.neighbour] == [setting for setting in cpu if setting.neighbour]
    assert all(setting.neighbour == ALONE for settings in alone for setting in settings)
    assert not (tmp_path / "points.json.new").exists()


def test_a_run_that_was_ended_goes_on_where_it_was(sweeps: Sweeps, tmp_path: Path) -> None:
    order = Order(tmp_path / "points.json", (CPU, CACHE))
    record(order)
    before = len(sweeps.settings)
    record(order)
    assert all(setting.neighbour == ALONE for visit in sweeps.settings[before:] for setting in visit)


def test_no_visit_begins_that_would_end_after_the_time_is_up(sweeps: Sweeps, tmp_path: Path) -> None:
    lines: list[str] = []
    assert record(Order(tmp_path / "points.json", minutes=0.5), lines.append).points == ()
    assert "the time is up" in lines[-1]


def test_points_of_another_machine_are_not_mixed_with_those_of_this_one(sweeps: Sweeps, tmp_path: Path) -> None:
    order = Order(tmp_path / "points.json", (CPU,))
    other = record(order)
    colocation_recording.write(order.file, replace(other, machine=replace(other.machine, kernel="5.10")))
    with pytest.raises(BadInput, match="another machine"):
        record(order)


def test_points_of_another_duration_are_not_mixed(sweeps: Sweeps, tmp_path: Path) -> None:
    record(Order(tmp_path / "points.json", (CPU,)))
    with pytest.raises(BadInput, match="give --seconds 2"):
        record(Order(tmp_path / "points.json", (CPU,), seconds=3))


def test_without_root_it_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(BadInput, match="needs root"):
        record(Order(tmp_path / "points.json"))
    assert not list(tmp_path.iterdir())


@pytest.mark.root
def test_this_machine_is_recorded_and_nothing_is_left(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(colocation_node, "NAME", f"{NAME}-recording-{os.getpid()}")
    monkeypatch.setattr(colocation_node, "WINDOW_S", 0.4)
    monkeypatch.setattr(colocation_recording, "ARRIVED_S", 0.5)
    monkeypatch.setattr(colocation_recording, "VISITS_A_ROUND", 1)
    order = Order(tmp_path / "points.json", (CPU,), seconds=0.4, loads=(0.2, 0.5))
    record(order)
    recording = parse(order.file.read_bytes(), "points.json")
    assert {point.setting for point in recording.points} == set(settings_of(CPU, order.loads, 0))
    assert any(point.batch > 0 for point in recording.points if point.neighbour)
    limited = [point for point in recording.points if point.ceiling_percent < UNLIMITED]
    assert all(point.batch < point.ceiling_percent / 100 + 0.25 for point in limited)
    assert not list(Path("/sys/fs/cgroup").glob(f"*/{NAME}-recording-{os.getpid()}"))
