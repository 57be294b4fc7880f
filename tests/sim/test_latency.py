"""The latency model: its formula by hand, what it never does, and constants from files."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.api.machinery.faults import Invalid
from koord.sim.latency import FULLEST, begin_ms, is_overloaded, parse, response_ms
from koord.sim.latency_fit import fit
from tests.sim.queues import recording

MODEL = fit(recording(2000))
SHARES = st.floats(0, 1)


def columns(*values: float) -> Any:
    return np.array(values)


def test_the_formula_by_hand() -> None:
    """s = 0.5 and b = 0.5, all that is idle: base * work + delay + queue * work * load / (1 - load)."""
    influence = MODEL.protected["cpu"]
    work = 1 + influence.stretch * 0.5
    load = 0.5 * work
    by_hand = MODEL.p99.base_ms * work + influence.p99_delay_ms + MODEL.p99.queue_ms * work * load / (1 - load)
    _, p99 = response_ms(MODEL, columns(0.5), columns(0.5), "cpu")
    assert p99[0] == pytest.approx(by_hand)


def test_alone_and_idle_is_the_unit() -> None:
    p50, p99 = response_ms(MODEL, columns(0.0), columns(0.0), "cpu")
    assert p50[0] == pytest.approx(MODEL.p50.idle_ms)
    assert p99[0] == pytest.approx(MODEL.p99.idle_ms)


def test_a_long_delay_that_three_in_ten_requests_meet_shows_as_three_quarters_of_it_at_p99() -> None:
    """0.3 * exp(-t / 30 * ln 101) = 1 / 101: t = 30 * (1 - ln(1 / 0.3) / ln 101) = 22.2."""
    assert begin_ms(columns(0.3), 0.001, 30.0, 0.99)[0] == pytest.approx(22.17, abs=0.01)


def test_equal_waits_for_an_idle_cpu_and_for_one_that_batch_has_are_that_wait() -> None:
    assert begin_ms(columns(0.0, 0.4, 1.0), 2.0, 2.0, 0.99) == pytest.approx([2.0, 2.0, 2.0])


@given(SHARES, st.floats(0, 100), st.floats(0, 100), st.sampled_from([0.5, 0.99]))
def test_the_wait_for_a_cpu_is_the_quantile_of_both_kinds_together(x: float, a: float, b: float, q: float) -> None:
    wait = float(begin_ms(columns(x), a, b, q)[0])
    k = np.log1p(1 / (1 - q))
    assert wait <= max(a, b) + 1e-5
    if max(a, b) > 0.01:
        a, b = max(a, 1e-6), max(b, 1e-6)
        later = (1 - x) * np.exp(-wait / a * k) + x * np.exp(-wait / b * k)
        assert later == pytest.approx(np.exp(-k), rel=1e-4)


def test_batch_that_has_half_of_what_is_idle_is_half_present() -> None:
    full = MODEL.full["cpu"]
    assert MODEL.presence(columns(0.4), columns(0.3), "cpu")[0] == pytest.approx(0.5 / full)


@given(SHARES, SHARES)
def test_more_load_alone_never_makes_a_service_faster(services: float, less: float) -> None:
    pair = columns(services * less, services), columns(0.0, 0.0)
    for times in response_ms(MODEL, *pair, "cpu"):
        assert times[0] <= times[1]


@given(SHARES, SHARES, st.sampled_from(MODEL.neighbours), st.booleans())
def test_every_time_is_finite_and_p50_below_p99(services: float, idle: float, name: str, protected: bool) -> None:
    p50, p99 = response_ms(MODEL, columns(services), columns(idle * (1 - services)), name, protected=protected)
    assert 0 < p50[0] < p99[0] < 1e6


@given(SHARES, SHARES)
def test_without_protection_a_service_is_never_faster_than_with_it(services: float, idle: float) -> None:
    row = columns(services), columns(idle * (1 - services))
    for name in ("cpu", "cache"):
        held, loose = (response_ms(MODEL, *row, name, protected=protected)[1] for protected in (True, False))
        assert held[0] <= loose[0]


def test_a_service_above_what_it_can_get_is_overloaded_and_its_time_is_that_of_the_fullest() -> None:
    rows = columns(FULLEST, 1.0), columns(0.0, 0.0)
    assert is_overloaded(*rows, 0.0).tolist() == [False, True]
    fullest, over = response_ms(MODEL, *rows, "cpu")[1]
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
        (changed("protected.cpu", None), r"protected: must have an entry for each of cache, cpu, mixed"),
        (changed("full.cpu", 1.5), r"full"),
    ],
)
def test_constants_that_are_wrong_are_refused_with_the_field(text: bytes, message: str) -> None:
    with pytest.raises(Invalid, match=message):
        parse(text, "latency.json")


def test_a_model_without_the_mean_of_all_kinds_is_refused() -> None:
    data = msgspec.to_builtins(MODEL)
    for group in ("full", "protected", "unprotected"):
        del data[group]["mixed"]
    with pytest.raises(Invalid, match="full: must have mixed"):
        parse(msgspec.json.encode(data), "latency.json")
