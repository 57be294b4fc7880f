"""How full a row would be, as a score of 0..100: one `ScoreShape` for each rule that plugins can name.

    LEAST_ALLOCATED     sum(weight * ((capacity - used) * 100 // capacity)) // sum(weight)
    MOST_ALLOCATED      sum(weight * (min(used, capacity) * 100 // capacity)) // sum(weight)
    Ratio(points)       a line through the points at used * 100 // capacity, weighted, and rounded to the nearest
    Mixed(most)         each resource by the first or the second rule
    Free(dominant)      as the first rule, and the least of the resources counts once more, with a weight of its own
    BALANCED            int((1 - sigma) * 100), sigma: the standard deviation of min(1, used / capacity)

`used` includes the pod. A resource that the row does not have (capacity 0) is left out of the sums.

`plain` is the definition: one row, Python numbers. The other methods are the same formula, faster:

    of_views    one row, on views of columns that were looked up once: every placement asks this, and as a rule about
                two resources, for which there are no loops
    of_rows     many rows as arrays; for many classes together, rows are lines and classes are columns
    of_block    as `of_rows`, all resources in one array of floats; for rows that have all resources

`tests/scheduler/framework/test_amounts.py` compares each with `plain`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from koord.scheduler.framework.cells import Numbers, OfRow, all_positive, least, percent
from koord.scheduler.state.table import Array, Row

Filled: TypeAlias = tuple[Numbers, Numbers, int]
"""How much of one resource would be used: capacity, used (with the pod), and its weight."""
Views: TypeAlias = tuple[memoryview, memoryview, int]
"""The columns of one resource, capacity and used (without the pod), and its weight. A plain tuple, for speed."""


class PodAmounts(NamedTuple):
    """What tells classes of pods apart that are judged by the same columns."""

    needed: tuple[int, ...]
    "What must be left, by need."
    adds: tuple[int, ...]
    "What the pod adds to what is used, by share."


class ScoreShape:
    """A rule for scores. Shapes with equal fields are equal, so that classes can be judged together."""

    def plain(self, shares: Iterable[Filled]) -> int:
        """The formula, for one row."""
        raise NotImplementedError(type(self).__name__)

    def of_views(self, shares: Sequence[Views]) -> OfRow:
        """The score by row and `PodAmounts`."""
        raise NotImplementedError(type(self).__name__)

    def of_rows(self, shares: Iterable[Filled]) -> Numbers:
        raise NotImplementedError(type(self).__name__)

    def of_block(self, capacity: Array, used: Array, adds: Array, weights: Sequence[int]) -> Array | None:
        """Arrays of resource, row, class. All capacities are positive and small enough for exact floats. None: the
        shape has no block form for these."""
        return None


@dataclass(frozen=True)
class _Allocated(ScoreShape):
    most: bool
    "Whether full rows score higher."

    def plain(self, shares: Iterable[Filled]) -> int:
        total = weights = 0
        for capacity, used, weight in shares:
            if capacity > 0:
                counts = min(used, capacity) if self.most else max(capacity - used, 0)
                total += weight * (counts * 100 // capacity)
                weights += weight
        return total // weights if weights else 0

    def of_views(self, shares: Sequence[Views]) -> OfRow:
        prefers_full = self.most
        if len(shares) == 2 and not prefers_full:
            return _least_of_two(shares, self)

        def score(row: Row, amounts: PodAmounts) -> int:
            total = weights = 0
            for (capacities, used_of, weight), adds in zip(shares, amounts.adds):  # noqa: B905 - equally long
                capacity = capacities[row]
                if capacity > 0:
                    used = used_of[row] + adds
                    weights += weight
                    if prefers_full:
                        total += (used if used < capacity else capacity) * 100 // capacity * weight
                    elif used <= capacity:
                        total += (capacity - used) * 100 // capacity * weight
            return total // weights if weights else 0

        return score

    def of_rows(self, shares: Iterable[Filled]) -> Numbers:
        total: Numbers = None
        weights: Numbers = 0
        for capacity, used, weight in shares:
            every = all_positive(capacity)
            counts = least(used, capacity) if self.most else (capacity - used) * (used <= capacity)
            score = percent(counts, capacity if every else capacity + (capacity == 0))
            if weight != 1:
                score = score * weight
            if every:
                weights = weights + weight
            else:
                has = capacity > 0
                score, weights = score * has, weights + weight * has
            total = total + score if total is not None else score
        return 0 if total is None else total // (weights + (weights == 0))

    def of_block(self, capacity: Array, used: Array, adds: Array, weights: Sequence[int]) -> Array:
        if self.most:
            counts = np.minimum(used + adds, capacity)
        else:
            counts = capacity - used - adds
            np.maximum(counts, 0.0, out=counts)
        counts *= 100
        counts /= capacity
        scores = counts.astype(np.int64)
        total = scores[0]
        if weights[0] != 1:
            total *= weights[0]
        for score, weight in zip(scores[1:], weights[1:], strict=True):
            total += score if weight == 1 else score * weight
        result: Array = total // sum(weights)
        return result


@dataclass(frozen=True)
class Ratio(ScoreShape):
    """A resource that scores nothing is left out on both sides of the fraction."""

    points: tuple[tuple[int, int], ...]
    "Utilisation in percent, ascending, and the score there; constant outside them."

    def plain(self, shares: Iterable[Filled]) -> int:
        total = weights = 0
        for capacity, used, weight in shares:
            if capacity > 0:
                score = self.at(100 if used > capacity else used * 100 // capacity)
                if score > 0:
                    total += weight * score
                    weights += weight
        return (2 * total + weights) // (2 * weights) if weights else 0

    def at(self, utilisation: int) -> int:
        """The score at a utilisation: on the line between two points, cut to an integer towards the left one."""
        before = None
        for x, y in self.points:
            if utilisation <= x:
                if before is None:
                    return y
                steps, width = (y - before[1]) * (utilisation - before[0]), x - before[0]
                return before[1] + (steps // width if steps >= 0 else -(-steps // width))
            before = x, y
        return self.points[-1][1]

    @cached_property
    def _by_percent(self) -> Array:
        return np.array([self.at(utilisation) for utilisation in range(101)], np.int64)

    def of_views(self, shares: Sequence[Views]) -> OfRow:
        scores = self._by_percent.tolist()

        def score(row: Row, amounts: PodAmounts) -> int:
            total = weights = 0
            for (capacities, used_of, weight), adds in zip(shares, amounts.adds):  # noqa: B905 - equally long
                capacity = capacities[row]
                if capacity > 0:
                    used = used_of[row] + adds
                    score = scores[0 if used <= 0 else used * 100 // capacity if used < capacity else 100]
                    if score > 0:
                        total += score * weight
                        weights += weight
            return (2 * total + weights) // (2 * weights) if weights else 0

        return score

    def of_rows(self, shares: Iterable[Filled]) -> Numbers:
        total: Numbers = 0
        weights: Numbers = 0
        for capacity, used, weight in shares:
            utilisation = percent(np.clip(used, 0, capacity), capacity + (capacity == 0))
            score = self._by_percent[utilisation]
            counts = (capacity > 0) & (score > 0)
            total = total + score * weight * counts
            weights = weights + weight * counts
        return (2 * total + weights) // (2 * (weights + (weights == 0)))


@dataclass(frozen=True)
class _Balanced(ScoreShape):
    """Weights do not count. Of two fractions the deviation is half their distance, which is exact where a square root
    is not. Amounts become floats before they are divided."""

    def plain(self, shares: Iterable[Filled]) -> int:
        fractions = [min(1.0, float(used) / float(capacity)) for capacity, used, _ in shares if capacity > 0]
        if len(fractions) < 2:
            return 100
        if len(fractions) == 2:
            deviation = abs(fractions[0] - fractions[1]) / 2
        else:
            total = squares = 0.0
            for fraction in fractions:
                total += fraction
            mean = total / len(fractions)
            for fraction in fractions:
                squares += (fraction - mean) * (fraction - mean)
            deviation = math.sqrt(squares / len(fractions))
        return int((1.0 - deviation) * 100)

    def of_views(self, shares: Sequence[Views]) -> OfRow:
        columns = [(capacities, used_of) for capacities, used_of, _ in shares]
        if len(columns) == 2:
            return self._of_two(columns)

        def score(row: Row, amounts: PodAmounts) -> int:
            fractions = []
            for (capacities, used_of), adds in zip(columns, amounts.adds):  # noqa: B905 - equally long
                capacity = capacities[row]
                if capacity > 0:
                    used = used_of[row] + adds
                    fractions.append(1.0 * used / capacity if used < capacity else 1.0)
            return self.plain((1, fraction, 1) for fraction in fractions)

        return score

    def _of_two(self, columns: Sequence[tuple[memoryview, memoryview]]) -> OfRow:
        """Of two resources, CPU and memory as a rule, without a loop."""
        (has_first, used_first), (has_second, used_second) = columns

        def score(row: Row, amounts: PodAmounts) -> int:
            more_first, more_second = amounts.adds
            one, other = has_first[row], has_second[row]
            if one <= 0 or other <= 0:
                return 100
            used = used_first[row] + more_first
            part = 1.0 * used / one if used < one else 1.0
            used = used_second[row] + more_second
            apart = part - 1.0 * used / other if used < other else part - 1.0
            return int((1.0 - abs(apart) / 2) * 100)

        return score

    def of_rows(self, shares: Iterable[Filled]) -> Numbers:
        fractions, held = [], []
        for capacity, used, _ in shares:
            every = all_positive(capacity)
            fractions.append(np.minimum(used / (capacity if every else np.maximum(capacity, 1)), 1.0))
            held.append(None if every else capacity > 0)
        if len(fractions) == 2:
            deviation = np.abs(fractions[0] - fractions[1]) * 0.5
            for has in held:
                if has is not None:
                    deviation *= has
        else:
            deviation = self._deviation(fractions, held)
        return ((1.0 - deviation) * 100).astype(np.int64)

    def _deviation(self, fractions: Sequence[Array], held: Sequence[Array | None]) -> Array:
        """For any number of fractions; a row may lack some of them."""
        has: list[Numbers] = [1 if one is None else one for one in held]
        number = np.maximum(sum(has), 1)
        mean = sum(fraction * there for fraction, there in zip(fractions, has, strict=True)) / number
        squares = sum(((fraction - mean) * there) ** 2 for fraction, there in zip(fractions, has, strict=True))
        highest = reduce(
            np.maximum, [np.where(there, fraction, 0.0) for fraction, there in zip(fractions, has, strict=True)]
        )
        lowest = reduce(
            np.minimum, [np.where(there, fraction, 1.0) for fraction, there in zip(fractions, has, strict=True)]
        )
        return np.where(number == 2, (highest - lowest) * 0.5, np.sqrt(squares / number))

    def of_block(self, capacity: Array, used: Array, adds: Array, weights: Sequence[int]) -> Array | None:
        if len(weights) != 2:
            return None
        fractions = used + adds
        fractions /= capacity
        np.minimum(fractions, 1.0, out=fractions)
        score: Array = fractions[0] - fractions[1]
        np.abs(score, out=score)
        score *= 0.5
        np.subtract(1.0, score, out=score)
        score *= 100
        return score.astype(np.int64)


@dataclass(frozen=True)
class Mixed(ScoreShape):
    """Each resource by its own rule, and one that a row does not have counts as 0. Without any, all rows score 100."""

    most: tuple[bool, ...]
    "By resource, whether full rows score higher."

    def plain(self, shares: Iterable[Filled]) -> int:
        total = weights = 0
        for (capacity, used, weight), is_most in zip(shares, self.most, strict=True):
            counts = min(used, capacity) if is_most else max(capacity - used, 0)
            total += weight * (counts * 100 // capacity if capacity > 0 else 0)
            weights += weight
        return total // weights if weights else 100

    def of_views(self, shares: Sequence[Views]) -> OfRow:
        weights = sum(weight for _, _, weight in shares)
        parts = [(*share, is_most) for share, is_most in zip(shares, self.most, strict=True)]

        def score(row: Row, amounts: PodAmounts) -> int:
            if not weights:
                return 100
            total = 0
            for (capacities, used_of, weight, is_most), adds in zip(parts, amounts.adds):  # noqa: B905 - equally long
                capacity = capacities[row]
                if capacity > 0:
                    used = used_of[row] + adds
                    if is_most:
                        total += (used if used < capacity else capacity) * 100 // capacity * weight
                    elif used <= capacity:
                        total += (capacity - used) * 100 // capacity * weight
            return total // weights

        return score

    def of_rows(self, shares: Iterable[Filled]) -> Numbers:
        total: Numbers = 0
        weights = 0
        for (capacity, used, weight), is_most in zip(shares, self.most, strict=True):
            counts = least(used, capacity) if is_most else (capacity - used) * (used <= capacity)
            total = total + percent(counts, capacity + (capacity == 0)) * (capacity > 0) * weight
            weights += weight
        return total // weights if weights else 100


@dataclass(frozen=True)
class Free(ScoreShape):
    """A resource that a row does not have counts as 0, as in `Mixed`."""

    dominant: int
    "The weight of the resource with the smallest free share."

    def plain(self, shares: Iterable[Filled]) -> int:
        total, weights, lowest = 0, self.dominant, 100
        for capacity, used, weight in shares:
            free = max(capacity - used, 0) * 100 // capacity if capacity > 0 else 0
            total += weight * free
            weights += weight
            lowest = min(lowest, free)
        return (total + self.dominant * lowest) // weights if weights else 0

    def of_views(self, shares: Sequence[Views]) -> OfRow:
        dominant = self.dominant
        if len(shares) == 2 and not dominant:
            return _least_of_two(shares, self)
        weights = dominant + sum(weight for _, _, weight in shares)

        def score(row: Row, amounts: PodAmounts) -> int:
            if not weights:
                return 0
            total, lowest = 0, 100
            for (capacities, used_of, weight), adds in zip(shares, amounts.adds):  # noqa: B905 - equally long
                capacity = capacities[row]
                used = used_of[row] + adds
                free = (capacity - used) * 100 // capacity if capacity > 0 and used <= capacity else 0
                total += free * weight
                if free < lowest:
                    lowest = free
            return (total + dominant * lowest) // weights

        return score

    def of_rows(self, shares: Iterable[Filled]) -> Numbers:
        total: Numbers = 0
        lowest: Numbers = 100
        weights = self.dominant
        for capacity, used, weight in shares:
            every = all_positive(capacity)
            free = percent((capacity - used) * (used <= capacity), capacity if every else capacity + (capacity == 0))
            if not every:
                free = free * (capacity > 0)
            total = total + (free if weight == 1 else free * weight)
            weights += weight
            if self.dominant:
                lowest = least(lowest, free)
        if self.dominant:
            total = total + lowest * self.dominant
        return total // weights if weights else 0

    def of_block(self, capacity: Array, used: Array, adds: Array, weights: Sequence[int]) -> Array | None:
        return None if self.dominant else LEAST_ALLOCATED.of_block(capacity, used, adds, weights)


def _least_of_two(shares: Sequence[Views], shape: ScoreShape) -> OfRow:
    """`LEAST_ALLOCATED` of two resources, CPU and memory as a rule, without a loop. `shape` says what rows score that
    lack one of them."""
    (has_first, used_first, weight_first), (has_second, used_second, weight_second) = shares
    weights = weight_first + weight_second

    def score(row: Row, amounts: PodAmounts) -> int:
        more_first, more_second = amounts.adds
        one, other = has_first[row], has_second[row]
        if one <= 0 or other <= 0 or not weights:
            used = (
                (one, used_first[row] + more_first, weight_first),
                (other, used_second[row] + more_second, weight_second),
            )
            return shape.plain(used)
        total = 0
        left = one - used_first[row] - more_first
        if left > 0:
            total = left * 100 // one * weight_first
        left = other - used_second[row] - more_second
        if left > 0:
            total += left * 100 // other * weight_second
        return total // weights

    return score


LEAST_ALLOCATED: Final[ScoreShape] = _Allocated(most=False)
MOST_ALLOCATED: Final[ScoreShape] = _Allocated(most=True)
BALANCED: Final[ScoreShape] = _Balanced()
