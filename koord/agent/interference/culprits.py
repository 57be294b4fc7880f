"""Which neighbour causes it: a score of three parts for each pod that uses what the victim lacks.

direct        share of the victim's waiting during which the neighbour held its CPU, where switches were sampled
rise          by how many deviations the neighbour uses more while the victim suffers than while it does not
correlation   of the neighbour's use with the victim's signal, the neighbour up to two windows earlier

    score = .5 direct + .3 clamp(rise / 4) + .2 correlation;  without switches .6 and .4 of the last two

Offline neighbours count 1.2 times. One is named at .5, if no other is near: at least 1.5 times the second. Otherwise
it is unclear, and said to be.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from koord.agent.interference.signals import Dimension

WINDOWS: Final = 30
LARGEST_LAG: Final = 2
CLEAR: Final = 0.5
AHEAD: Final = 1.5
OFFLINE_COUNTS: Final = 1.2
RISE_FULL: Final = 4.0
LEAST_TO_COMPARE: Final = 4
"""Windows: fewer have no correlation worth the name."""
LISTED_FROM: Final = 0.15
LEAST_SPREAD: Final = 0.1


@dataclass(frozen=True, slots=True)
class Suspect:
    uid: str
    score: float
    direct: float | None
    "None without samples of switches."
    rise: float
    "In deviations."
    correlation: float
    use: float
    "In the last window, in the dimension's unit."


@dataclass(frozen=True, slots=True)
class Suspects:
    """The most likely first; only those worth reporting."""

    listed: tuple[Suspect, ...] = ()

    @property
    def culprit(self) -> Suspect | None:
        """The one that it clearly is."""
        if not self.listed or self.listed[0].score < CLEAR:
            return None
        second = self.listed[1].score if len(self.listed) > 1 else 0.0
        return self.listed[0] if self.listed[0].score >= AHEAD * second else None

    def without(self, uids: Iterable[str]) -> Suspects:
        left = set(uids)
        return Suspects(tuple(suspect for suspect in self.listed if suspect.uid not in left))


@dataclass(frozen=True, slots=True)
class Candidate:
    uid: str
    use: Sequence[float]
    "Of each window, oldest first; as many as the victim's."
    is_offline: bool


def suspects(
    dimension: Dimension,
    victim: Sequence[float],
    is_slow: Sequence[bool],
    candidates: Iterable[Candidate],
    direct: Mapping[str, float] | None = None,
) -> Suspects:
    """`victim`: its signal in each window, oldest first; `is_slow`: in which of them it suffered. `direct`: by uid, for
    which share of its waiting each neighbour held the CPU."""
    suspected = [_suspect(dimension, victim, is_slow, candidate, direct) for candidate in candidates]
    listed = [suspect for suspect in suspected if suspect is not None and suspect.score >= LISTED_FROM]
    return Suspects(tuple(sorted(listed, key=lambda suspect: (-suspect.score, suspect.uid))))


def score(direct: float | None, rise: float, correlation: float, *, is_offline: bool) -> float:
    risen, together = min(max(rise / RISE_FULL, 0.0), 1.0), max(correlation, 0.0)
    value = 0.6 * risen + 0.4 * together if direct is None else 0.5 * direct + 0.3 * risen + 0.2 * together
    return value * (OFFLINE_COUNTS if is_offline else 1.0)


def _suspect(
    dimension: Dimension,
    victim: Sequence[float],
    is_slow: Sequence[bool],
    candidate: Candidate,
    direct: Mapping[str, float] | None,
) -> Suspect | None:
    use = candidate.use
    hot = [used for used, slow in zip(use, is_slow, strict=True) if slow]
    calm = [used for used, slow in zip(use, is_slow, strict=True) if not slow]
    # A pod that does nearly nothing disturbs no other, whenever it does it.
    if not hot or max(hot) < dimension.least:
        return None
    rise = risen(calm, hot, dimension.least)
    together = correlation(victim, use)
    held = None if direct is None else min(direct.get(candidate.uid, 0.0), 1.0)
    value = score(held, rise, together, is_offline=candidate.is_offline)
    return Suspect(candidate.uid, value, held, rise, together, use[-1])


def risen(calm: Sequence[float], hot: Sequence[float], least: float) -> float:
    """By how many deviations of the calm windows the others are above them."""
    if not calm:
        return 0.0
    mean = sum(calm) / len(calm)
    deviation = (sum((value - mean) ** 2 for value in calm) / len(calm)) ** 0.5
    spread = max(deviation, LEAST_SPREAD * mean, least / 2)
    return float((sum(hot) / len(hot) - mean) / spread)


def correlation(victim: Sequence[float], use: Sequence[float]) -> float:
    """Pearson's, the largest of use 0 to 2 windows before the victim's signal."""
    best = 0.0
    for lag in range(LARGEST_LAG + 1):
        later, earlier = victim[lag:], use[: len(use) - lag]
        if len(later) >= LEAST_TO_COMPARE:
            best = max(best, _pearson(later, earlier))
    return best


def _pearson(one: Sequence[float], other: Sequence[float]) -> float:
    of_one, of_other = sum(one) / len(one), sum(other) / len(other)
    together = sum((a - of_one) * (b - of_other) for a, b in zip(one, other, strict=True))
    spread = sum((a - of_one) ** 2 for a in one) * sum((b - of_other) ** 2 for b in other)
    return float(together / spread**0.5) if spread > 0 else 0.0
