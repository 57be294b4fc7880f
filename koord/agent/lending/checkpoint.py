"""What a node has learned about lending, as JSON: what survives the agent's restart.

One file, with the version of its form. A file that is damaged, of another version or impossible is not used: learning
starts again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import msgspec

from koord.agent.lending.counting import CountedPod
from koord.agent.lending.learning import BUCKETS, DAY_HOURS, HALF_LIFE_S, HOUR_MINUTES, LendingMemory
from koord.agent.lending.protection import LEAST_SCALE, MOST_SCALE
from koord.api.machinery.codec import UNREADABLE
from koord.api.stats.histogram import LAST_S, Checkpoint, DecayingHistogram, HistogramError

VERSION: Final = 1
MOST: Final = 1e18
"""No node has more of anything."""


class CheckpointError(ValueError):
    """A file that no agent of this version wrote."""


class _Kept(msgspec.Struct, frozen=True, rename="camel"):
    version: int
    at_s: float
    scale: float
    more_milli: float
    got_mean: float
    minutes: int
    batch_minutes: int
    short_share: float
    violated_share: float
    hour: tuple[float, ...]
    memory_by_hour: tuple[float, ...]
    counted: Mapping[str, tuple[float, bool]]
    rises: Checkpoint | None = None
    services: Checkpoint | None = None


def of_memory(memory: LendingMemory) -> bytes:
    return msgspec.json.encode(
        _Kept(
            VERSION,
            memory.at_s or 0.0,
            memory.scale,
            memory.more_milli,
            memory.got_mean,
            memory.minutes,
            memory.batch_minutes,
            memory.short_share,
            memory.violated_share,
            memory.hour,
            memory.memory_by_hour,
            {uid: (pod.milli, pod.is_young) for uid, pod in memory.counted.items()},
            memory.rises.checkpoint(),
            memory.services.checkpoint(),
        )
    )


def memory_in(data: bytes) -> LendingMemory:
    """Raises CheckpointError."""
    try:
        kept = msgspec.json.decode(data, type=_Kept)
        if kept.version != VERSION:
            raise CheckpointError(f"must be version {VERSION}, not {kept.version}")
        _require_possible(kept)
        return LendingMemory(
            rises=DecayingHistogram.restored(kept.rises, BUCKETS, HALF_LIFE_S),
            services=DecayingHistogram.restored(kept.services, BUCKETS, HALF_LIFE_S),
            hour=kept.hour,
            memory_by_hour=kept.memory_by_hour,
            counted={uid: CountedPod(milli, is_young) for uid, (milli, is_young) in kept.counted.items()},
            scale=kept.scale,
            more_milli=kept.more_milli,
            got_mean=kept.got_mean,
            minutes=kept.minutes,
            batch_minutes=kept.batch_minutes,
            short_share=kept.short_share,
            violated_share=kept.violated_share,
            at_s=kept.at_s,
        )
    except (*UNREADABLE, HistogramError) as error:
        raise CheckpointError(str(error)) from error


def _require_possible(kept: _Kept) -> None:
    shares = (kept.got_mean, kept.short_share, kept.violated_share)
    amounts = (kept.more_milli, *kept.hour, *kept.memory_by_hour, *(milli for milli, _ in kept.counted.values()))
    faults = {
        f"scale must be {LEAST_SCALE} to {MOST_SCALE}": not LEAST_SCALE <= kept.scale <= MOST_SCALE,
        "shares must be 0 to 1": not all(0 <= share <= 1 for share in shares),
        "amounts must not be negative": not all(math.isfinite(amount) and 0 <= amount < MOST for amount in amounts),
        "minutes must not be negative, nor fewer than those with batch": not 0 <= kept.batch_minutes <= kept.minutes,
        "a history of minutes must say when it ended": not 0 <= kept.at_s < LAST_S,
        "hour and memoryByHour must not be longer than an hour and a day": len(kept.hour) > HOUR_MINUTES
        or len(kept.memory_by_hour) > DAY_HOURS + 1,
    }
    wrong = [message for message, is_so in faults.items() if is_so]
    if wrong:
        raise CheckpointError("; ".join(wrong))
