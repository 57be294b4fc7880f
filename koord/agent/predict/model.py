"""A model: what one pod, one band or the node used, as histograms in which old samples fade.

A peak is p95 of CPU and p98 of memory. CPU is in milli-cores, memory in bytes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, NamedTuple

from koord.api.protocol.priority import PriorityClass
from koord.api.stats.histogram import Buckets, DecayingHistogram

CPU_BUCKETS: Final = Buckets(first=25, most=1_024_000)
MEMORY_BUCKETS: Final = Buckets(first=5 << 20, most=2 << 40)
CPU_PEAK: Final = 0.95
MEMORY_PEAK: Final = 0.98

NODE: Final = "__node__"
SYSTEM: Final = "__node-sys__"


def of_band(band: PriorityClass) -> str:
    """The model of all pods of a band; pods of no class are a band, too."""
    return f"__node-{band.removeprefix('koord-')}__"


SHARED: Final = frozenset((NODE, SYSTEM, *map(of_band, PriorityClass)))
"""The models that are not a pod's."""


class Used(NamedTuple):
    """Measured usage, or predicted usage at the peak."""

    cpu_milli: float
    memory_bytes: float

    def plus(self, other: Used) -> Used:
        return Used(self.cpu_milli + other.cpu_milli, self.memory_bytes + other.memory_bytes)


@dataclass(frozen=True, slots=True)
class PredictionSettings:
    """The defaults are the protocol's."""

    cold_start_s: float = 24 * 3600
    "A pod that is no older is not predicted."
    margin_percent: int = 10
    "On top of predicted peaks."
    cpu_half_life_s: float = 12 * 3600
    memory_half_life_s: float = 24 * 3600
    train_every_s: float = 60
    expire_s: float = 30 * 60
    "A model that got no sample for so long is dropped."
    save_every_s: float = 10 * 60
    save_at_once: int = 12
    "The most models that are saved after one training."


@dataclass(slots=True)
class Model:
    cpu: DecayingHistogram
    memory: DecayingHistogram
    updated_s: float
    "When it last got a sample, in the time of samples: a clock that is set makes no model older."
    saved_s: float
    "When it was made, read or last written; likewise. One of a pod that lives for minutes is never written."

    @classmethod
    def new(cls, settings: PredictionSettings, now_s: float) -> Model:
        return cls(
            DecayingHistogram(CPU_BUCKETS, settings.cpu_half_life_s),
            DecayingHistogram(MEMORY_BUCKETS, settings.memory_half_life_s),
            updated_s=now_s,
            saved_s=now_s,
        )

    def add(self, used: Used, at_s: float, away_s: float = math.inf) -> None:
        """After a gap above `away_s` (no measurement, or a clock set ahead) old samples do not age by the gap."""
        for histogram, amount in ((self.cpu, used.cpu_milli), (self.memory, used.memory_bytes)):
            if histogram.newest_s is not None and at_s - histogram.newest_s > away_s:
                histogram.stand_still(at_s - histogram.newest_s)
            histogram.add(amount, at_s)

    @property
    def is_trained(self) -> bool:
        return self.cpu.newest_s is not None and self.memory.newest_s is not None

    @property
    def peak(self) -> Used:
        """In whole milli-cores and bytes."""
        return Used(int(self.cpu.percentile(CPU_PEAK)), int(self.memory.percentile(MEMORY_PEAK)))
