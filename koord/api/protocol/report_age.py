"""How old a node's report counts as: one rule for all who read NodeMetrics.

A report carries the time of its node's clock. A time ahead of now is as far from now as one behind it: a clock that is
a little ahead does no harm, and a report from the year 9999 says nothing about now.
"""

from __future__ import annotations

import math


def report_age_s(reported_s: float | None, now_s: float) -> float:
    """The distance of a report from now; infinite where there is none."""
    return math.inf if reported_s is None else abs(now_s - reported_s)
