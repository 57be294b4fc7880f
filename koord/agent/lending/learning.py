"""What a node remembers of its minutes, and the figures that follow from it.

`after_minute` folds one minute in, in this order: what pods count for; the histograms, the hour and the day of
services; and, if batch ran, the scale of the margin, then what is oversold (by the amount with the new margin), then
how short batch was. A minute without batch moves none of the last three: an idle week must teach nothing. Nor does a
minute in which batch was not held below the ceiling: what did not follow from the margin says nothing about it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from koord.agent.lending import eviction, protection, sale
from koord.agent.lending.counting import CountedPod, counted, counted_total
from koord.agent.lending.minute import Capacity, Minute
from koord.api.stats.histogram import Buckets, DecayingHistogram

BUCKETS: Final = Buckets(first=25, most=1_024_000)
"""Of both histograms, in milli-cores."""
HALF_LIFE_S: Final = 12 * 3600.0
HOUR_MINUTES: Final = 60
DAY_HOURS: Final = 24
DAY_MINUTES: Final = 1440
AWAY_S: Final = 1800.0
"""After a longer gap, old samples do not age by the gap, and the last hour is another one."""


def _histogram() -> DecayingHistogram:
    return DecayingHistogram(BUCKETS, HALF_LIFE_S)


@dataclass(frozen=True, slots=True)
class LendingMemory:
    """Never changed: its histograms are replaced with it."""

    rises: DecayingHistogram = field(default_factory=_histogram)
    services: DecayingHistogram = field(default_factory=_histogram)
    "Services' use by the minute."
    hour: tuple[float, ...] = ()
    "Services' use in the last 60 minutes, oldest first."
    memory_by_hour: tuple[float, ...] = ()
    """Services' highest use of memory in each of the last 24 hours and in this one, oldest first. Hours of history, not
    of a clock: time in which nothing was measured makes no maximum older."""
    counted: Mapping[str, CountedPod] = field(default_factory=dict)
    "Batch pods of the last minute, by uid."
    scale: float = 1.0
    more_milli: float = 0.0
    got_mean: float = 1.0
    "The share that batch got, in a moving mean of 15 minutes; 1 where it did not run."
    minutes: int = 0
    "Of history."
    batch_minutes: int = 0
    "Of them, those with batch."
    short_share: float = 0.0
    "Of minutes with batch, in which it was short, in a moving mean of a day."
    violated_share: float = 0.0
    at_s: float | None = None
    "When the last minute ended."


@dataclass(frozen=True, slots=True)
class LendingFigures:
    """The lines of the calculation, in milli-cores; see `sale` and `protection`."""

    mark: float
    rise: float
    scale: float
    margin: float
    services: float
    "Mean of the last hour."
    more: float
    amount: float
    counted: float
    stable: float


def after_minute(
    memory: LendingMemory, minute: Minute, capacity: Capacity, *, is_in_force: bool = True
) -> LendingMemory:
    """`is_in_force`: whether batch was held below the ceiling."""
    gap_s = 0.0 if memory.at_s is None else minute.at_s - memory.at_s
    is_same_hour = -AWAY_S <= gap_s <= AWAY_S
    after = replace(
        memory,
        rises=_with(memory.rises, max(0.0, minute.rise_milli), minute.at_s),
        services=_with(memory.services, minute.services_milli, minute.at_s),
        hour=((*memory.hour, minute.services_milli) if is_same_hour else (minute.services_milli,))[-HOUR_MINUTES:],
        memory_by_hour=_memory_by_hour(memory, minute.services_memory_bytes),
        counted={uid: counted(memory.counted.get(uid), pod, minute.got) for uid, pod in minute.pods.items()},
        got_mean=1.0,
        minutes=memory.minutes + 1,
        at_s=minute.at_s,
    )
    if not (is_in_force and minute.has_batch(capacity)):
        return after
    return _with_batch(after, memory.got_mean, minute, capacity)


def _with_batch(memory: LendingMemory, got_mean: float, minute: Minute, capacity: Capacity) -> LendingMemory:
    violated = protection.is_violated(minute, capacity)
    scaled = replace(memory, scale=protection.scale_after(memory.scale, violated))
    now = figures(scaled, capacity)
    batch_minutes = memory.batch_minutes + 1
    return replace(
        scaled,
        more_milli=sale.more_after(memory.more_milli, minute.got, now.counted, now.amount, capacity),
        got_mean=eviction.got_after(got_mean, minute.got),
        batch_minutes=batch_minutes,
        short_share=_day_mean(memory.short_share, minute.got < sale.SHORT, batch_minutes),
        violated_share=_day_mean(memory.violated_share, violated, batch_minutes),
    )


def figures(memory: LendingMemory, capacity: Capacity) -> LendingFigures:
    """A node without history has no services, and nothing to sell by: ask `minutes` first."""
    rise = _rise(memory, capacity)
    margin_milli = memory.scale * rise
    services = sum(memory.hour) / len(memory.hour) if memory.hour else 0.0
    amount = sale.amount_milli(margin_milli, services, memory.more_milli, capacity)
    stable = sale.stable_milli(margin_milli, memory.services.percentile(sale.STABLE_PART), amount, capacity)
    return LendingFigures(
        mark=capacity.mark_milli,
        rise=rise,
        scale=memory.scale,
        margin=margin_milli,
        services=services,
        more=memory.more_milli,
        amount=amount,
        counted=counted_total(memory.counted),
        stable=stable,
    )


def ceiling(memory: LendingMemory, services_30s_milli: float, capacity: Capacity) -> float:
    """What batch may use now, by services' mean of the last 30 s."""
    return protection.ceiling_milli(margin(memory, capacity), services_30s_milli, capacity)


def margin(memory: LendingMemory, capacity: Capacity) -> float:
    """The distance that batch keeps from the mark."""
    return memory.scale * _rise(memory, capacity)


def _rise(memory: LendingMemory, capacity: Capacity) -> float:
    return protection.counted_rise(memory.rises, memory.minutes, capacity)


def services_most_bytes(memory: LendingMemory) -> float:
    """The highest use of memory in the last 24 h."""
    return max(memory.memory_by_hour, default=0.0)


def _with(histogram: DecayingHistogram, value: float, at_s: float) -> DecayingHistogram:
    after = histogram.copy()
    if after.newest_s is not None and at_s - after.newest_s > AWAY_S:
        after.stand_still(at_s - after.newest_s)
    after.add(value, at_s)
    return after


def _memory_by_hour(memory: LendingMemory, used_bytes: float) -> tuple[float, ...]:
    if memory.minutes % HOUR_MINUTES == 0 or not memory.memory_by_hour:
        return (*memory.memory_by_hour, used_bytes)[-DAY_HOURS - 1 :]
    *earlier, this = memory.memory_by_hour
    return (*earlier, max(this, used_bytes))


def _day_mean(share: float, happened: bool, minutes: int) -> float:
    """Over the last day, or over all minutes while there are fewer."""
    return share + (happened - share) / min(minutes, DAY_MINUTES)
