"""All series of a node by name, and the questions that decisions ask: the last value, a mean, a percentile.

No answer is None, never zero: a decision without data must notice. Percentiles are of the kind that Koordinator's
users know: of n samples in order, the one at int(n * p) - 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from struct import pack, unpack
from typing import Final, NamedTuple

from koord.agent.series.ring import Ring

NODE_RING: Final = 1800
"""30 minutes of seconds."""
POD_RING: Final = 300
SLOW_RING: Final = 32
"""Of what is measured every few seconds."""


class Series(NamedTuple):
    """`Series("pod_cpu", uid)`. CPU is in milli-cores, memory in bytes, shares are ratios."""

    kind: str
    owner: str = ""


@dataclass(frozen=True, slots=True)
class Window:
    """The samples of a time span, oldest first."""

    span_s: float
    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        return sum(self.values) / len(self.values)

    def percentile(self, part: float) -> float:
        ordered = sorted(self.values)
        return ordered[max(int(_single(_single(len(ordered)) * _single(part))) - 1, 0)]


class Samples:
    def __init__(self) -> None:
        self._rings: dict[Series, Ring] = {}

    def add(self, series: Series, at_s: float, value: float, size: int = 0) -> None:
        """`size`: how many are kept; without it, by the second."""
        ring = self._rings.get(series)
        if ring is None:
            ring = self._rings[series] = Ring(size or (POD_RING if series.owner else NODE_RING))
        ring.add(at_s, value)

    def last(self, series: Series, now_s: float, within_s: float) -> float | None:
        """The last sample, unless it is older than that."""
        ring = self._rings.get(series)
        if ring is None or not len(ring) or now_s - ring.last_s > within_s:
            return None
        return ring.last

    def window(self, series: Series, now_s: float, seconds: float) -> Window | None:
        """The samples of the last seconds; None without any."""
        ring = self._rings.get(series)
        times, values = ring.since(now_s - seconds) if ring is not None else ((), ())
        return Window(times[-1] - times[0], tuple(values)) if values else None

    def since(self, series: Series, from_s: float) -> tuple[Sequence[float], Sequence[float]]:
        """Times and values from a moment on, oldest first; nothing of a series that is not known."""
        ring = self._rings.get(series)
        return ring.since(from_s) if ring is not None else ((), ())

    def mean(self, series: Series, now_s: float, seconds: float) -> float | None:
        window = self.window(series, now_s, seconds)
        return None if window is None else window.mean

    def owners(self, kind: str) -> list[str]:
        return [series.owner for series in self._rings if series.kind == kind]

    def keep(self, owners: Iterable[str]) -> None:
        """Forgets the series of owners that are gone."""
        living = {"", *owners}
        for series in [series for series in self._rings if series.owner not in living]:
            del self._rings[series]

    def __len__(self) -> int:
        return len(self._rings)


def _single(number: float) -> float:
    """Rounded to single precision, in which the original reckons: int(14 * 0.95) is 13 either way, others are not."""
    rounded: float = unpack("f", pack("f", number))[0]
    return rounded
