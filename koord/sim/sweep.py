"""Which runs a sweep makes: every combination of the values that `--over` gives to each key.

cpuReclaimThresholdPercent=60:90:5      60, 65, ..., 90
cpuCalculatePolicy=usage,request        these two
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from itertools import product
from typing import Any, Final, TypeAlias

from koord.api.machinery.faults import BadInput
from koord.sim.outcome import Totals
from koord.sim.pareto import front
from koord.sim.report.figures import NOTHING, amount, core_hours, share

Values: TypeAlias = Mapping[str, str]
"""A value by key, as text: how `--set` gives it."""
MOST_RUNS: Final = 10_000


def axis(text: str) -> tuple[str, tuple[str, ...]]:
    """A key and its values, from the text of one `--over`."""
    key, equals, right = text.partition("=")
    key = key.strip()
    if not equals or not key or not right.strip():
        raise BadInput(f"--over {text!r}: must be KEY=FROM:TO:STEP or KEY=VALUE,VALUE,...")
    values = _range(text, right) if ":" in right else tuple(value.strip() for value in right.split(","))
    if "" in values:
        raise BadInput(f"--over {text!r}: has an empty value")
    if len(set(values)) < len(values):
        raise BadInput(f"--over {text!r}: has the same value twice")
    return key, values


def grid(texts: Sequence[str]) -> tuple[Values, ...]:
    """Every combination, the last key changing fastest."""
    axes = [axis(text) for text in texts]
    keys = [key for key, _ in axes]
    if twice := next((key for key in keys if keys.count(key) > 1), ""):
        raise BadInput(f"--over {twice}: is given twice")
    count = 1
    for _, values in axes:
        count *= len(values)
    if count > MOST_RUNS:
        raise BadInput(f"--over: {count} combinations, at most {MOST_RUNS} are run")
    return tuple(dict(zip(keys, values, strict=True)) for values in product(*(values for _, values in axes)))


def _range(text: str, right: str) -> tuple[str, ...]:
    try:
        first, last, step = (Decimal(part.strip()) for part in right.split(":"))
    except (InvalidOperation, ValueError):
        raise BadInput(f"--over {text!r}: a range must be three numbers, FROM:TO:STEP") from None
    if not (first.is_finite() and last.is_finite() and step.is_finite()):
        raise BadInput(f"--over {text!r}: a range must be three finite numbers, FROM:TO:STEP")
    if step <= 0 or last < first:
        raise BadInput(f"--over {text!r}: STEP must be above 0, and TO at least FROM")
    if last - first >= step * MOST_RUNS:
        raise BadInput(f"--over {text!r}: more than {MOST_RUNS} values")
    count = int((last - first) / step) + 1
    return tuple(f"{(first + step * i).normalize():f}" for i in range(count))


@dataclass(frozen=True, slots=True)
class Setting:
    """What one combination came to: means over its seeds."""

    values: Values
    work_core_hours: float
    violated_percent: float
    worst_node_percent: float
    got_percent: float
    wasted_percent: float
    evicted_per_node_day: float
    on_front: bool = False

    @property
    def name(self) -> str:
        return ", ".join(f"{key}={value}" for key, value in self.values.items())


def settings(totals: Sequence[tuple[Values, Sequence[Totals]]]) -> tuple[Setting, ...]:
    """By combination, the totals of its runs; with the front marked."""
    measured_settings = [
        Setting(
            values,
            work_core_hours=_mean([core_hours(run.work_milli_s) for run in runs]),
            violated_percent=_mean([run.violated_percent for run in runs]),
            worst_node_percent=max(run.worst_node_percent for run in runs),
            got_percent=_mean([run.got_percent for run in runs]),
            wasted_percent=_mean([run.wasted_percent for run in runs]),
            evicted_per_node_day=_mean([run.evicted_per_node_day for run in runs]),
        )
        for values, runs in totals
    ]
    best = front([(setting.work_core_hours, setting.violated_percent) for setting in measured_settings])
    return tuple(replace(setting, on_front=i in best) for i, setting in enumerate(measured_settings))


def table(settings: Sequence[Setting]) -> list[tuple[str, ...]]:
    """A row for each combination."""
    keys = list(settings[0].values)
    rows: list[tuple[str, ...]] = [
        (
            *keys,
            "work, core-hours",
            "above the mark",
            "worst node",
            "got",
            "wasted",
            "evictions by node and day",
            "front",
        )
    ]
    for setting in settings:
        rows.append(
            (
                *setting.values.values(),
                amount(setting.work_core_hours),
                share(setting.violated_percent),
                share(setting.worst_node_percent),
                share(setting.got_percent) if math.isfinite(setting.got_percent) else NOTHING,
                share(setting.wasted_percent),
                amount(setting.evicted_per_node_day),
                "*" if setting.on_front else "",
            )
        )
    return rows


def as_json(settings: Sequence[Setting], seeds: Sequence[int], scenario: str) -> dict[str, Any]:
    return {
        "scenario": scenario,
        "seeds": list(seeds),
        "settings": [
            {
                "values": dict(setting.values),
                "workCoreHours": setting.work_core_hours,
                "violatedPercent": setting.violated_percent,
                "worstNodePercent": setting.worst_node_percent,
                "gotPercent": setting.got_percent if math.isfinite(setting.got_percent) else None,
                "wastedPercent": setting.wasted_percent,
                "evictedPerNodeDay": setting.evicted_per_node_day,
                "onFront": setting.on_front,
            }
            for setting in settings
        ],
    }


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
