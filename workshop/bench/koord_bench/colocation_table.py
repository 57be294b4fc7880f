"""The co-location figure for people: a line for each neighbour, with p99 as times that of alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from koord_bench.colocation import (
    ANSWERED,
    DISK_USED,
    IDLE_USED,
    NAMED,
    NEVER,
    OFF,
    P99,
    SPREAD,
    STOLEN,
    WAITED,
    WORKED,
    Metric,
)
from koord_bench.colocation_node import THRESHOLD
from koord_bench.colocation_visit import CONTROLLED, PROTECTED, SUPPRESSED, UNPROTECTED, WAITED_MS
from koord_bench.harness import Result

HEADINGS: Final = (
    "NEIGHBOUR", "ALONE", "TWO RUNS", "UNPROTECTED", "PROTECTED", "CONTROLLED", "AT MOST", "MET",
    "ANSWERED", "BEST EFFORT GOT", "AT LEAST", "MET", "NAMED AFTER", "MET",
)  # fmt: skip
NOTES: Final = (
    "ALONE: p99 of the service. TWO RUNS: by how much two runs of it differ. Then p99 as times that of alone: without",
    "the agent, with its default gates, and with interference control too (windows of 1 s instead of 10).",
    "ANSWERED: requests, protected, of alone. BEST EFFORT GOT: protected, of the CPU time that nothing else used; for",
    "a neighbour that writes to disk, of what it wrote unprotected.",
)


class NeighbourRow:
    """The rows of one neighbour."""

    def __init__(self, neighbour: str, results: Mapping[tuple[str, str], Result]) -> None:
        self.neighbour, self._results = neighbour, results

    def get(self, way: str, metric: Metric) -> Result | None:
        return self._results.get((f"{self.neighbour}, {way}", metric.name))

    def row(self) -> tuple[str, ...]:
        alone, spread = self.get("alone", P99), self.get("alone", SPREAD)
        controlled, held = self.get(CONTROLLED, P99), self.get(PROTECTED, P99)
        judged = [result for result in (held, controlled) if result is not None]
        goals = [result.goal / alone.value for result in judged if result.goal is not None and alone and alone.value]
        got = self.get(PROTECTED, IDLE_USED) or self.get(PROTECTED, DISK_USED)
        answered, named = self.get(PROTECTED, ANSWERED), self.get(CONTROLLED, NAMED)
        return (
            self.neighbour,
            f"{alone.value:.2f} ms" if alone else "-",
            f"{100 * spread.value:.0f}%" if spread else "-",
            *(self._times(way) for way in (UNPROTECTED, PROTECTED, CONTROLLED)),
            f"{max(goals):.2f}x" if goals else "-",
            _met(*judged),
            f"{100 * (answered.ratio or 0):.0f}%" if answered else "-",
            f"{100 * got.value:.0f}%" if got else "-",
            f"{100 * got.goal:.0f}%" if got and got.goal else "-",
            _met(got),
            "-" if named is None else "never" if named.value == NEVER else f"{named.value:g} windows",
            _met(named),
        )

    def _times(self, way: str) -> str:
        p99 = self.get(way, P99)
        return f"{p99.value / p99.baseline:.2f}x" if p99 and p99.baseline else "-"

    def missed(self) -> Iterator[str]:
        """Where p99 is above its goal, what it is made of: waiting for a CPU, or a CPU that is slower, or away."""
        for way in (PROTECTED, CONTROLLED):
            p99 = self.get(way, P99)
            if p99 is None or p99.met is not False:
                continue
            waited, worked, stolen = (self.get(way, metric) for metric in (WAITED, WORKED, STOLEN))
            if waited and waited.baseline is not None and worked and worked.baseline and stolen:
                yield (
                    f"{self.neighbour}, {way}: {100 * waited.value:.1f}% of the requests waited {WAITED_MS:g} ms or "
                    f"more for a CPU, {100 * waited.baseline:.1f}% alone. A request took "
                    f"{worked.value / worked.baseline:.2f}x the CPU time that it takes alone, and the hypervisor gave "
                    f"{100 * stolen.value:.1f}% of the CPUs' time to others."
                )

    def suppressed(self) -> Iterator[str]:
        off = self.get(SUPPRESSED, OFF)
        if off is not None:
            met = f" (goal: {100 * off.goal:.0f}%; met: {_met(off)})" if off.goal is not None else ""
            yield (
                f"With CPU suppress at {THRESHOLD}% beside {self.neighbour}: p99 {self._times(SUPPRESSED)}, "
                f"and best effort {100 * off.value:.1f}% off its budget{met}."
            )


def table(results: Sequence[Result]) -> str:
    by_metric = {(result.case, result.metric): result for result in results}
    names = dict.fromkeys(result.case.split(", ")[0] for result in results)
    neighbours = [NeighbourRow(name, by_metric) for name in names]
    rows = [HEADINGS, *(neighbour.row() for neighbour in neighbours)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
    lines = ["   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    more = [line for neighbour in neighbours for line in (*neighbour.missed(), *neighbour.suppressed())]
    return "\n".join([*lines, "", *NOTES, *more]) + "\n"


def _met(*judged: Result | None) -> str:
    met = [result.met for result in judged if result is not None and result.met is not None]
    return "-" if not met else "yes" if all(met) else "NO"
