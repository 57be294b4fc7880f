"""NUMA nodes judged by amounts: where a pod fits, on one row or many at once.

A set of NUMA nodes will do where every resource that they report is there in sum, and none of them is without it. Of a
resource that is bound (CPUs of its own) whole CPUs count, or whole cores, and only as many as are free.

    Restricted        all NUMA nodes that have something of everything are enough together
    SingleNUMANode    one of them is enough

The set is chosen by its size, then the score, then the numbers; `Choice` compares all sets.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from koord.scheduler.framework.amount_scores import ScoreShape
from koord.scheduler.framework.cells import Cells, Numbers, least
from koord.scheduler.plugins.numa.allocations import BOUND, CORES, CPUS, HAS, REPORTS, TAKEN, WHOLE, ZONES
from koord.scheduler.plugins.numa.facts import CPU, ROUNDING
from koord.scheduler.state.table import Array

SINGLE: Final = 3
"""The number of SingleNUMANode in the column of policies."""
FEW_SETS: Final = 15
"""As many as four NUMA nodes have."""
_NONE: Final = 1 << 40


@dataclass(frozen=True, slots=True)
class Bound:
    """How CPUs are bound, on one row or many: numbers, or arrays of them."""

    binding: Numbers
    "1 where the pod gets CPUs of its own."
    full: Numbers
    "1 where these must be whole cores."
    spread: Numbers
    "1 where each must be of another core."
    per_core: Numbers
    ratio: Numbers


class Zones:
    """What NUMA nodes have left for one class of pods."""

    def __init__(self, zones: Sequence[int], needs: Mapping[str, int], declared: frozenset[tuple[int, str]]) -> None:
        """`needs`: what the pod asks for; `declared`: NUMA nodes and resources that have columns."""
        self.zones = tuple(zones)
        self._declared = declared
        self.needs = {name: number for name, number in needs.items() if any((zone, name) in declared for zone in zones)}

    def columns(self, kind: str, name: str) -> list[Hashable | None]:
        return [(kind, zone, name) if (zone, name) in self._declared else None for zone in self.zones]

    def inputs(self, *, with_cpus: bool) -> list[Hashable]:
        """All columns that anything here depends on. `with_cpus`: also if pods get CPUs of their own."""
        amounts = [(kind, zone, name) for kind in (HAS, TAKEN) for zone, name in sorted(self._declared)]
        cpus = [(name, zone) for name in (CPUS, WHOLE, CORES, BOUND) for zone in self.zones] if with_cpus else []
        reports = [(REPORTS, name) for name in sorted({name for _, name in self._declared})]
        return [*amounts, *reports, *cpus]

    def numbers(self, cells: Cells, kind: str, name: str) -> list[Numbers]:
        """Of every NUMA node, what it has of a resource, or what is taken; 0 where nothing is known of it."""
        return [0 if column is None else cells[column] for column in self.columns(kind, name)]

    def left(self, cells: Cells, name: str, bound: Bound) -> list[Numbers]:
        """Of every NUMA node, what the pod could get of a resource. CPUs of its own count in thousandths, too."""
        has, taken = self.numbers(cells, HAS, name), self.numbers(cells, TAKEN, name)
        lefts = [(a - b) * (a > b) for a, b in zip(has, taken, strict=True)]
        if name != CPU or (isinstance(bound.binding, int) and not bound.binding):
            return lefts
        return [self._whole(cells, zone, left, bound) for zone, left in zip(self.zones, lefts, strict=True)]

    def _whole(self, cells: Cells, zone: int, left: Numbers, bound: Bound) -> Numbers:
        enough = least(free_on(cells, zone, bound), _by_amount(left, bound))
        return enough * 1000 * bound.binding + left * (1 - bound.binding)

    def promised(self, cells: Cells, bound: Bound) -> Numbers:
        """Free CPUs that no pod may bind, since NUMA nodes have promised them to pods that share CPUs."""
        promised: Numbers = 0
        columns = zip(self.zones, self.columns(HAS, CPU), self.columns(TAKEN, CPU), strict=True)
        for zone, has, taken in columns:
            if has is None or taken is None:
                continue
            left = cells[has] - cells[taken]
            is_shared = cells[taken] > ceil(cells[BOUND, zone] * bound.ratio)
            over = free_on(cells, zone, bound) - _by_amount(left * (left > 0), bound)
            promised = promised + is_shared * (cells[has] > 0) * (over > 0) * over
        return promised

    def short_of(self, cells: Cells, policy: Numbers, bound: Bound) -> Numbers:
        """The resources that NUMA nodes are short of under a policy, as a mask in the order of `needs`."""
        there = cells[ZONES]
        is_single = (policy == SINGLE) * 1
        every: list[Numbers] = [(there >> zone & 1) for zone in self.zones]
        alone, some = list(every), list(every)
        mask: Numbers = 0
        reported, lefts = [], []
        for i, (name, need) in enumerate(self.needs.items()):
            left = self.left(cells, name, bound)
            is_reported = cells[REPORTS, name] * 1
            alone = [of_set & (1 - is_reported * (got < need)) for of_set, got in zip(alone, left, strict=True)]
            some = [of_set & (1 - is_reported * (got <= 0)) for of_set, got in zip(some, left, strict=True)]
            enough = is_single * _any([of_set * (got >= need) for of_set, got in zip(every, left, strict=True)])
            enough = enough + (1 - is_single) * (
                sum(of_set * got for of_set, got in zip(every, left, strict=True)) >= need
            )
            mask = mask | is_reported * (1 - enough) * (1 << i)
            reported.append(is_reported)
            lefts.append(left)
        fits: Numbers = is_single * _any(alone)
        together: Numbers = 1
        for is_reported, left, need in zip(reported, lefts, self.needs.values(), strict=True):
            got = sum(of_set * amount for of_set, amount in zip(some, left, strict=True))
            together = together * (1 - is_reported * (got < need))
        fits = fits + (1 - is_single) * together
        # Each by itself would do, but not at the same place.
        apart = (mask == 0) * (1 - fits)
        for i, is_reported in enumerate(reported):
            mask = mask | is_reported * apart * (1 << i)
        return mask


@dataclass(frozen=True, slots=True)
class Weighed:
    """How a set of NUMA nodes is scored."""

    shape: ScoreShape
    resources: tuple[tuple[str, int, int], ...]
    "Names, what the pod adds, and weights."


@dataclass(frozen=True, slots=True)
class Choice:
    """All sets of NUMA nodes, for some rows. Lines are rows, columns are sets, the smallest first."""

    sets: Array
    "Masks."
    members: Array
    "Which NUMA nodes (columns) each set (line) has."
    fits: Array
    lacking: Mapping[str, Array]
    "By resource, the sets that have a NUMA node without it."
    reported: Mapping[str, Array]
    "By resource, the rows where some NUMA node reports it."
    scores: Array

    def chosen(self, policy: Array) -> Array:
        """By row, the place of the best set; that of all its NUMA nodes where none will do."""
        open_ = self.fits.copy()
        for name, without in self.lacking.items():
            open_ &= ~(without & self.reported[name][:, np.newaxis])
        sizes = self.members.sum(axis=1)
        open_ &= (policy != SINGLE)[:, np.newaxis] | (sizes == 1)
        order = np.where(open_, sizes * 128 - self.scores, _NONE)
        best: Array = order.argmin(axis=1)
        return best


def choice(zones: Zones, cells: Cells, rows: int, bound: Bound, weighed: Weighed, adds_cpu: Numbers) -> Choice:
    """`adds_cpu`: what the pod adds of cpu by row, which depends on the amplification."""
    sets, members = _sets(zones.zones)
    there = _lines([(cells[ZONES] >> zone & 1) for zone in zones.zones], rows)
    by_set = members.T.astype(np.int64)
    fits: Array = (1 - there) @ by_set == 0
    lacking, reported = dict[str, Array](), dict[str, Array]()
    for name, need in zones.needs.items():
        left = _lines(zones.left(cells, name, bound), rows)
        is_reported: Array = _lines([cells[REPORTS, name]], rows)[:, 0] > 0
        fits &= (left @ by_set >= need) | ~is_reported[:, np.newaxis]
        lacking[name], reported[name] = (left <= 0).astype(np.int64) @ by_set > 0, is_reported
    filled = []
    for name, adds, weight in weighed.resources:
        has = _lines(zones.numbers(cells, HAS, name), rows) @ by_set
        taken = _lines(zones.numbers(cells, TAKEN, name), rows) @ by_set
        more = np.reshape(np.asarray(adds_cpu if name == CPU else adds), (-1, 1))
        filled.append((has, taken + more, weight))
    scores = weighed.shape.of_rows(filled) if filled else np.zeros(fits.shape, np.int64)
    return Choice(sets, members, fits, lacking, reported, scores)


def choice_of_one(zones: Zones, cells: Cells, bound: Bound, weighed: Weighed, adds_cpu: int) -> Choice:
    """As `choice`, of one row: numpy's fixed cost per call is more than the arithmetic of few sets."""
    sets, members = _sets(zones.zones)
    if len(sets) > FEW_SETS:
        return choice(zones, cells, 1, bound, weighed, adds_cpu)
    places, there = _places(zones.zones), cells[ZONES]
    fits = [all(there >> zones.zones[i] & 1 for i in some) for some in places]
    lacking, reported = dict[str, Array](), dict[str, Array]()
    for name, need in zones.needs.items():
        left = zones.left(cells, name, bound)
        is_reported = bool(cells[REPORTS, name])
        if is_reported:
            fits = [fit and sum([left[i] for i in some]) >= need for fit, some in zip(fits, places, strict=True)]
        lacking[name] = np.array([[any(left[i] <= 0 for i in some) for some in places]])
        reported[name] = np.array([is_reported])
    filled = [
        (zones.numbers(cells, HAS, name), zones.numbers(cells, TAKEN, name), adds_cpu if name == CPU else adds, weight)
        for name, adds, weight in weighed.resources
    ]
    scores = [
        weighed.shape.plain(
            (sum([has[i] for i in some]), sum([taken[i] for i in some]) + adds, weight)
            for has, taken, adds, weight in filled
        )
        if filled
        else 0
        for some in places
    ]
    return Choice(sets, members, np.array([fits]), lacking, reported, np.array([scores]))


def bound_cpus(zones: Zones, cells: Cells, rows: int) -> Array:
    """Thousandths of CPUs that pods have of their own, by row and NUMA node."""
    return _lines([cells[BOUND, zone] for zone in zones.zones], rows)


def amounts_of(zones: Zones, cells: Cells, rows: int, kind: str, name: str) -> Array:
    return _lines(zones.numbers(cells, kind, name), rows)


@lru_cache(maxsize=64)
def _sets(zones: tuple[int, ...]) -> tuple[Array, Array]:
    places = sorted(range(1, 1 << len(zones)), key=lambda numbered: (numbered.bit_count(), numbered))
    members = np.array([[numbered >> i & 1 for i in range(len(zones))] for numbered in places], np.int64)
    sets = np.array(
        [sum(1 << zones[i] for i in range(len(zones)) if numbered >> i & 1) for numbered in places], np.int64
    )
    return sets, members


@lru_cache(maxsize=64)
def _places(zones: tuple[int, ...]) -> list[tuple[int, ...]]:
    """By set, the places of its NUMA nodes among all of them."""
    return [tuple(np.flatnonzero(line).tolist()) for line in _sets(zones)[1]]


def _lines(numbers: Sequence[Numbers], rows: int) -> Array:
    """A line for each row, of numbers or arrays of them."""
    table = np.empty((rows, len(numbers)), np.int64)
    for i, line in enumerate(numbers):
        table[:, i] = line
    return table


def free_on(cells: Cells, zone: int | None, bound: Bound) -> Numbers:
    """How many free CPUs a pod could bind, on a NUMA node or on all of them."""
    cpus, whole, cores = (cells[name if zone is None else (name, zone)] for name in (CPUS, WHOLE, CORES))
    return cpus + (whole - cpus) * bound.full + (cores - cpus) * bound.spread


def _by_amount(left: Numbers, bound: Bound) -> Numbers:
    """How many CPUs an amount is worth: whole ones, or whole cores."""
    step = 1 + (bound.per_core - 1) * bound.full
    step = step + (step < 1)
    return _floor(left / bound.ratio + ROUNDING) // (1000 * step) * step


def _any(numbers: Sequence[Numbers]) -> Numbers:
    """1 where one of them is above 0."""
    any_: Numbers = 0
    for number in numbers:
        any_ = any_ | (number > 0) * 1
    return any_


def ceil(number: Numbers) -> Numbers:
    return np.ceil(number).astype(np.int64) if isinstance(number, np.ndarray) else math.ceil(number)


def _floor(number: Numbers) -> Numbers:
    return number.astype(np.int64) if isinstance(number, np.ndarray) else int(number)
