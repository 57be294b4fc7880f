"""One minute of a node: all that the policy `adaptive` learns from. The agent measures it, a simulator makes it.

CPU is in milli-cores. *Batch* is everything below best effort (pods, YARN's containers, best-effort host applications),
*services* is everything else on the node, the system included.

What batch wanted is not measured by the kernel. It is estimated from what kernels tell with cgroup v1 and with v2:

    by quota   wanted = used + throttled,   throttled: `throttled_time` (v1) or `throttled_usec` (v2) in `cpu.stat` of
               the best-effort directory, which the kernel adds up over CPUs that had work. The directory's own quota
               alone counts there: a pod that meets its own limit is not held back by the node.
    by CPUs    a CPU set throttles no task. Batch that uses 95% of its CPUs or more is taken to want what its pods
               count for: what they used when nothing held them back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

MARK_PERCENT: Final = 85
"""The default of the safety mark."""
MINUTE_S: Final = 60.0
FULL: Final = 0.95
"""Batch that uses this share of its CPUs has no room on them."""
RAN: Final = 0.01
"""Of the node's capacity: batch that wants less teaches nothing."""


@dataclass(frozen=True, slots=True)
class Capacity:
    milli: float
    mark_percent: float = MARK_PERCENT

    @property
    def mark_milli(self) -> float:
        """Use of the whole node that should not be exceeded."""
        return self.milli * self.mark_percent / 100


class PodMinute(NamedTuple):
    """A batch pod."""

    request_milli: float
    used_milli: float
    "Mean over the minute."
    age_s: float
    "Since its start, at the end of the minute."


@dataclass(frozen=True, slots=True)
class Minute:
    at_s: float
    "When it ended, in the time of everybody: what is remembered outlives the machine's uptime."
    services_milli: float
    "Mean over the minute."
    rise_milli: float
    "Mean over the minute of services' use less its mean over the 30 s before. Below 0 where services fell."
    services_memory_bytes: float
    "The highest in the minute."
    batch_used_milli: float
    "Mean over the minute, like the next one."
    batch_wanted_milli: float
    "What batch would have used if nothing had held it back; at least what it used."
    pods: Mapping[str, PodMinute]
    "Batch pods that ran, by uid."

    @property
    def node_milli(self) -> float:
        return self.services_milli + self.batch_used_milli

    @property
    def got(self) -> float:
        """The share of what it wanted that batch got, 0 to 1."""
        if self.batch_wanted_milli <= self.batch_used_milli:
            return 1.0
        return self.batch_used_milli / self.batch_wanted_milli

    def has_batch(self, capacity: Capacity) -> bool:
        """Whether batch ran. A pod that sleeps leaves the node as idle as no pod."""
        return max(self.batch_used_milli, self.batch_wanted_milli) >= RAN * capacity.milli


def batch_wanted(used_milli: float, throttled_milli: float, cpus_milli: float, counted_milli: float) -> float:
    """`throttled_milli`: CPU time per second for which the best-effort directory was throttled. `cpus_milli`: the CPUs
    that batch may run on. `counted_milli`: what its pods counted for before this minute."""
    wanted = used_milli + throttled_milli
    return max(wanted, counted_milli) if used_milli >= FULL * cpus_milli else wanted
