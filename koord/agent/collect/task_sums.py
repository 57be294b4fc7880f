"""What collectors of waiting remember of tasks and cgroups: sums that never go backwards, though these come and go."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

K = TypeVar("K", bound=Hashable)

EVERY_S: Final = 5.0


@dataclass(slots=True)
class Sum(Generic[K]):
    """Of one counter over tasks or cgroups that come and go."""

    total: float = 0.0
    _last: dict[K, float] = field(default_factory=dict)

    @property
    def tasks(self) -> Iterable[K]:
        """Those of the last look."""
        return self._last

    def add(self, now: Mapping[K, float], most: float = float("inf")) -> float:
        """`most`: by how much the counter of one can have grown since the last call."""
        for key, value in now.items():
            before = self._last.get(key, 0.0)
            self.total += min(value - before if value >= before else value, most)
        self._last = dict(now)
        return self.total


@dataclass(slots=True)
class Waiting:
    """What is remembered of a pod's tasks."""

    seen_s: float
    wait: Sum[int] = field(default_factory=Sum)
    slices: Sum[int] = field(default_factory=Sum)
    io_wait: Sum[int] = field(default_factory=Sum)
    throttled_ns: Sum[str] = field(default_factory=Sum)
    "By cgroup: a container that starts again begins at nothing, and what stopped it before still did."
    throttled: Sum[str] = field(default_factory=Sum)
    load: dict[tuple[str, str], float] = field(default_factory=dict)
    "By state and span, the average number of tasks."


@dataclass(slots=True)
class Waitings:
    every_s: float = EVERY_S
    looked_s: float = float("-inf")
    by_pod: dict[str, Waiting] = field(default_factory=dict)
    by_container: dict[str, Sum[int]] = field(default_factory=dict)
    limit_hits: dict[str, Sum[str]] = field(default_factory=dict)
    "By pod, how often each of its cgroups met its own memory limit."
