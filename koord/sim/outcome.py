"""What a run came to: columns over time, totals without the warm-up, and figures by node, quota and eviction.

CPU is in milli-cores, work in milli-core-seconds. A value of a column over time is that of one minute.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from koord.sim.columns import Repair
from koord.sim.minutes import Floats, Ints

FORMAT: Final = "koord.sim/v1"
EvictedBy: TypeAlias = Literal["policy", "node", "descheduler", "preemption"]


@dataclass(frozen=True, slots=True)
class Series:
    """One value a minute, for the whole cluster, or a pool of it."""

    at_s: Floats
    "When the minute ended, from the start of the scenario."
    capacity_milli: Floats
    "Of nodes that are up."
    services_milli: Floats
    "Without the system."
    system_milli: Floats
    batch_used_milli: Floats
    batch_wanted_milli: Floats
    "What batch pods that ran would have used if nothing had held them back."
    room_milli: Floats
    "What batch could have used with every node up to its mark: the sum of max(0, mark - services - system)."
    arrived_milli_s: Floats
    "Work of the batch pods that arrived."
    lent_milli: Floats
    "What the scheduler knew to be lent, of nodes that are up."
    requested_milli: Floats
    "By batch pods that have a node."
    pending: Ints
    "Batch pods that wait for a node, at the end of the minute."
    running: Ints
    "Batch pods that have a node."
    violated: Ints
    "Nodes that used more than the mark although services alone did not."
    evicted: Ints
    wasted_milli_s: Floats
    "Work that was lost to evictions and failures."
    fragmentation: Floats
    "Share of free lent CPU on nodes that have less than a mean batch pod requests."
    gpu_milli: Floats
    "GPUs of nodes that are up."
    gpu_allocated_milli: Floats
    gpu_waiting_milli: Floats
    "Asked for by pods that wait for a node."
    slow: Floats
    "Share of service samples whose response time was over the limit; NaN without a latency model."
    p99: Floats
    "p99 of services' response time, in multiples of what they have alone and idle; NaN without a latency model."


@dataclass(frozen=True, slots=True)
class NodeTotals:
    """By node, after the warm-up."""

    names: tuple[str, ...]
    pool: tuple[str, ...]
    minutes: Ints
    "In which it was up."
    violated: Ints
    services_milli: Floats
    "Means, like the next one."
    batch_milli: Floats
    evicted: Ints


@dataclass(frozen=True, slots=True)
class QuotaTotals:
    """What batch pods of a quota got."""

    name: str
    arrived: int
    finished: int
    asked_milli_s: float
    "Work of the pods that arrived."
    done_milli_s: float
    "Of it, what was done and not lost."
    waited_s: float
    "Mean time to the first binding, of those that were bound."


@dataclass(frozen=True, slots=True)
class EvictedPod:
    at_s: float
    pod: str
    node: str
    by: EvictedBy
    lost_milli_s: float


@dataclass(frozen=True, slots=True)
class Totals:
    """The figures of the table. Percentages are 0 to 100."""

    minutes: int
    services_percent: float
    "Of capacity, like the next one: mean use."
    batch_percent: float
    requested_percent: float
    "What batch pods requested, of capacity."
    work_milli_s: float
    "Batch work that was done, less what was lost."
    wasted_milli_s: float
    wasted_percent: float
    "Of all batch work."
    got_percent: float
    "What batch used, of what it wanted."
    violated_percent: float
    "Of minutes of nodes."
    worst_node_percent: float
    evicted: int
    evicted_per_node_day: float
    arrived: int
    finished: int
    wait_p50_s: float
    wait_p99_s: float
    "Time from arrival to the first binding, of the pods that arrived; those that still wait count as long as they do."
    fragmentation_percent: float
    fairness: float
    "Jain's index of done / asked work by quota: 1 if all quotas got the same share."
    slow_percent: float
    "Of service samples: response time over the limit. NaN without a latency model."
    p99: float
    gpu_allocated_percent: float
    "Of all GPUs, in the mean over time, like the next one. NaN without GPUs."
    gpu_waiting_percent: float
    "Asked for by pods that wait for a node."
    moved: int
    "Pods that the descheduler moved."
    decisions: int
    "Of the scheduler."


@dataclass(frozen=True, slots=True)
class Outcome:
    scenario: str
    policy: Mapping[str, str]
    "By pool."
    seed: int
    ended: bool
    "False: the run was stopped before its end."
    series: Series
    by_pool: Mapping[str, Totals]
    "One entry for each pool; work, pods and waits are those of pods that were bound there."
    totals: Totals
    nodes: NodeTotals
    quotas: tuple[QuotaTotals, ...]
    evicted: tuple[EvictedPod, ...]
    repairs: tuple[Repair, ...] = ()
    digest: str = ""
    "Of scenario, traces and seed: outcomes with the same digest answer the same question."

    def as_json(self) -> dict[str, Any]:
        """As plain data. NaN and infinity become null."""
        return {
            "format": FORMAT,
            "scenario": self.scenario,
            "policy": dict(self.policy),
            "seed": self.seed,
            "ended": self.ended,
            "digest": self.digest,
            "totals": _plain(self.totals),
            "pools": {name: _plain(totals) for name, totals in self.by_pool.items()},
            "series": _plain(self.series),
            "nodes": _plain(self.nodes),
            "quotas": [_plain(quota) for quota in self.quotas],
            "evicted": [_plain(pod) for pod in self.evicted],
            "repairs": [asdict(repair) for repair in self.repairs],
        }


def _plain(part: Any) -> dict[str, Any]:
    return {_camel(field.name): _value(getattr(part, field.name)) for field in fields(part)}


def _value(given: Any) -> Any:
    if isinstance(given, np.ndarray):
        return [_value(item) for item in given.tolist()]
    if isinstance(given, float):
        return given if np.isfinite(given) else None
    return list(given) if isinstance(given, tuple) else given


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)


def jain(shares: Floats) -> float:
    """1 if all shares are equal, 1/n if one has all; 1 without any."""
    squares = float((shares**2).sum())
    return float(shares.sum()) ** 2 / (len(shares) * squares) if squares else 1.0
