"""When a call is repeated and how long that waits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.kube.retry import RetryPolicy, backoff_s, fraction, retry_after_s

NOW_S = 784111777.0  # Sun, 06 Nov 1994 08:49:37 GMT, the example of RFC 9110


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("", None),
        ("0", 0.0),
        ("120", 120.0),
        (" 5 ", 5.0),
        ("Sun, 06 Nov 1994 08:50:37 GMT", 60.0),
        ("Sun, 06 Nov 1994 08:00:00 GMT", 0.0),
        ("soon", None),
        ("-1", None),
        ("1.5", None),
        ("²", None),
    ],
)
def test_retry_after_is_seconds_or_a_date(header: str | None, seconds: float | None) -> None:
    assert retry_after_s(header, NOW_S) == seconds


@given(st.text(max_size=40))
def test_any_retry_after_header_is_read_without_an_error(header: str) -> None:
    asked = retry_after_s(header, NOW_S)
    assert asked is None or asked >= 0


@given(st.integers(1, 1000), st.text(max_size=20))
def test_a_wait_is_between_half_and_all_of_the_doubled_base_and_never_above_the_cap(attempt: int, key: str) -> None:
    full = min(10.0, 0.1 * 2.0 ** min(attempt - 1, 60))
    assert full / 2 <= backoff_s(attempt, key, base_s=0.1, cap_s=10.0) < full


@given(st.text(max_size=20))
def test_chance_depends_on_the_key_alone(key: str) -> None:
    assert 0 <= fraction(key) < 1
    assert fraction(key) == fraction(key)


def test_callers_are_spread() -> None:
    waits = {round(backoff_s(5, f"agent-{i} GET /api/v1/pods", base_s=0.1, cap_s=10), 2) for i in range(200)}
    assert len(waits) > 50, "of 80 possible hundredths of a second between 0.8 and 1.6"


@pytest.mark.parametrize(
    ("code", "safe", "asked_s", "again"),
    [
        (429, False, None, True),
        (429, False, 5.0, True),
        (429, True, 61.0, False),
        (503, False, None, False),
        (503, False, 1.0, True),
        (503, True, None, True),
        (500, True, None, True),
        (500, False, 0.0, True),
        (404, True, 1.0, False),
        (409, False, None, False),
        (410, True, None, False),
    ],
)
def test_which_answers_are_worth_another_attempt(code: int, safe: bool, asked_s: float | None, again: bool) -> None:
    assert RetryPolicy().again(1, code, safe=safe, retry_after_s=asked_s) is again


def test_the_last_attempt_is_the_last() -> None:
    assert not RetryPolicy(attempts=3).again(3, 429, safe=True, retry_after_s=None)


def test_a_servers_wish_is_a_minimum() -> None:
    assert RetryPolicy().delay_s(1, "k", 30.0) == 30.0
    assert RetryPolicy(cap_s=100).delay_s(20, "k", 1.0) >= 50.0
