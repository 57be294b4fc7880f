"""What other settings would have changed on the same history: gain, risk, and which pods would have been evicted when.

Both runs see the same load and the same chance, so every difference comes from the settings.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from koord.sim.outcome import FORMAT, EvictedPod, Outcome
from koord.sim.report.curves import clock
from koord.sim.report.figures import LINES, NOTHING, Run, SideBySide, amount, core_hours, share

BEFORE: Final = "unchanged"
AFTER: Final = "with the change"


@dataclass(frozen=True, slots=True)
class WhatIf:
    before: Outcome
    after: Outcome

    @property
    def side(self) -> SideBySide:
        return SideBySide((Run(AFTER, self.after), Run(BEFORE, self.before)))

    @property
    def is_whole(self) -> bool:
        return self.before.ended and self.after.ended

    @property
    def is_same(self) -> bool:
        """Whether the change had no effect at all."""
        return repr(self.before.totals) == repr(self.after.totals)

    @property
    def gain_core_hours(self) -> float:
        return core_hours(self.after.totals.work_milli_s - self.before.totals.work_milli_s)

    @property
    def spared(self) -> tuple[EvictedPod, ...]:
        """Evictions of pods that the change would have avoided."""
        evicted = {pod.pod for pod in self.after.evicted}
        return tuple(pod for pod in self.before.evicted if pod.pod not in evicted)

    @property
    def added(self) -> tuple[EvictedPod, ...]:
        """Evictions of pods that would not have been evicted without the change."""
        evicted = {pod.pod for pod in self.before.evicted}
        return tuple(pod for pod in self.after.evicted if pod.pod not in evicted)


def table(runs: WhatIf) -> list[tuple[str, ...]]:
    """A row for each figure: before, after and the difference."""
    rows: list[tuple[str, ...]] = [("figure", BEFORE, AFTER, "difference")]
    for name, figure, written in LINES:
        values = [figure(runs.side, outcome) for outcome in (runs.before, runs.after)]
        cells = [NOTHING if value is None or not math.isfinite(value) else written(value) for value in values]
        if set(cells) == {NOTHING}:
            continue
        before, after = values
        difference = NOTHING
        if before is not None and after is not None and NOTHING not in cells:
            change = after - before
            sign = "+" if change > 0 else "-" if change < 0 else ""
            # A difference of percentages is no percentage.
            difference = sign + written(abs(change)).replace("%", " points")
        rows.append((name, *cells, difference))
    return rows


def evictions(pods: Sequence[EvictedPod]) -> list[tuple[str, ...]]:
    """In the order of time."""
    rows: list[tuple[str, ...]] = [("when", "pod", "node", "by", "core-hours lost")]
    for pod in sorted(pods, key=lambda pod: (pod.at_s, pod.pod)):
        rows.append((" ".join(clock(pod.at_s)), pod.pod, pod.node, pod.by, amount(core_hours(pod.lost_milli_s))))
    return rows


def headline(runs: WhatIf) -> str:
    """Gain and risk in words."""
    before, after = runs.before.totals, runs.after.totals
    gain = runs.gain_core_hours
    relative = ""
    if before.work_milli_s > 0:
        relative = f" ({100 * (after.work_milli_s / before.work_milli_s - 1):+.1f}%)"
    more = "more" if gain >= 0 else "less"
    return (
        f"gain: {amount(abs(gain))} core-hours {more} batch work{relative}\n"
        f"risk: {share(after.violated_percent)} of minutes of nodes above the mark instead of"
        f" {share(before.violated_percent)}; {len(runs.added)} pods evicted that would not be otherwise,"
        f" {len(runs.spared)} spared"
    )


def as_json(runs: WhatIf) -> dict[str, Any]:
    def pods(evicted: Sequence[EvictedPod]) -> list[dict[str, Any]]:
        return [
            {
                "atS": pod.at_s,
                "pod": pod.pod,
                "node": pod.node,
                "by": pod.by,
                "lostCoreHours": core_hours(pod.lost_milli_s),
            }
            for pod in evicted
        ]

    return {
        "format": FORMAT,
        "gainCoreHours": runs.gain_core_hours,
        "evictedMore": pods(runs.added),
        "spared": pods(runs.spared),
        "before": runs.before.as_json(),
        "after": runs.after.as_json(),
    }
