from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.api.machinery.faults import Invalid, check
from koord.api.machinery.struct import Struct
from koord.api.text import duration
from koord.api.text.duration import (
    Duration,
    DurationError,
    from_ns,
    from_seconds,
    parse_duration,
    parse_ns,
)
from koord.api.text.stored import stored_duration

RECORDED = json.loads(Path(__file__).with_name("data").joinpath("times.json").read_text())


@pytest.mark.parametrize("row", [row for row in RECORDED["durations"] if "ns" in row], ids=lambda row: row["in"])
def test_a_duration_is_what_go_takes_it_for(row: dict[str, Any]) -> None:
    assert parse_ns(row["in"]) == row["ns"]
    assert from_ns(row["ns"]) == row["string"]


@pytest.mark.parametrize("text", [row["in"] for row in RECORDED["durations"] if "error" in row])
def test_what_go_refuses_is_refused(text: str) -> None:
    with pytest.raises(DurationError):
        parse_ns(text)


@pytest.mark.parametrize(("duration_ns", "printed"), RECORDED["duration_strings"])
def test_a_duration_prints_as_go_prints_it(duration_ns: int, printed: str) -> None:
    assert from_ns(duration_ns) == printed


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("5", "a unit is missing"),
        ("1d", "unknown unit 'd'"),
        ("soon", "is not a duration"),
        ("", "is not a duration"),
        ("9" * 2000 + "h", "is not a duration"),
        ("3000000h", "at most 2562047h47m16.854775807s"),
    ],
)
def test_the_error_says_what_is_wrong_and_what_is_valid(text: str, said: str) -> None:
    with pytest.raises(DurationError, match="h") as refused:
        parse_ns(text)
    assert said in str(refused.value)


def test_seconds_are_floats() -> None:
    assert parse_duration("1m30.5s") == 90.5
    assert from_seconds(90.5) == "1m30.5s"
    assert from_seconds(0.3) == "300ms"


class _Args(Struct):
    interval: Duration = "5m"


def test_a_field_takes_strings_only() -> None:
    assert check(_Args, {"interval": "10s"}, "args").interval == "10s"
    for wrong in (10, "10"):
        with pytest.raises(Invalid, match="interval"):
            check(_Args, {"interval": wrong}, "args")
    with pytest.raises(DurationError):
        duration.check(5)


@given(st.integers(-(2**63), 2**63 - 1))
def test_printing_and_reading_gives_the_same_duration(duration_ns: int) -> None:
    assert parse_ns(from_ns(duration_ns)) == duration_ns


@given(
    st.text(max_size=10) | st.from_regex(r"[-+]?([0-9]{0,5}\.?[0-9]{0,25}(ns|us|µs|ms|s|m|h|d)?){1,3}", fullmatch=True)
)
def test_any_text_is_a_duration_or_a_named_error(text: str) -> None:
    with contextlib.suppress(DurationError):
        assert parse_ns(from_ns(parse_ns(text))) == parse_ns(text)


@pytest.mark.parametrize("text", ["99999999999h", "soon", "", "1e9s", "9" * 2000 + "h"])
def test_what_is_stored_and_cannot_be_meant_never_ends(text: str) -> None:
    assert stored_duration(text) > parse_duration("2500000h")
    assert stored_duration("90s") == 90
