"""How long the accounting of quotas takes, by operation, under the names of the original."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Literal, TypeAlias

from koord.scheduler.framework.controller import Measure
from koord.scheduler.state.cluster import Cluster

PROCESS_LATENCY: Final = "scheduler_elastic_quota_process_latency"
Operation: TypeAlias = Literal["OnPodAdd", "OnPodUpdate", "OnPodDelete", "UpdateQuota", "DeleteQuota", "RefreshRuntime"]
MOST: Final = 10_000
"""Operations counted between two reads; further ones are not counted."""


class Latencies:
    """Seconds of operations since the last read, if the cluster has a clock to measure them."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._taken: list[tuple[Operation, float]] = []

    @contextmanager
    def timed(self, operation: Operation) -> Iterator[None]:
        """The seconds of what is done inside are counted."""
        ticks = self._cluster.ticks
        began_s = 0.0 if ticks is None else ticks()
        yield
        if ticks is not None and len(self._taken) < MOST:
            self._taken.append((operation, ticks() - began_s))

    def measures(self) -> Iterator[Measure]:
        taken, self._taken = self._taken, []
        for operation, seconds in taken:
            yield Measure(PROCESS_LATENCY, {"operation": operation}, seconds)
