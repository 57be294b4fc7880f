"""How long the accounting of quotas takes, by operation, under the names of the original."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, Literal, TypeAlias

from koord.scheduler.framework.plugin import Measure

PROCESS_LATENCY: Final = "scheduler_elastic_quota_process_latency"
Operation: TypeAlias = Literal["OnPodAdd", "OnPodUpdate", "OnPodDelete", "UpdateQuota", "DeleteQuota", "RefreshRuntime"]
MOST: Final = 10_000
"""Between two looks; what comes after them is not counted."""


class Latencies:
    """Seconds since somebody looked."""

    def __init__(self, ticks: Callable[[], float] = time.perf_counter) -> None:
        self._ticks = ticks
        self._taken: list[tuple[Operation, float]] = []

    @contextmanager
    def timed(self, operation: Operation) -> Iterator[None]:
        """The seconds of what is done inside are counted."""
        began_s = self._ticks()
        yield
        self.took(operation, self._ticks() - began_s)

    def took(self, operation: Operation, seconds: float) -> None:
        if len(self._taken) < MOST:
            self._taken.append((operation, seconds))

    def measures(self) -> Iterator[Measure]:
        taken, self._taken = self._taken, []
        for operation, seconds in taken:
            yield Measure(PROCESS_LATENCY, {"operation": operation}, seconds)
