"""What runs of one scenario came to, side by side: the rows of the table, for a terminal, a page and programs.

The oracle and the fluid bound are measures: no policy can do more work than the bound, and the oracle is the best that
discrete pods allow if each node's next hour is known.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from koord.sim.outcome import FORMAT, Outcome, Totals

CORE_HOUR_MILLI_S: Final = 1000 * 3600.0
NOTHING: Final = "-"
"""In a cell without a figure."""


@dataclass(frozen=True, slots=True)
class Run:
    """One column of the table."""

    name: str
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class SideBySide:
    """Runs of one scenario with one seed."""

    runs: tuple[Run, ...]
    oracle: Outcome | None = None
    "Its run, if there is one to measure by."
    bound_milli_s: float | None = None
    "Work of the fluid bound."

    @property
    def is_whole(self) -> bool:
        """Whether all runs reached their end."""
        return all(run.outcome.ended for run in self.runs)

    def of_oracle(self, outcome: Outcome) -> float | None:
        """Its work in percent of the oracle's. None unless both ran equally long."""
        if self.oracle is None or self.oracle.totals.minutes != outcome.totals.minutes:
            return None
        return _percent(outcome.totals.work_milli_s, self.oracle.totals.work_milli_s)

    def of_bound(self, outcome: Outcome) -> float | None:
        """Its work in percent of the fluid bound. None for a run that was stopped: the bound is of the whole time."""
        if self.bound_milli_s is None or not outcome.ended:
            return None
        return _percent(outcome.totals.work_milli_s, self.bound_milli_s)


Line: TypeAlias = tuple[str, Callable[[SideBySide, Outcome], float | None], Callable[[float], str]]
"""A row: its name, its figure, and how it is written."""


def core_hours(milli_s: float) -> float:
    return milli_s / CORE_HOUR_MILLI_S


def system_percent(outcome: Outcome) -> float:
    """What is used outside of pods, of capacity, after the warm-up."""
    counted = slice(len(outcome.series.at_s) - outcome.totals.minutes, None)
    capacity = float(outcome.series.capacity_milli[counted].sum())
    return _percent(float(outcome.series.system_milli[counted].sum()), capacity) or 0.0


def used_percent(outcome: Outcome) -> float:
    totals = outcome.totals
    return totals.services_percent + totals.batch_percent + system_percent(outcome)


def amount(value: float) -> str:
    """Three digits, or as many as a whole number has."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def share(value: float) -> str:
    """A percentage. Small ones keep two digits, since violations are counted in tenths of a percent."""
    if value and abs(value) < 0.005:
        return "<0.01%" if value > 0 else ">-0.01%"
    return f"{value:.1f}%" if abs(value) >= 10 else f"{value:.2f}%" if value else "0%"


def duration(seconds: float) -> str:
    """A wait, in the unit that a person would choose."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 2 * 3600 else f"{seconds / 3600:.1f} h"


def _if_any(
    field: Callable[[Totals], float], of: Callable[[Totals], float]
) -> Callable[[SideBySide, Outcome], float | None]:
    """A figure of pods or work, where there were any."""
    return lambda side, outcome: field(outcome.totals) if of(outcome.totals) else None


def _of(field: Callable[[Totals], float]) -> Callable[[SideBySide, Outcome], float]:
    return lambda side, outcome: field(outcome.totals)


def _batch(totals: Totals) -> float:
    return totals.batch_percent


def _arrived(totals: Totals) -> float:
    return float(totals.arrived)


LINES: Final[tuple[Line, ...]] = (
    ("batch work, core-hours", _of(lambda totals: core_hours(totals.work_milli_s)), amount),
    ("  of the oracle's", lambda side, outcome: side.of_oracle(outcome), share),
    ("  of the fluid bound", lambda side, outcome: side.of_bound(outcome), share),
    ("GPUs allocated", _of(lambda totals: totals.gpu_allocated_percent), share),
    ("GPUs that pods wait for", _of(lambda totals: totals.gpu_waiting_percent), share),
    ("CPU used", lambda side, outcome: used_percent(outcome), share),
    ("  by batch", _of(lambda totals: totals.batch_percent), share),
    ("  by services", _of(lambda totals: totals.services_percent), share),
    ("  by the system", lambda side, outcome: system_percent(outcome), share),
    ("minutes of nodes above the mark", _of(lambda totals: totals.violated_percent), share),
    ("  on the worst node", _of(lambda totals: totals.worst_node_percent), share),
    ("service samples over their limit", _of(lambda totals: totals.slow_percent), share),
    ("  their mean p99, of that of an idle service", _of(lambda totals: totals.p99), lambda value: f"{value:.2f}x"),
    ("evictions", _of(lambda totals: float(totals.evicted)), amount),
    ("  by node and day", _of(lambda totals: totals.evicted_per_node_day), amount),
    ("batch work wasted", _if_any(lambda totals: totals.wasted_percent, _batch), share),
    ("batch got of what it wanted", _if_any(lambda totals: totals.got_percent, _batch), share),
    ("batch pods finished", _of(lambda totals: float(totals.finished)), amount),
    ("wait, median", _if_any(lambda totals: totals.wait_p50_s, _arrived), duration),
    ("wait, p99", _if_any(lambda totals: totals.wait_p99_s, _arrived), duration),
    ("fragmentation", _if_any(lambda totals: totals.fragmentation_percent, _batch), share),
    ("fairness between quotas", _of(lambda totals: totals.fairness), lambda value: f"{value:.2f}"),
)
"""Percentages are of capacity where nothing else is said."""


def table(side: SideBySide) -> list[tuple[str, ...]]:
    """A row for each figure, a column for each run. Figures that no run has are left out."""
    rows = [("policy", *(run.name for run in side.runs))]
    for name, figure, written in LINES:
        values = [figure(side, run.outcome) for run in side.runs]
        cells = [NOTHING if value is None or not math.isfinite(value) else written(value) for value in values]
        if set(cells) != {NOTHING}:
            rows.append((name, *cells))
    return rows


def as_json(side: SideBySide) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "scenario": side.runs[0].outcome.scenario,
        "seed": side.runs[0].outcome.seed,
        "boundCoreHours": None if side.bound_milli_s is None else core_hours(side.bound_milli_s),
        "runs": [
            {
                "name": run.name,
                "workCoreHours": core_hours(run.outcome.totals.work_milli_s),
                "ofOraclePercent": side.of_oracle(run.outcome),
                "ofBoundPercent": side.of_bound(run.outcome),
                "systemPercent": system_percent(run.outcome),
                **run.outcome.as_json(),
            }
            for run in side.runs
        ],
    }


def headline(side: SideBySide, chosen: Run) -> str:
    """The answer in a sentence or two: what a policy brings, and what it costs."""
    totals = chosen.outcome.totals
    if not totals.minutes:
        return f"{chosen.name} was stopped within the warm-up, which no figure counts."
    if math.isfinite(totals.gpu_allocated_percent):
        return (
            f"{chosen.name} has {share(totals.gpu_allocated_percent)} of all GPUs allocated in the mean,"
            f" while pods wait for {share(totals.gpu_waiting_percent)} of them."
        )
    alone = next((run for run in side.runs if run.name == "none" and run is not chosen), None)
    if alone is not None and not alone.outcome.totals.minutes:
        alone = None
    without = f" instead of {used_percent(alone.outcome):.0f}%" if alone is not None else ""
    oracle = side.of_oracle(chosen.outcome)
    measured = f", {oracle:.0f}% of what an oracle would do" if oracle is not None else ""
    return (
        f"{chosen.name} uses {used_percent(chosen.outcome):.0f}% of the CPU{without}, and does"
        f" {amount(core_hours(totals.work_milli_s))} core-hours of batch work{measured}."
        f" Nodes are above the safety mark in {share(totals.violated_percent)} of their minutes,"
        f" and {share(totals.wasted_percent)} of the batch work is lost to evictions."
    )


def _percent(part: float, whole: float) -> float | None:
    return 100 * part / whole if whole > 0 else None
