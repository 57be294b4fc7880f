"""Object limiters: how many pods of one workload, or of one namespace, may be moved in a time.

A bucket of tokens for each: a move takes one, and they come back evenly, `most` of them in `duration_s`. What was moved
when is read from the PodMigrationJobs, so that a restart forgets nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from koord.api.protocol.annotations.load import JOB_WORKLOAD
from koord.api.protocol.crd.pod_migration_job import PodMigrationJob
from koord.api.text.timestamp import TimestampError, parse_timestamp


@dataclass(frozen=True, slots=True)
class Departure:
    """A pod that a job made go."""

    workload: str
    "The uid; empty where it had none."
    namespace: str
    at_s: float


def departure_of(job: PodMigrationJob) -> Departure | None:
    """What a job made go; None while its pod stays."""
    eviction = next((condition for condition in job.status.conditions if condition.type == "Eviction"), None)
    if eviction is None:
        return None
    try:
        at_s = parse_timestamp(eviction.last_transition_time or "")
    except TimestampError:
        return None
    return Departure(JOB_WORKLOAD.read(job.metadata, "PodMigrationJob"), job.spec.pod_ref.namespace, at_s)


@dataclass(frozen=True, slots=True)
class Limit:
    """0 of `most`: no limit."""

    most: int
    duration_s: float
    burst: int = 1

    @property
    def is_off(self) -> bool:
        return self.most <= 0 or self.duration_s <= 0

    def tokens(self, went_s: Iterable[float], now_s: float) -> float:
        """What there is to take now. `went_s`: when others went."""
        burst = left = float(max(1, self.burst))
        at_s = None
        for time_s in (*sorted(went_s), now_s):
            if at_s is not None:
                left = min(burst, left - 1.0 + max(0.0, time_s - at_s) * self.most / self.duration_s)
            at_s = time_s
        return left


def wait_s(went_s: Iterable[float], limit: Limit, now_s: float) -> float:
    """How long until another may go; 0: now."""
    if limit.is_off:
        return 0.0
    return max(0.0, (1.0 - limit.tokens(went_s, now_s)) * limit.duration_s / limit.most)
