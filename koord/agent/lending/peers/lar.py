"""LAR, Meituan's: pools whose size follows a band of load, and static amounts for the scheduler.

    pool 0   pods of class LSE and LSR     30-50%
    pool 1   all other services            45-60%
    pool 2   batch                         50-80%: the CPUs of the box

Cores flow by `flow`. The recommender gives each pool the peak K that is expected of it:

    K      max(P99 of this hour on the last 7 days, P95 of the last day) * 1.15; without a day of history its requests
    RCF    clamp(K / (M * R), 0.1, 1)
    free   (allocatable - sum of RCF * R over all pools) / RCF of batch

The scheduler sees `requests of batch + free`, which does not move with the load of the minute. Of each hour its mean
and its highest minute are kept, so P99 is the highest minute of the hour, and P95 the second highest mean of the day's
hours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from koord.agent.lending.peers.flow import Band, LarPool, flow
from koord.agent.lending.peers.hours import DAY_HOURS, NO_HOURS, Hours, same_hours, with_minute
from koord.agent.lending.peers.policy import BatchPod, Line, Lines, Load, PeerNode, result

BANDS: Final = (Band(0.30, 0.50), Band(0.45, 0.60), Band(0.50, 0.80))
ROUNDS: Final = 12
"""Of 5 s, in a minute."""
WEEK_HOURS: Final = 7 * DAY_HOURS
MORE: Final = 1.15
LEAST_FACTOR: Final = 0.1


@dataclass(frozen=True, slots=True)
class LarMemory:
    sizes: tuple[float, ...] = ()
    used: tuple[float, ...] = (0.0, 0.0, 0.0)
    requests: tuple[float, ...] = (0.0, 0.0, 0.0)
    rounds_low: tuple[int, ...] = (0, 0, 0)
    rounds_high: tuple[int, ...] = (0, 0, 0)
    sensitive: Hours = NO_HOURS
    others: Hours = NO_HOURS
    batch: Hours = NO_HOURS
    services_bytes: float = 0.0
    services_request_bytes: float = 0.0

    @property
    def history(self) -> tuple[Hours, Hours, Hours]:
        return self.sensitive, self.others, self.batch


@dataclass(frozen=True, slots=True)
class Lar:
    name: str = "lar"
    summary: str = "Meituan's: pools whose size follows a band of load, sold by a static factor"
    memory_type: type[LarMemory] = LarMemory

    def after_minute(self, memory: LarMemory, load: Load, node: PeerNode) -> LarMemory:
        sensitive, batch_requests = load.sensitive_request_milli, load.batch_request_milli
        used = (load.sensitive_milli, max(0.0, load.services_milli - load.sensitive_milli), load.batch_milli)
        # What runs outside of pods is in the pool of services and requests nothing.
        requests = (sensitive, max(load.services_request_milli - sensitive, used[1]), batch_requests)
        history = [
            with_minute(hours, load.at_s, now, WEEK_HOURS) for hours, now in zip(memory.history, used, strict=True)
        ]
        sizes = memory.sizes or (0.0, 0.0, _capacity(node))
        # A pod that starts brings its share from the lowest pool at once, and one that ends takes it back.
        pools = tuple(
            LarPool(band, size, use, request, peak, low, high)
            for band, size, use, request, peak, low, high in zip(
                BANDS,
                sizes,
                used,
                requests,
                (*(_peak(hours) or 0.0 for hours in history[:2]), 0.0),
                memory.rounds_low,
                memory.rounds_high,
                strict=True,
            )
        )
        after = flow(pools, ROUNDS)
        return LarMemory(
            sizes=tuple(pool.size for pool in after),
            used=used,
            requests=requests,
            rounds_low=tuple(pool.rounds_low for pool in after),
            rounds_high=tuple(pool.rounds_high for pool in after),
            sensitive=history[0],
            others=history[1],
            batch=history[2],
            services_bytes=load.services_memory_bytes,
            services_request_bytes=load.services_request_bytes,
        )

    def cpu(self, memory: LarMemory, node: PeerNode) -> Lines:
        factors = [self._factor(memory, place) for place in range(len(BANDS))]
        lines = [Line("start", "allocatable", _capacity(node), "" if node.cpu_percent is None else "as configured")]
        for place, (factor, requests) in enumerate(zip(factors, memory.requests, strict=True)):
            why = f"RCF {factor:.3f} of {requests:.0f} requested"
            lines.append(Line("minus", f"pool{place}", factor * requests, why))
        lines.append(Line("atLeast", "nothing", 0.0))
        why = f"for new requests: divided by the RCF of batch, {factors[2]:.3f}"
        lines.append(Line("becomes", "free", result(lines) / factors[2], why))
        return (*lines, Line("plus", "requested", memory.requests[2], "by batch pods that run"))

    def memory_bytes(self, memory: LarMemory, node: PeerNode) -> Lines:
        percent = 100.0 if node.memory_percent is None else node.memory_percent
        taken = max(memory.services_request_bytes, memory.services_bytes)
        return (
            Line("start", "allocatable", node.memory_bytes * percent / 100, f"{percent:g}% of {node.memory_bytes:.0f}"),
            Line("minus", "services", taken, "requested or used, whichever is more"),
            Line("atLeast", "nothing", 0.0),
        )

    def box(self, memory: LarMemory, services_milli: float, node: PeerNode) -> Lines:
        """The size of the lowest pool. What services need just now beyond the size of their pools comes from it."""
        capacity = _capacity(node)
        sizes = memory.sizes or (0.0, 0.0, capacity)
        above = sizes[0] + sizes[1]
        lines = [
            Line("start", "allocatable", capacity, "" if node.cpu_percent is None else "as configured"),
            Line("minus", "pool0", sizes[0], "LSE and LSR"),
            Line("minus", "pool1", sizes[1], "other services"),
        ]
        if services_milli > above * BANDS[1].high:
            needed = services_milli / BANDS[1].middle - above
            lines.append(Line("minus", "preempted", needed, f"services use {services_milli:.0f} just now"))
        return (*lines, Line("atLeast", "nothing", 0.0))

    def why_evict(self, memory: LarMemory, node: PeerNode) -> str:
        """A pool evicts for memory alone: CPU is squeezed."""
        return ""

    def to_evict(self, memory: LarMemory, pods: Sequence[BatchPod], node: PeerNode) -> tuple[Sequence[str], LarMemory]:
        return (), memory

    def _factor(self, memory: LarMemory, place: int) -> float:
        requests = memory.requests[place]
        if not requests:
            return 1.0
        return factor(_peak(memory.history[place]), requests, BANDS[place])


def factor(peak: float | None, requests: float, band: Band) -> float:
    """RCF; 1 without history."""
    return 1.0 if peak is None else min(max(peak / (band.middle * requests), LEAST_FACTOR), 1.0)


def _capacity(node: PeerNode) -> float:
    return node.cpu_milli * (100.0 if node.cpu_percent is None else node.cpu_percent) / 100


def _peak(hours: Hours) -> float | None:
    """K for the coming hour; None before a day of history."""
    if not hours.has_a_day:
        return None
    second = sorted(hours.means[-DAY_HOURS:])[-2]
    return max(second, *(most for by_day in same_hours(hours.most) for most in by_day)) * MORE


POLICY: Final = Lar()
