"""One round of collecting: what collectors read, what they write, and what they remember from the round before."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from koord.agent.collect.samplers import ColdSampling, CpiSampling, SwitchSampling
from koord.agent.collect.task_sums import Waitings
from koord.agent.host.cgroups import Cgroups
from koord.agent.series.samples import SLOW_RING, Samples, Series
from koord.agent.state import NodeState

STALE_AFTER: Final = 20
"""A counter that was last read more intervals ago says nothing of the present."""

EXPIRES_S: Final = 10.0
"""Default age at which a sample no longer counts for the system's usage."""


@dataclass(slots=True)
class Rates:
    """Counters as they stood, to tell how fast they grow. A first reading, and a counter that fell, tell nothing."""

    interval_s: float = 1.0
    kept_for: NodeState | None = None
    "Whose owners are known to be alive."
    _before: dict[Series, tuple[float, float]] = field(default_factory=dict)

    def per_second(self, series: Series, counter: float, now_s: float) -> float | None:
        before_s = self._before.get(series, (0.0, now_s))[1]
        grown = self.growth(series, counter, now_s)
        return None if grown is None else grown / (now_s - before_s)

    def growth(self, series: Series, counter: float, now_s: float) -> float | None:
        """By how much a counter grew since the round before."""
        before = self._before.get(series)
        self._before[series] = (counter, now_s)
        if before is None or counter < before[0] or not 0 < now_s - before[1] <= STALE_AFTER * self.interval_s:
            return None
        return counter - before[0]

    def stood(self, series: Series) -> float | None:
        """Where a counter stood in the round before."""
        before = self._before.get(series)
        return None if before is None else before[0]

    def stands(self, series: Series, now_s: float) -> None:
        """It was not read, since it cannot have grown."""
        before = self._before.get(series)
        if before is not None:
            self._before[series] = (before[0], now_s)

    def keep(self, owners: Iterable[str]) -> None:
        """Forgets the counters of owners that are gone."""
        living = {"", *owners}
        for series in [kept_series for kept_series in self._before if kept_series.owner not in living]:
            del self._before[series]


@dataclass(slots=True)
class Round:
    cgroups: Cgroups
    state: NodeState
    samples: Samples
    rates: Rates
    now_s: float
    asks_pressure: bool = False
    "Whether it is time to look at pressure, which the kernel averages over ten seconds."

    is_thorough: bool = True
    "Whether it is time to look at what need not be known by the second: the memory of containers is only reported."

    expires_s: float = EXPIRES_S
    "Samples older than this do not count in what the system uses."

    waitings: Waitings = field(default_factory=Waitings)
    cpi: CpiSampling = field(default_factory=CpiSampling)
    switches: SwitchSampling = field(default_factory=SwitchSampling)
    cold: ColdSampling = field(default_factory=ColdSampling)
    complaints: dict[str, str] = field(default_factory=dict)
    "By collector, why it could not look when it was last tried."

    def cpu(self, series: Series, used_ns: int) -> None:
        """CPU time so far becomes milli-cores."""
        rate = self.rates.per_second(series, used_ns, self.now_s)
        if rate is not None:
            self.samples.add(series, self.now_s, rate / 1e6)

    def cpu_slowly(self, series: Series, used_ns: int) -> None:
        """The same for what is measured every few seconds."""
        rate = self.rates.per_second(series, used_ns, self.now_s)
        if rate is not None:
            self.put_slowly(series, rate / 1e6)

    def put(self, series: Series, value: float) -> None:
        self.samples.add(series, self.now_s, value)

    def put_slowly(self, series: Series, value: float) -> None:
        """What is measured every few seconds: few of them span as much time."""
        self.samples.add(series, self.now_s, value, SLOW_RING)
