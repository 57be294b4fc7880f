"""Policy `adaptive`, koord's own: `koord.agent.lending` for all nodes at once, with its formulas and constants.

    batch-cpu     requests of batch pods on the node + max(0, amount - what they count for)
    batch-memory  95% of capacity - highest use of services in 24 h - 5% of capacity

A node that is down (services NaN) learns nothing. The stable part of the amount is left out: it is a label.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from koord.agent.lending import counting, eviction, protection, sale
from koord.agent.lending.eviction import Starving, to_evict
from koord.agent.lending.learning import (
    AWAY_S,
    BUCKETS,
    DAY_HOURS,
    DAY_MINUTES,
    HALF_LIFE_S,
    HOUR_MINUTES,
)
from koord.agent.lending.minute import RAN
from koord.sim.minutes import BatchPodMinutes, Flags, Floats, Ints, NodeColumns, NodeMinutes
from koord.sim.policies.histograms import Histograms, add, histograms, percentiles
from koord.sim.policies.pods import per_node, rows_before
from koord.sim.policies.policy import Band, Future, Lent, Settings


@dataclass(frozen=True, slots=True)
class AdaptiveMemory:
    """`LendingMemory` of all nodes. Rows are nodes, except of `pod_*`."""

    capacity: Floats
    mark: Floats
    capacity_bytes: Floats
    rises: Histograms
    rise: Floats
    "The rise that counts, which follows from `rises` and `minutes`."
    hour: Floats
    "Nodes x 60 minutes, the oldest overwritten by the next."
    hour_minutes: Ints
    "Of this hour, without a gap."
    memory_by_hour: Floats
    "Nodes x 25 hours of history, the oldest overwritten by the next."
    pod_number: Ints
    pod_counted: Floats
    pod_is_young: Flags
    counted: Floats
    "Sum over the pods of the last minute."
    scale: Floats
    more: Floats
    got_mean: Floats
    minutes: Ints
    batch_minutes: Ints
    short_share: Floats
    violated_share: Floats
    at_s: Floats
    "NaN before the first minute."
    evicted_s: Floats
    "When batch was last evicted."


@dataclass(frozen=True, slots=True)
class Adaptive:
    name: str = "adaptive"
    summary: str = "koord's: batch counts by what it uses, with a learned margin below the mark"
    band: Band = "batch"
    knows_now: bool = False

    def begin(self, nodes: NodeColumns, settings: Settings) -> AdaptiveMemory:
        count = len(nodes)
        capacity = nodes.cpu_milli.astype(np.float64)
        return AdaptiveMemory(
            capacity=capacity,
            mark=capacity * settings.mark_percent / 100,
            capacity_bytes=nodes.memory_bytes.astype(np.float64),
            rises=histograms(count, BUCKETS),
            rise=protection.COLD_RISE * capacity,
            hour=np.zeros((count, HOUR_MINUTES)),
            hour_minutes=np.zeros(count, np.int64),
            memory_by_hour=np.zeros((count, DAY_HOURS + 1)),
            pod_number=np.zeros(0, np.int64),
            pod_counted=np.zeros(0),
            pod_is_young=np.zeros(0, np.bool_),
            counted=np.zeros(count),
            scale=np.ones(count),
            more=np.zeros(count),
            got_mean=np.ones(count),
            minutes=np.zeros(count, np.int64),
            batch_minutes=np.zeros(count, np.int64),
            short_share=np.zeros(count),
            violated_share=np.zeros(count),
            at_s=np.full(count, np.nan),
            evicted_s=np.full(count, -np.inf),
        )

    def after_minute(self, memory: AdaptiveMemory, minutes: NodeMinutes) -> AdaptiveMemory:
        is_measured = ~np.isnan(minutes.services_milli)
        got = _got(minutes)
        pod_counted, pod_is_young = _counted(memory, minutes.pods, got)
        at_s = minutes.at_s
        rise = np.maximum(minutes.rise_milli, 0)
        add(memory.rises, BUCKETS, HALF_LIFE_S, rise, at_s, rows=is_measured & np.isfinite(rise), away_s=AWAY_S)
        _remember_hour(memory, minutes, is_measured)
        _remember_day(memory, minutes, is_measured)
        memory.minutes[is_measured] += 1
        memory.at_s[is_measured] = at_s
        after = replace(
            memory,
            rise=_counted_rise(memory),
            pod_number=minutes.pods.number,
            pod_counted=pod_counted,
            pod_is_young=pod_is_young,
            counted=per_node(minutes.pods.node, pod_counted, len(memory.capacity)),
        )
        _learn_from_batch(after, minutes, got, is_measured)
        return after

    def ceiling(self, memory: AdaptiveMemory, services_milli: Floats) -> Floats:
        return np.maximum(0.0, memory.mark - _margin(memory) - services_milli)

    def lent(self, memory: AdaptiveMemory, minutes: NodeMinutes, future: Future) -> Lent:
        pods = minutes.pods
        stays, count = ~pods.ended, len(memory.capacity)
        requested = per_node(pods.node, pods.request_milli * stays, count)
        counted = per_node(pods.node, memory.pod_counted * stays, count)
        room = np.maximum(0.0, _amount(memory) - counted)
        most = memory.memory_by_hour.max(axis=1)
        batch_memory = sale.MEMORY_MARK * memory.capacity_bytes - most - sale.MEMORY_MARGIN * memory.capacity_bytes
        is_known = minutes.reported & (memory.minutes > 0)
        return Lent(
            cpu_milli=np.where(is_known, requested + room, np.nan),
            memory_bytes=np.where(is_known, np.maximum(0.0, batch_memory), np.nan),
            room_milli=np.where(is_known, room, np.nan),
        )

    def evictions(
        self, memory: AdaptiveMemory, minutes: NodeMinutes, ceiling_milli: Floats
    ) -> tuple[Ints, AdaptiveMemory]:
        starving = (memory.got_mean < eviction.STARVES) & (minutes.at_s - memory.evicted_s >= eviction.PEACE_S)
        chosen: list[int] = []
        pods = minutes.pods
        rows = np.flatnonzero(starving[pods.node] & ~pods.ended)
        rows = rows[np.argsort(pods.node[rows], kind="stable")]
        nodes, begins = np.unique(pods.node[rows], return_index=True)
        for node, node_rows in zip(nodes.tolist(), np.split(rows, begins[1:]), strict=False):
            leaving = _to_evict(memory, pods, node_rows, float(ceiling_milli[node]))
            if leaving:
                memory.evicted_s[node] = minutes.at_s
                chosen.extend(leaving)
        return np.array(chosen, np.int64), memory


def _to_evict(memory: AdaptiveMemory, pods: BatchPodMinutes, rows: Ints, ceiling_milli: float) -> list[int]:
    """Rows of pods of one node, in the order in which they go."""
    by_uid = {f"{pods.number[row]:020}": row for row in rows.tolist()}
    candidates = [
        Starving(uid, float(pods.request_milli[row]), float(memory.pod_counted[row]), float(pods.unsaved_milli_s[row]))
        for uid, row in by_uid.items()
    ]
    return [by_uid[pod.uid] for pod in to_evict(candidates, ceiling_milli)]


def _got(minutes: NodeMinutes) -> Floats:
    """The share of what it wanted that batch got, by node."""
    used, wanted = minutes.batch_used_milli, minutes.batch_wanted_milli
    return np.divide(used, wanted, out=np.ones_like(used), where=wanted > used)


def _counted(memory: AdaptiveMemory, pods: BatchPodMinutes, got: Floats) -> tuple[Floats, Flags]:
    """What each pod counts for, and whether it is young: see `counting`."""
    row = rows_before(pods.number, memory.pod_number)
    before = np.append(memory.pod_counted, np.nan)[row]
    was_young = np.append(memory.pod_is_young, True)[row]
    used, request = pods.used_milli, pods.request_milli
    share = got[pods.node]
    is_held_back = share <= counting.HELD_BACK
    with np.errstate(over="ignore"):
        wanted = np.divide(used, share, out=request.astype(np.float64), where=share > 0)
    first = np.where(is_held_back, np.maximum(np.minimum(wanted, request), used), used)
    kept = np.maximum(before, used)
    faded = counting.KEPT * before + (1 - counting.KEPT) * used
    later = np.where((used >= before) | is_held_back, kept, faded)
    is_young = pods.age_s < counting.YOUNG_S
    return np.where(is_young, request, np.where(was_young, first, later)), is_young


def _remember_hour(memory: AdaptiveMemory, minutes: NodeMinutes, is_measured: Flags) -> None:
    is_other_hour = is_measured & (np.abs(minutes.at_s - memory.at_s) > AWAY_S)
    memory.hour[is_other_hour] = 0.0
    memory.hour_minutes[is_other_hour] = 0
    rows = np.flatnonzero(is_measured)
    memory.hour[rows, memory.hour_minutes[rows] % HOUR_MINUTES] = minutes.services_milli[rows]
    memory.hour_minutes[rows] += 1


def _remember_day(memory: AdaptiveMemory, minutes: NodeMinutes, is_measured: Flags) -> None:
    rows = np.flatnonzero(is_measured)
    hour = (memory.minutes[rows] // HOUR_MINUTES) % (DAY_HOURS + 1)
    used = minutes.services_memory_bytes[rows]
    is_new = memory.minutes[rows] % HOUR_MINUTES == 0
    memory.memory_by_hour[rows, hour] = np.where(is_new, used, np.maximum(memory.memory_by_hour[rows, hour], used))


def _counted_rise(memory: AdaptiveMemory) -> Floats:
    least = np.where(memory.minutes < protection.COLD_MINUTES, protection.COLD_RISE, protection.LEAST_RISE)
    p99 = percentiles(memory.rises, BUCKETS, HALF_LIFE_S, protection.RISE_PART)
    return np.maximum(p99, least * memory.capacity)


def _margin(memory: AdaptiveMemory) -> Floats:
    return memory.scale * memory.rise


def _services(memory: AdaptiveMemory) -> Floats:
    """Mean of the last hour."""
    mean: Floats = memory.hour.sum(axis=1) / np.clip(memory.hour_minutes, 1, HOUR_MINUTES)
    return mean


def _amount(memory: AdaptiveMemory) -> Floats:
    return np.maximum(0.0, memory.mark - _margin(memory) - _services(memory) + memory.more)


def _learn_from_batch(memory: AdaptiveMemory, minutes: NodeMinutes, got: Floats, is_measured: Flags) -> None:
    """Scale, what is oversold, and how short batch was. A minute without batch moves none of them."""
    used, wanted = minutes.batch_used_milli, minutes.batch_wanted_milli
    ran = is_measured & (np.maximum(used, wanted) >= RAN * memory.capacity)
    services = minutes.services_milli
    violated = ran & (services + used > memory.mark) & (services <= memory.mark)
    scale = memory.scale + protection.SCALE_STEP * (violated - protection.VIOLATIONS)
    memory.scale[ran] = np.clip(scale, protection.LEAST_SCALE, protection.MOST_SCALE)[ran]

    step = sale.STEP * memory.capacity
    is_short = got < sale.SHORT
    sells_nearly_all = memory.counted > sale.NEARLY_ALL * _amount(memory)
    change = np.where(
        is_short, -(1 - sale.SHORT_MINUTES) * step, np.where(sells_nearly_all, sale.SHORT_MINUTES * step, 0.0)
    )
    memory.more[ran] = np.clip(memory.more + change, 0.0, sale.MOST_MORE * memory.capacity)[ran]

    got_mean = memory.got_mean + (got - memory.got_mean) / eviction.PATIENCE_MINUTES
    memory.got_mean[is_measured] = np.where(ran, got_mean, 1.0)[is_measured]
    memory.batch_minutes[ran] += 1
    over = np.clip(memory.batch_minutes, 1, DAY_MINUTES)
    memory.short_share[ran] += ((is_short - memory.short_share) / over)[ran]
    memory.violated_share[ran] += ((violated - memory.violated_share) / over)[ran]


POLICY: Final = Adaptive()
