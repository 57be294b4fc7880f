from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.api.text import timestamp
from koord.api.text.timestamp import (
    TimestampError,
    from_seconds,
    micro_from_ns,
    micro_from_seconds,
    parse_ns,
    parse_timestamp,
)

RECORDED = json.loads(Path(__file__).with_name("data").joinpath("times.json").read_text())["times"]
FIRST_S, LAST_S = -62135596800, 253402300799


@pytest.mark.parametrize("row", [row for row in RECORDED if "seconds" in row], ids=lambda row: row["in"])
def test_a_time_is_what_kubernetes_takes_it_for(row: dict[str, Any]) -> None:
    time_ns = parse_ns(row["in"])
    assert time_ns == row["seconds"] * 10**9 + row["nanos"]
    if row["time"] is not None:  # Kubernetes writes the first second of year 1 as null
        assert from_seconds(time_ns // 10**9) == row["time"]
        assert micro_from_ns(time_ns) == row["micro"]


@pytest.mark.parametrize("text", [row["in"] for row in RECORDED if "error" in row])
def test_what_kubernetes_refuses_is_refused(text: str) -> None:
    with pytest.raises(TimestampError, match="2026-11-15T04:25:02Z"):
        parse_ns(text)


@pytest.mark.parametrize("row", [row for row in RECORDED if row.get("micro")], ids=lambda row: row["in"])
def test_what_is_written_for_micro_fields_has_the_six_digits_they_need(row: dict[str, Any]) -> None:
    assert [other["micro_ok"] for other in RECORDED if other["in"] == row["micro"]] in ([], [True])
    assert len(row["micro"]) == len("2026-11-15T04:25:02.123456Z")


def test_seconds_are_floats() -> None:
    assert parse_timestamp("1970-01-01T00:00:01.5Z") == 1.5
    assert from_seconds(1794716702.999) == "2026-11-15T04:25:02Z"
    assert micro_from_seconds(1794716702.123456) == "2026-11-15T04:25:02.123456Z"
    assert micro_from_seconds(-0.5) == "1969-12-31T23:59:59.500000Z"


@pytest.mark.parametrize("time_s", [1e18, -1e18, LAST_S + 1, FIRST_S - 1])
def test_times_beyond_four_digit_years_are_refused(time_s: float) -> None:
    with pytest.raises(TimestampError):
        from_seconds(time_s)


def test_a_field_takes_strings_only() -> None:
    timestamp.check("2026-11-15T04:25:02Z")
    with pytest.raises(TimestampError):
        timestamp.check(1794716702)


@given(st.integers(FIRST_S * 10**6, LAST_S * 10**6))
def test_printing_and_reading_gives_the_same_time(time_us: int) -> None:
    assert parse_ns(micro_from_ns(time_us * 1000)) == time_us * 1000
    assert parse_ns(from_seconds(time_us // 10**6)) == time_us // 10**6 * 10**9


@given(st.text(max_size=30) | st.from_regex(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]{8,20}(Z|[+-][0-9:]{5})"))
def test_any_text_is_a_time_or_a_named_error(text: str) -> None:
    with contextlib.suppress(TimestampError):
        parse_ns(text)
