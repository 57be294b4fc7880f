"""Do services notice the batch work beside them, and how much of what is idle does it get?

An open-loop load (requests arrive at their own times, whether or not the last one is done) on every CPU, beside one
neighbour at a time (`colocation_neighbours`). Four ways: alone, unprotected (equal weights, no agent), protected (the
agent with its default gates), and protected with interference control. Each visit of a neighbour has all ways, and
visits are interleaved; figures are medians over rounds. How much two runs of "alone" differ is said beside them.

Goals: p99 at most 1.1 times that of alone, or twice that difference if it is larger. Where only resctrl can keep a
neighbour off (cache, bandwidth) and there is none: it is named within 3 windows, and after the action p99 is back
within 1.25 times. Best effort gets at least 85% of what was idle: of CPU time, and if it lives on the disk, of what it
writes without the agent.

Needs root: real cgroups below one that is made here, and taken away; also what a run left that was killed.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from koord.agent.host import resctrl
from koord.agent.host.files import Files
from koord_bench import colocation_node as node
from koord_bench import colocation_visit
from koord_bench.colocation_neighbours import NEIGHBOURS, Neighbour
from koord_bench.colocation_visit import (
    ALONE,
    CONTROLLED,
    PROTECTED,
    SUPPRESSED,
    UNPROTECTED,
    ServiceFigures,
    Visit,
)
from koord_bench.harness import Progress, Report, Result, silent, turns

BENCH: Final = "colocation"
TIMES: Final = 1.10
AFTER_ACTION: Final = 1.25
NAMED_WITHIN: Final = 3
BEST_EFFORT: Final = 0.85
OFF_BUDGET: Final = 0.05
ROUNDS: Final = 5
SECONDS: Final = 4.0


@dataclass(frozen=True, slots=True)
class Metric:
    name: str
    unit: str
    more_is_better: bool = False


P99: Final = Metric("p99", "ms")
SPREAD: Final = Metric("difference of two runs", "of it")
WAITED: Final = Metric("requests that waited for a CPU", "of 1")
ANSWERED: Final = Metric("requests answered", "/s", more_is_better=True)
IDLE_USED: Final = Metric("idle CPU used", "of 1", more_is_better=True)
DISK_USED: Final = Metric("written, of unprotected", "of 1", more_is_better=True)
WORKED: Final = Metric("CPU time of a request", "ms")
STOLEN: Final = Metric("stolen by the hypervisor", "of 1")
NAMED: Final = Metric("named after", "windows")
OFF: Final = Metric("off the budget", "of it")
NEVER: Final = 999.0
"""Windows: a neighbour that was not named at all."""
_COMPARED: Final[dict[Metric, Callable[[ServiceFigures], float | None]]] = {
    WAITED: lambda figures: figures.waited,
    ANSWERED: lambda figures: figures.answered_s,
    WORKED: lambda figures: figures.worked_ms,
}
"""With the figure of the service alone as the baseline."""


@dataclass(frozen=True, slots=True)
class Options:
    neighbours: tuple[str, ...] = ()
    "Their names; empty: all."
    rounds: int = 0
    seconds: float = 0.0
    "Duration of each way. 0 rounds or seconds: the defaults."


@dataclass(slots=True)
class Visits:
    """All visits of one neighbour, one for each round."""

    neighbour: Neighbour
    has_resctrl: bool
    of: list[Visit] = field(default_factory=list)

    def median(self, way: str, figure: Callable[[ServiceFigures], float | None]) -> float | None:
        values = [value for visit in self.of if (value := figure(visit.ways[way])) is not None]
        return statistics.median(values) if values else None

    def p99(self, way: str) -> float:
        return self.median(way, lambda figures: figures.p99_ms) or 0.0

    @property
    def alone(self) -> float:
        return statistics.median(visit.ways[way].p99_ms for visit in self.of for way in ALONE)

    @property
    def spread(self) -> float:
        """By which part two runs of "alone" differ."""
        one, other = sorted(self.p99(way) for way in ALONE)
        return other / one - 1 if one else 0.0

    def got(self, way: str) -> float | None:
        """The neighbour's share of what was idle."""
        if not self.neighbour.lives_on_disk:
            return self.median(way, lambda figures: figures.best_effort)
        written = [(visit.ways[way].written_s, visit.ways[UNPROTECTED].written_s) for visit in self.of]
        shares = [one / other for one, other in written if one is not None and other]
        return statistics.median(shares) if shares else None

    @property
    def is_found_and_held(self) -> bool:
        """Whether nothing but control keeps it off."""
        return self.neighbour.needs_resctrl and not self.has_resctrl

    @property
    def goal(self) -> float:
        return self.alone * max(TIMES, 1 + 2 * self.spread)

    @property
    def goal_of_control(self) -> float:
        return self.alone * max(AFTER_ACTION, 1 + 2 * self.spread) if self.is_found_and_held else self.goal

    @property
    def named_after(self) -> float | None:
        """Windows, where most visits named it."""
        windows = [visit.named_after for visit in self.of if visit.named_after is not None]
        return statistics.median(windows) if 2 * len(windows) > len(self.of) else None


def run(quick: bool = False, progress: Progress = silent, options: Options | None = None) -> list[Result]:
    if os.geteuid() != 0:
        progress("the co-location figure needs root: it is left out")
        return []
    asked = options or Options()
    rounds, seconds = asked.rounds or (1 if quick else ROUNDS), asked.seconds or (1.0 if quick else SECONDS)
    has_resctrl = not resctrl.absence(Files("/"))
    chosen = [
        Visits(neighbour, has_resctrl)
        for neighbour in NEIGHBOURS
        if not asked.neighbours or neighbour.name in asked.neighbours
    ]
    node.clean()
    for number, visits in turns(chosen, rounds):
        progress(f"round {number + 1} of {rounds}: a neighbour that {visits.neighbour.does}")
        visits.of.append(colocation_visit.visit(visits.neighbour, seconds))
    report = Report(BENCH, quick, progress)
    for visits in chosen:
        add_rows(report, visits)
    return report.rows


def add_rows(report: Report, visits: Visits) -> None:
    """The figures of one neighbour. A figure that could not be measured has no row."""

    def add(
        way: str, metric: Metric, value: float | None, *, baseline: float | None = None, goal: float | None = None
    ) -> None:
        if value is not None:
            case, more = report.case(f"{visits.neighbour.name}, {way}"), metric.more_is_better
            case.add(metric.name, value, metric.unit, baseline=baseline, more_is_better=more, goal=goal)

    alone = visits.alone
    add("alone", P99, alone)
    add("alone", SPREAD, visits.spread)
    goals = {PROTECTED: None if visits.is_found_and_held else visits.goal, CONTROLLED: visits.goal_of_control}
    for way in (UNPROTECTED, PROTECTED, CONTROLLED):
        add(way, P99, visits.p99(way), baseline=alone, goal=goals.get(way))
        for metric, figure in _COMPARED.items():
            add(way, metric, visits.median(way, figure), baseline=visits.median(ALONE[0], figure))
        add(way, STOLEN, visits.median(way, lambda figures: figures.stolen))
        goal = BEST_EFFORT if way == PROTECTED else None
        add(way, DISK_USED if visits.neighbour.lives_on_disk else IDLE_USED, visits.got(way), goal=goal)
    is_slow = visits.is_found_and_held and visits.p99(PROTECTED) > visits.goal_of_control
    after = visits.named_after
    if after is not None or is_slow:
        goal = NAMED_WITHIN if visits.is_found_and_held else None
        add(CONTROLLED, NAMED, NEVER if after is None else after, goal=goal)
    if SUPPRESSED in visits.of[0].ways:
        add(SUPPRESSED, P99, visits.p99(SUPPRESSED), baseline=alone)
        off = visits.median(SUPPRESSED, lambda figures: figures.off_budget)
        add(SUPPRESSED, OFF, None if off is None else abs(off), goal=OFF_BUDGET)
