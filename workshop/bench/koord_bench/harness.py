"""The harness of all benchmarks: sizes, turns, times and rows.

A benchmark has a `Size` for a full run and a small one for `--quick`. It measures its cases, in turns with their
baselines, and adds each figure to a `Case` of its `Report`, which makes it a `Result`. Goals are for the full size: a
quick run leaves them out, unless they are for any size.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TypeAlias, TypeVar

from koord.api.machinery.struct import Struct

T = TypeVar("T")
Progress: TypeAlias = Callable[[str], None]
Figures: TypeAlias = dict[str, float]
"""Measured values by name."""


def silent(line: str) -> None:
    """Progress that is not shown."""


class Size(SimpleNamespace):
    """How much a benchmark does: amounts by name, as in `Size(nodes=5_000, seconds=10)`."""


class Result(Struct, omit_defaults=False):
    """One figure, with its baseline from the same run and its goal."""

    bench: str
    case: str
    metric: str
    value: float
    unit: str
    baseline: float | None = None
    "The same work done by what users have today, measured in the same run; null if that is not installed."
    ratio: float | None = None
    "How many times better than the baseline."
    goal: float | None = None
    met: bool | None = None
    peer: str = ""
    "The programs that gave the baseline, with versions."


@dataclass(slots=True)
class Report:
    """The rows of one benchmark."""

    bench: str
    quick: bool = False
    progress: Progress = silent
    rows: list[Result] = field(default_factory=list)

    def case(self, name: str, peer: str = "") -> Case:
        """`peer`: the programs that give the baselines."""
        return Case(self, name, peer)


@dataclass(frozen=True, slots=True)
class Case:
    report: Report
    name: str
    peer: str = ""

    def add(
        self,
        metric: str,
        value: float,
        unit: str,
        *,
        baseline: float | None = None,
        more_is_better: bool = False,
        goal: float | None = None,
        ratio_goal: float | None = None,
        at_any_size: bool = False,
    ) -> None:
        """Add a row. `goal` is absolute, `ratio_goal` is for the ratio to the baseline."""
        if self.report.quick and not at_any_size:
            goal = ratio_goal = None
        ratio = met = None
        if baseline and value:
            ratio = value / baseline if more_is_better else baseline / value
        if goal is not None:
            met = value >= goal if more_is_better else value <= goal
        elif ratio_goal is not None and ratio is not None and baseline is not None:
            met = ratio >= ratio_goal
            goal = baseline * ratio_goal if more_is_better else baseline / ratio_goal
        peer = self.peer if baseline is not None else ""
        self.report.rows.append(
            Result(self.report.bench, self.name, metric, value, unit, baseline, ratio, goal, met, peer)
        )


def turns(contenders: Sequence[T], rounds: int) -> Iterator[tuple[int, T]]:
    """The round and the contender to measure next. Rounds alternate in direction, so that all contenders get the same
    share of other load on the machine."""
    for number in range(rounds):
        for contender in contenders if number % 2 == 0 else reversed(contenders):
            yield number, contender


@contextmanager
def undisturbed() -> Iterator[None]:
    """Keep the garbage collector off."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def cpu_times(work: Callable[[], object], repeats: int) -> list[float]:
    """CPU seconds of this process, for each repeat."""
    took_s = []
    for _ in range(repeats):
        began_s = time.process_time()
        work()
        took_s.append(time.process_time() - began_s)
    return took_s


def percentile(values: Iterable[float], share: float) -> float:
    """The value that this share of all values is below; 0 if there are none."""
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)] if ordered else 0.0
