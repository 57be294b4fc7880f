"""Recordings: what a file must have, and how several measurements of a setting become one point."""

from __future__ import annotations

import msgspec
import pytest

from koord.api.machinery.faults import Invalid
from koord.sim.latency_recording import Machine, Point, Recording, parse, settled

MACHINE = Machine("a CPU", 2, "6.1", "v2", "2026-01-01")


def point(p99_ms: float, disturbed: float = 0.0, load: float = 0.5) -> Point:
    return Point(load, "cpu", True, 100, 0.5, 0.4, 1.0, p99_ms, 1000, 1.0, disturbed)


def test_a_recording_is_read_as_it_was_written() -> None:
    recording = Recording(MACHINE, 2.0, (point(3.0),))
    assert parse(msgspec.json.encode(recording), "points.json") == recording


def test_disturbed_points_do_not_count() -> None:
    (one,) = settled([point(3.0), point(90.0, 0.2), point(5.0), point(4.0)])
    assert one.p99_ms == 4.0
    assert one.requests == 3000


def test_a_setting_that_was_always_disturbed_has_no_point() -> None:
    assert [one.load for one in settled([point(3.0, 0.2, load=0.5), point(3.0, load=0.6)])] == [0.6]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"{", "points.json: is not JSON"),
        (b"[]", "points.json: format: must be koord.sim/latency-recording/v1; record one with koord bench"),
        (b'{"format": "x"}', "format: must be"),
    ],
)
def test_a_file_that_is_no_recording_is_refused_with_what_would_be_valid(text: bytes, message: str) -> None:
    with pytest.raises(Invalid, match=message):
        parse(text, "points.json")


def test_a_point_with_impossible_figures_is_named() -> None:
    data = msgspec.to_builtins(Recording(MACHINE, 2.0, (point(3.0), point(3.0))))
    data["points"][1]["p99Ms"] = -1
    with pytest.raises(Invalid, match=r"points\[1\]\.p99Ms"):
        parse(msgspec.json.encode(data), "points.json")
