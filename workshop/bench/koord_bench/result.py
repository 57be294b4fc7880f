"""What a benchmark found: one figure, beside the baseline of the same run and the goal it is held to."""

from __future__ import annotations

from koord.api.machinery.struct import Struct


class Result(Struct, omit_defaults=False):
    bench: str
    case: str
    metric: str
    value: float
    unit: str
    baseline: float | None = None
    "The same work done by what users have today, measured in the same run; null where it is not installed."
    ratio: float | None = None
    "How many times better than the baseline."
    goal: float | None = None
    met: bool | None = None
    peer: str = ""
    "What gave the baseline, with versions."


def result(
    bench: str,
    case: str,
    metric: str,
    value: float,
    unit: str,
    *,
    baseline: float | None = None,
    more_is_better: bool = False,
    goal: float | None = None,
    ratio_goal: float | None = None,
    peer: str = "",
) -> Result:
    """A figure with its ratio. The goal is an absolute one, or one for the ratio."""
    ratio = None
    if baseline and value:
        ratio = value / baseline if more_is_better else baseline / value
    met = None
    if goal is not None:
        met = value >= goal if more_is_better else value <= goal
    elif ratio_goal is not None and ratio is not None and baseline is not None:
        met = ratio >= ratio_goal
        goal = baseline * ratio_goal if more_is_better else baseline / ratio_goal
    return Result(bench, case, metric, value, unit, baseline, ratio, goal, met, peer if baseline is not None else "")
