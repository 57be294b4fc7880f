"""The latency model: its formula by hand, what it never does, and constants from files."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.api.machinery.faults import Invalid
from koord.sim.latency import FULLEST, is_overloaded, parse, response_ms, shown
from koord.sim.latency_fit import fit
from tests.sim.queues import recording

MODEL = fit(recording(2000))
SHARES = st.floats(0, 1)


def columns(*values: float) -> Any:
    return np.array(values)


def test_the_formula_by_hand() -> None:
    """s = 0.5 and x = 1: base * work + delay + queue * work * load / (1 - load)."""
    influence = MODEL.p99.protected["cpu"]
    work = 1 + influence.stretch
    load = 0.5 * work
    by_hand = MODEL.p99.base_ms * work + influence.delay_ms + MODEL.p99.queue_ms * work * load / (1 - load)
    assert response_ms(MODEL.p99, columns(0.5), columns(1.0), "cpu")[0] == pytest.approx(by_hand)


def test_alone_and_idle_is_the_unit() -> None:
    assert response_ms(MODEL.p99, columns(0.0), columns(0.0), "cpu")[0] == pytest.approx(MODEL.p99.idle_ms)


def test_a_delay_that_three_in_ten_requests_meet_shows_as_three_quarters_of_it_at_p99() -> None:
    assert shown(columns(0.3), 0.99)[0] == pytest.approx(0.744, abs=0.001)


def test_batch_that_has_half_of_what_is_idle_is_half_present() -> None:
    full = MODEL.full["cpu"]
    assert MODEL.presence(columns(0.4), columns(0.3), "cpu")[0] == pytest.approx(0.5 / full)


@given(SHARES, SHARES, st.sampled_from(MODEL.neighbours), st.booleans())
def test_more_load_never_makes_a_service_faster(services: float, presence: float, name: str, protected: bool) -> None:
    for quantile in (MODEL.p50, MODEL.p99):
        pair = columns(services * 0.9, services), columns(presence, presence)
        less, more = response_ms(quantile, *pair, name, protected=protected)
        assert less <= more
        assert np.isfinite(more)


@given(SHARES, SHARES)
def test_without_protection_a_service_is_never_faster_than_with_it(services: float, presence: float) -> None:
    row = columns(services), columns(presence)
    for name in ("cpu", "cache"):
        held = response_ms(MODEL.p99, *row, name, protected=True)[0]
        assert held <= response_ms(MODEL.p99, *row, name, protected=False)[0]


def test_a_service_above_what_it_can_get_is_overloaded_and_its_time_is_that_of_the_fullest() -> None:
    rows = columns(FULLEST, 1.0), columns(0.0, 0.0)
    assert is_overloaded(MODEL.p99, *rows, "cpu").tolist() == [False, True]
    fullest, over = response_ms(MODEL.p99, *rows, "cpu")
    assert fullest == over


def test_constants_are_read_as_they_were_written() -> None:
    assert parse(msgspec.json.encode(MODEL), "latency.json") == MODEL


def changed(path: str, value: object) -> bytes:
    data = msgspec.to_builtins(MODEL)
    *folders, name = path.split(".")
    place = data
    for folder in folders:
        place = place[folder]
    if value is None:
        del place[name]
    else:
        place[name] = value
    return msgspec.json.encode(data)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"{", r"latency.json: is not JSON .*koord sim calibrate writes"),
        (b"{}", r"latency.json: format: must be koord.sim/latency/v1"),
        (changed("p99.baseMs", 0), r"p99\.baseMs"),
        (changed("p99.wakeMs", -1), r"p99\.wakeMs"),
        (changed("p99.protected.cpu", None), r"p99\.protected: must have an entry for each of cache, cpu, mixed"),
        (changed("full.cpu", 1.5), r"full"),
    ],
)
def test_constants_that_are_wrong_are_refused_with_the_field(text: bytes, message: str) -> None:
    with pytest.raises(Invalid, match=message):
        parse(text, "latency.json")


def test_a_model_without_the_mean_of_all_kinds_is_refused() -> None:
    data = msgspec.to_builtins(MODEL)
    for group in (data["full"], *(data[q][p] for q in ("p50", "p99") for p in ("protected", "unprotected"))):
        del group["mixed"]
    with pytest.raises(Invalid, match="full: must have mixed"):
        parse(msgspec.json.encode(data), "latency.json")
