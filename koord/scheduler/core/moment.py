"""The time at which the core is told something or asked. Whoever drives it brings the time along."""

from __future__ import annotations

from typing import NamedTuple


class Moment(NamedTuple):
    wall_s: float
    "Seconds since 1970: what objects are stamped with."
    steady_s: float
    "Seconds on a monotonic clock, which measures waiting times."
