"""Cron schedules: which time comes next."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from koord.api.text.cron import CronError, parse


def seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


@pytest.mark.parametrize(
    ("schedule", "zone", "after", "expected"),
    [
        ("*/15 * * * *", None, "2026-11-15T04:25:02+00:00", "2026-11-15T04:30:00+00:00"),
        ("*/15 * * * *", None, "2026-11-15T04:30:00+00:00", "2026-11-15T04:45:00+00:00"),
        ("5/20 * * * *", None, "2026-11-15T04:26:00+00:00", "2026-11-15T04:45:00+00:00"),
        ("0 9-17 * * MON-fri", None, "2026-11-13T17:00:01+00:00", "2026-11-16T09:00:00+00:00"),
        ("0 0 1 1 *", None, "2026-11-15T00:00:00+00:00", "2027-01-01T00:00:00+00:00"),
        ("0 0 29 2 *", None, "2026-11-15T00:00:00+00:00", "2028-02-29T00:00:00+00:00"),
        # Both days are restricted: either will do.
        ("0 0 13 * 5", None, "2026-11-01T00:00:00+00:00", "2026-11-06T00:00:00+00:00"),
        ("0 0 */10 * 1", None, "2026-11-02T00:00:00+00:00", "2026-11-09T00:00:00+00:00"),
        # One of them is `*`: both must match.
        ("0 0 * * 5", None, "2026-11-01T00:00:00+00:00", "2026-11-06T00:00:00+00:00"),
        ("@daily", None, "2026-11-15T04:25:02+00:00", "2026-11-16T00:00:00+00:00"),
        ("@hourly", None, "2026-11-15T04:25:02+00:00", "2026-11-15T05:00:00+00:00"),
        ("@every 90s", None, "2026-11-15T04:25:02+00:00", "2026-11-15T04:26:32+00:00"),
        ("0 8 * * *", "Asia/Kolkata", "2026-11-15T00:00:00+00:00", "2026-11-15T02:30:00+00:00"),
        ("TZ=Asia/Kolkata 0 8 * * *", None, "2026-11-15T00:00:00+00:00", "2026-11-15T02:30:00+00:00"),
        # 02:30 does not exist on 8 March in New York, and 01:30 comes twice on 1 November.
        ("30 2 * * *", "America/New_York", "2026-03-07T12:00:00+00:00", "2026-03-09T06:30:00+00:00"),
        ("30 1 * * *", "America/New_York", "2026-11-01T05:00:00+00:00", "2026-11-01T05:30:00+00:00"),
        ("30 1 * * *", "America/New_York", "2026-11-01T05:30:00+00:00", "2026-11-01T06:30:00+00:00"),
    ],
)
def test_the_next_time_of_a_schedule(schedule: str, zone: str | None, after: str, expected: str) -> None:
    assert parse(schedule, zone).next_after(seconds(after)) == seconds(expected)


def test_a_schedule_that_no_day_matches_has_no_time() -> None:
    assert parse("0 0 30 2 *").next_after(seconds("2026-11-15T00:00:00+00:00")) is None


@pytest.mark.parametrize(
    ("schedule", "said"),
    [
        ("* * * *", "expected exactly 5 fields"),
        ("60 * * * *", "above maximum"),
        ("* * 0 * *", "below minimum"),
        ("*/0 * * * *", "positive number"),
        ("1-2-3 * * * *", "too many hyphens"),
        ("@sometimes", "unrecognized descriptor"),
        ("@every now", "failed to parse duration"),
        ("TZ=Nowhere * * * * *", "unknown time zone"),
    ],
)
def test_what_is_no_schedule_is_refused_with_the_reason(schedule: str, said: str) -> None:
    with pytest.raises(CronError, match=said):
        parse(schedule)


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"])
def test_no_time_is_left_out_and_none_is_made_up(zone: str) -> None:
    """Beside a walk over every minute of the days around both changes of clocks."""
    chance = random.Random(25)
    starts = [seconds("2026-03-07T00:00:00+00:00"), seconds("2026-10-31T00:00:00+00:00")]
    for start_s in (*starts, *(start + 28 * 86_400 for start in starts)):
        minute, hour = chance.choice(("*/20", "7,37", "0")), chance.choice(("*", "1-3", "*/6", "2"))
        schedule = parse(f"{minute} {hour} * * *", zone)
        found, at_s = [], schedule.next_after(start_s - 1)
        while at_s is not None and at_s < start_s + 2 * 86_400:
            found.append(at_s)
            at_s = schedule.next_after(at_s)
        walked = [s for s in range(int(start_s), int(start_s) + 2 * 86_400, 60) if _matches(s, minute, hour, zone)]
        assert found == walked, (minute, hour, zone, datetime.fromtimestamp(start_s, UTC))


def _matches(at_s: int, minute: str, hour: str, zone: str) -> bool:
    local = datetime.fromtimestamp(at_s, ZoneInfo(zone))
    minutes = {"*/20": (0, 20, 40), "7,37": (7, 37), "0": (0,)}[minute]
    hours = {"*": range(24), "1-3": (1, 2, 3), "*/6": (0, 6, 12, 18), "2": (2,)}[hour]
    return local.minute in minutes and local.hour in hours
