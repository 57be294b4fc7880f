"""What the collector of waiting remembers of tasks: sums that never go backwards, though tasks come and go."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

EVERY_S: Final = 5.0


@dataclass(slots=True)
class Sum:
    """Of one counter over tasks that come and go."""

    total: float = 0.0
    _last: dict[int, float] = field(default_factory=dict)

    @property
    def tasks(self) -> Iterable[int]:
        """Those of the last look."""
        return self._last

    def add(self, now: Mapping[int, float], most: float) -> float:
        """`most`: by how much the counter of one task can have grown since the last call."""
        for task, value in now.items():
            before = self._last.get(task, 0.0)
            self.total += min(value - before if value >= before else value, most)
        self._last = dict(now)
        return self.total


@dataclass(slots=True)
class Waiting:
    """What is remembered of a pod's tasks."""

    seen_s: float
    wait: Sum = field(default_factory=Sum)
    slices: Sum = field(default_factory=Sum)
    io_wait: Sum = field(default_factory=Sum)
    load: dict[tuple[str, str], float] = field(default_factory=dict)
    "By state and span, the average number of tasks."


@dataclass(slots=True)
class Waitings:
    every_s: float = EVERY_S
    looked_s: float = float("-inf")
    by_pod: dict[str, Waiting] = field(default_factory=dict)
    by_container: dict[str, Sum] = field(default_factory=dict)
