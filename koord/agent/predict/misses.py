"""How good forecasts were: in how many minutes of the last day prod rose above its forecast peak, and by how much.

Each minute what prod and the system used is held against the forecast that was made before it. Kept by the hour, so
that a day costs 24 rows and fades by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from koord.agent.predict.model import Used
from koord.agent.predict.reclaim import Amounts

HOUR_S: Final = 3600
DAY_HOURS: Final = 24


@dataclass(frozen=True, slots=True)
class HourMisses:
    minutes: int = 0
    "That were judged."
    cpu_minutes: int = 0
    "In which CPU was above its forecast."
    cpu_milli: int = 0
    "The largest difference."
    memory_minutes: int = 0
    memory_bytes: int = 0


Misses = Mapping[int, HourMisses]
"""By hour since the epoch."""


def judged(misses: Misses, forecast: Amounts, used: Used, at_s: float) -> dict[int, HourMisses]:
    """With one minute more; without what is older than a day, or from a future that a wrong clock made up."""
    hour = int(at_s // HOUR_S)
    before = misses.get(hour, HourMisses())
    cpu, memory = int(used.cpu_milli) - forecast.cpu_milli, int(used.memory_bytes) - forecast.memory_bytes
    after = replace(
        before,
        minutes=before.minutes + 1,
        cpu_minutes=before.cpu_minutes + (cpu > 0),
        cpu_milli=max(before.cpu_milli, cpu),
        memory_minutes=before.memory_minutes + (memory > 0),
        memory_bytes=max(before.memory_bytes, memory),
    )
    return {**_of_the_last_day(misses, hour), hour: after}


def _of_the_last_day(misses: Misses, hour: int) -> Misses:
    return {past_hour: hour_misses for past_hour, hour_misses in misses.items() if 0 <= hour - past_hour < DAY_HOURS}


def last_day(misses: Misses, at_s: float) -> HourMisses:
    hours = _of_the_last_day(misses, int(at_s // HOUR_S)).values()
    return HourMisses(
        sum(hour.minutes for hour in hours),
        sum(hour.cpu_minutes for hour in hours),
        max((hour.cpu_milli for hour in hours), default=0),
        sum(hour.memory_minutes for hour in hours),
        max((hour.memory_bytes for hour in hours), default=0),
    )
