"""The best row is the same whichever way it is found, whatever has changed before."""

from __future__ import annotations

import random
from collections.abc import Hashable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koord.scheduler.framework import groups as module
from koord.scheduler.framework.facet import FewGroups
from koord.scheduler.framework.groups import LOW, NEVER, TIE_BITS, Groups
from koord.scheduler.state.table import Array, Changes

ROWS = 300


class Colours(FewGroups):
    """A facet that says of each row what it was told."""

    gates = closes = flat = False
    normalised = True

    def __init__(self, size: int, rng: random.Random) -> None:
        self.size = size
        self.worth: list[int] = []
        self.asked: tuple[list[int], int] | None = None
        self.groups: Array = np.array([rng.randrange(size) for _ in range(ROWS)], np.int32)

    def refresh(self, changed: Changes | None) -> bool:
        return True

    def table(self, candidates: Array | None) -> Array:
        raise NotImplementedError

    def few(self, groups: list[int], candidates: int) -> list[int] | None:
        self.asked = (groups, candidates)
        return [self.worth[group] for group in groups]


class Scene:
    """Rows with bases and colours, which change; all ties are decided by the bases, like those by hashes of names."""

    def __init__(self, seed: int, facets: int) -> None:
        self.rng = random.Random(seed)
        self.facets = [Colours(self.rng.choice((2, 3, 40)), self.rng) for _ in range(facets)]
        self.base = np.array([self.new_base(row) for row in range(ROWS)], np.int64)
        self.shared: dict[Hashable, object] = {}
        self.groups = Groups(self.facets, self.base, self.shared)

    def new_base(self, row: int) -> int:
        return NEVER if self.rng.random() < 0.2 else (self.rng.randrange(40) << TIE_BITS) + row

    def change(self, rows: list[int], *, recolour: bool) -> None:
        old = [int(self.base[row]) for row in rows]
        were = self.base[rows] > LOW
        for row in rows:
            self.base[row] = self.new_base(row)
            for facet in self.facets if recolour else ():
                if self.rng.random() < 0.1:
                    facet.size += 1
                facet.groups[row] = self.rng.randrange(facet.size)
        if len(rows) < 10:
            for row, was in zip(rows, old, strict=True):
                self.groups.move(row, was, int(self.base[row]))
        elif self.groups.move_many(np.array(rows, np.intp), self.base[rows], were) is None:
            self.groups = Groups(self.facets, self.base, self.shared)
        self.groups.fit()

    def worth(self) -> Array:
        """What groups are worth now; some are ruled out."""
        worth = [
            NEVER if self.rng.random() < 0.1 else self.rng.randrange(60) << TIE_BITS for _ in range(self.groups.size)
        ]
        return np.array(worth, np.int64)

    def check(self) -> None:
        groups, worth = self.groups, self.worth()
        combos = {tuple(int(facet.groups[row]) for facet in self.facets) for row in range(ROWS)}
        assert len({int(group) for group in groups.of_row}) == len(combos)
        assert groups.number.tolist() == np.bincount(groups.of_row[self.base > LOW], minlength=groups.size).tolist()
        total = self.base + worth[groups.of_row]
        best = int(total.argmax())
        wanted = best if total[best] > LOW else None
        assert groups.best_of_all(worth) == wanted
        if self.rng.random() < 0.7:
            assert groups.best_row(worth) == wanted
            if len(self.facets) == 1:
                self.check_few(self.facets[0])

    def check_few(self, facet: Colours) -> None:
        facet.worth = [self.rng.randrange(30) for _ in range(self.groups.size)]
        total = self.base + (2 * np.array(facet.worth)[self.groups.of_row] << TIE_BITS)
        best = int(total.argmax())
        present, candidates = self.groups.number.nonzero()[0].tolist(), self.groups.number.sum()
        found = self.groups.best_of_few(2)
        if len(present) > module.FEW_GROUPS:
            assert found is False
        else:
            assert found == (best if total[best] > LOW else None)
            assert facet.asked == (present, candidates) or not present


@pytest.mark.parametrize("facets", [0, 1, 2])
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 1 << 30))
def test_the_best_row_is_the_best_of_all_rows_after_any_changes(facets: int, seed: int) -> None:
    scene = Scene(seed, facets)
    scene.check()
    for _ in range(25):
        number = scene.rng.choice((1, 2, 5, 60, 100))
        scene.change(scene.rng.sample(range(ROWS), number), recolour=scene.rng.random() < 0.4)
        scene.check()


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1 << 30))
def test_rows_that_stay_in_their_groups_are_kept_sorted(seed: int) -> None:
    scene = Scene(seed, 1)
    for _ in range(module.STEADY + 6):
        scene.change(scene.rng.sample(range(ROWS), 60), recolour=False)
        scene.check()
        scene.change([scene.rng.randrange(ROWS)], recolour=False)
        scene.check()
    assert scene.groups._sorted is not None
    # Another class has its rows in the same groups.
    other = Groups(scene.facets, scene.base, scene.shared)
    for _ in range(module.STEADY):
        other.move_many(np.arange(ROWS), scene.base, None)
    worth = scene.worth()
    assert other.best_of_all(worth) == scene.groups.best_of_all(worth)
    assert other._sorted is not None
    assert other._sorted.order is scene.groups._sorted.order


def test_heaps_are_refilled_when_their_best_rows_are_used_up() -> None:
    scene = Scene(7, 1)
    for _ in range(4 * module.KEPT):
        worth = np.zeros(scene.groups.size, np.int64)
        row = scene.groups.best_row(worth)
        if row is None:
            break
        assert row == int(scene.base.argmax())
        old = int(scene.base[row])
        scene.base[row] = old - (3 << TIE_BITS) if old > 4 << TIE_BITS else NEVER
        scene.groups.move(row, old, int(scene.base[row]))
