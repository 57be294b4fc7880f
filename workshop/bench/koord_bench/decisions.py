"""How long a scheduling engine takes to decide: pods placed one after the other, each timed in CPU seconds."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.engine import Engine
from koord_bench.harness import Case, percentile, undisturbed


@dataclass(slots=True)
class Decisions:
    took_s: list[float] = field(default_factory=list)
    placed: int = 0
    victims: int = 0
    rows_judged: int = 0
    bodies_run: int = 0
    "Plugins times rows."

    def ms(self, share: float) -> float:
        """The time that this share of the decisions stayed below."""
        return 1000 * percentile(self.took_s, share)

    @property
    def pods_s(self) -> float:
        return len(self.took_s) / sum(self.took_s)

    def warm(self) -> Decisions:
        """Without the times of the first tenth, which found caches empty."""
        return Decisions(self.took_s[len(self.took_s) // 10 :], self.placed)

    def add_rate(self, case: Case, *, goal: float | None = None, baseline: float | None = None) -> None:
        case.add("decided", self.pods_s, "pods/s", baseline=baseline, more_is_better=True, goal=goal)


def timed(engine: Engine, asks: Iterable[Ask]) -> Decisions:
    decisions = Decisions()
    with undisturbed():
        for ask in asks:
            began_s = time.thread_time()
            node = engine.place(ask).node
            decisions.took_s.append(time.thread_time() - began_s)
            decisions.placed += node is not None
    return decisions
