"""Models as JSON, one file for each: what survives the agent's restart.

A file says which version of this form it has. A damaged file, or one of another version, is ignored: its model
starts again.
"""

from __future__ import annotations

from typing import Final

import msgspec

from koord.agent.predict.misses import HourMisses
from koord.agent.predict.model import CPU_BUCKETS, MEMORY_BUCKETS, Model, PredictionSettings
from koord.api.machinery.codec import UNREADABLE
from koord.api.stats.histogram import Checkpoint, DecayingHistogram, HistogramError

VERSION: Final = 1
MISSES: Final = "__misses__"
"""The name under which the errors of forecasts are kept, beside the models."""


class CheckpointError(ValueError):
    """A file that no agent of this version wrote."""


class _KeptModel(msgspec.Struct, frozen=True, rename="camel"):
    version: int
    uid: str
    cpu: Checkpoint | None = None
    memory: Checkpoint | None = None


class _KeptMisses(msgspec.Struct, frozen=True, rename="camel"):
    version: int
    hours: dict[int, HourMisses]


def of_model(uid: str, model: Model) -> bytes:
    return msgspec.json.encode(_KeptModel(VERSION, uid, model.cpu.checkpoint(), model.memory.checkpoint()))


def model_in(data: bytes, uid: str, settings: PredictionSettings, now_s: float) -> Model:
    """It counts as updated when it is read: an agent that was away for an hour has not lost its pods."""
    try:
        kept = msgspec.json.decode(data, type=_KeptModel)
        if kept.version != VERSION or kept.uid != uid:
            raise CheckpointError(f"must be version {VERSION} of {uid}, not version {kept.version} of {kept.uid}")
        return Model(
            DecayingHistogram.restored(kept.cpu, CPU_BUCKETS, settings.cpu_half_life_s),
            DecayingHistogram.restored(kept.memory, MEMORY_BUCKETS, settings.memory_half_life_s),
            updated_s=now_s,
            saved_s=now_s,
        )
    except (*UNREADABLE, HistogramError) as error:
        raise CheckpointError(str(error)) from error


def of_misses(misses: dict[int, HourMisses]) -> bytes:
    return msgspec.json.encode(_KeptMisses(VERSION, misses))


def misses_in(data: bytes) -> dict[int, HourMisses]:
    try:
        kept = msgspec.json.decode(data, type=_KeptMisses)
    except UNREADABLE as error:
        raise CheckpointError(str(error)) from error
    if kept.version != VERSION:
        raise CheckpointError(f"must be version {VERSION}, not {kept.version}")
    if not all(_is_possible(hour) for hour in kept.hours.values()):
        raise CheckpointError("an hour's misses must be positive, and in no more minutes than were judged")
    return kept.hours


def _is_possible(hour: HourMisses) -> bool:
    missed = (hour.cpu_minutes, hour.memory_minutes)
    return min(*missed, hour.cpu_milli, hour.memory_bytes) >= 0 and max(missed) <= hour.minutes
