"""Minutes and memories for tests, in cores."""

from __future__ import annotations

from collections.abc import Mapping

from koord.agent.lending.learning import BUCKETS, HALF_LIFE_S, LendingMemory, after_minute
from koord.agent.lending.minute import MINUTE_S, Capacity, Minute, PodMinute
from koord.api.stats.histogram import DecayingHistogram

NODE = Capacity(64_000)
GIB = 1 << 30


def minute(
    services: float = 10.0,
    used: float = 0.0,
    wanted: float | None = None,
    *,
    at_s: float = 0.0,
    rise: float = 0.0,
    memory_gib: float = 10.0,
    pods: Mapping[str, PodMinute] | None = None,
) -> Minute:
    return Minute(
        at_s=at_s,
        services_milli=services * 1000,
        rise_milli=rise * 1000,
        services_memory_bytes=memory_gib * GIB,
        batch_used_milli=used * 1000,
        batch_wanted_milli=(used if wanted is None else wanted) * 1000,
        pods=pods or {},
    )


def pod(request: float, used: float, age_s: float = 3600.0) -> PodMinute:
    return PodMinute(request * 1000, used * 1000, age_s)


def after(count: int, alike: Minute, memory: LendingMemory | None = None, capacity: Capacity = NODE) -> LendingMemory:
    """As many minutes one after the other."""
    memory = memory or LendingMemory()
    start_s = memory.at_s or 0.0
    for number in range(1, count + 1):
        at_s = start_s + number * MINUTE_S
        memory = after_minute(
            memory,
            Minute(
                at_s,
                alike.services_milli,
                alike.rise_milli,
                alike.services_memory_bytes,
                alike.batch_used_milli,
                alike.batch_wanted_milli,
                alike.pods,
            ),
            capacity,
        )
    return memory


def histogram_of(milli: float) -> DecayingHistogram:
    """One whose percentiles end with the bucket of that value."""
    histogram = DecayingHistogram(BUCKETS, HALF_LIFE_S)
    histogram.add(milli, 0.0)
    return histogram
