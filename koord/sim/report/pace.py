"""How far runs are, how fast virtual time passes, and how long they still take: the line of progress."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from koord.api.text.counted import counted
from koord.sim.report.curves import clock


@dataclass(slots=True)
class Pace:
    """`began_s`: real time at the start. Virtual time is that of all runs together."""

    began_s: float
    lengths_s: Sequence[float]
    "Virtual time of each run."
    _first_s: dict[int, float] = field(default_factory=dict)
    "Where each run was at its first report: a run that continues from a checkpoint does not start at 0."

    def line(self, now_s: float, at_s: Sequence[float]) -> str:
        """`at_s`: how far each run is, 0 before its first minute."""
        for i, reached_s in enumerate(at_s):
            if reached_s > 0:
                self._first_s.setdefault(i, reached_s)
        advanced_s = sum(at_s[i] - first_s for i, first_s in self._first_s.items())
        left_s = sum(self.lengths_s) - sum(at_s)
        done = sum(reached_s >= length_s for reached_s, length_s in zip(at_s, self.lengths_s, strict=True))
        parts = []
        if len(at_s) == 1:
            parts.append(f"{' '.join(clock(at_s[0]))} of {span(self.lengths_s[0])}")
        else:
            running = min(
                (reached_s for i, reached_s in enumerate(at_s) if 0 < reached_s < self.lengths_s[i]), default=0.0
            )
            parts.append(f"{done} of {counted(len(at_s), 'run')} done, {' '.join(clock(running))}")
        if advanced_s > 0 and now_s > self.began_s:
            speed = advanced_s / (now_s - self.began_s)
            parts += [f"{speed:,.0f} x real time", f"{span(left_s / speed)} left"]
        return ", ".join(parts)


def span(seconds: float) -> str:
    """A length of time with two units at most, as in 2 d 6 h."""
    whole = round(seconds)
    for unit_s, unit, part_s, part in ((86_400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= unit_s:
            rest = whole % unit_s // part_s
            return f"{whole // unit_s} {unit}" + (f" {rest} {part}" if rest else "")
    return f"{whole} s"
