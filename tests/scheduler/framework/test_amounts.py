"""Every fast form of a judge of amounts gives what the plain formula gives of one row, for whatever amounts."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from koord.scheduler.framework.amount_scores import (
    BALANCED,
    LEAST_ALLOCATED,
    MOST_ALLOCATED,
    Filled,
    Free,
    Mixed,
    PodAmounts,
    Ratio,
    ScoreShape,
)
from koord.scheduler.framework.amounts import AmountJudge, Share, shortage
from koord.scheduler.framework.cells import Cells, Many, One, Overlay
from koord.scheduler.framework.judge import Need
from koord.scheduler.state.table import MOST_IN_A_CELL, MOST_OF_A_POD, Column, Reason, Table

EDGES = [0, 1, 2, 3, 7, 99, 100, 101, 1 << 35, (1 << 46) - 1, 1 << 46, (1 << 53) + 1, MOST_OF_A_POD - 1, MOST_OF_A_POD]
AMOUNTS = st.sampled_from(EDGES) | st.integers(0, 12)
"""Of one pod or node. Small ones make rows equally full, where rounding decides."""
SUMS = AMOUNTS | st.sampled_from([MOST_IN_A_CELL - 1, MOST_IN_A_CELL])
"""Of all pods of a node: more than it has."""
SHAPES: st.SearchStrategy[ScoreShape] = st.sampled_from(
    [
        LEAST_ALLOCATED,
        MOST_ALLOCATED,
        BALANCED,
        Ratio(((0, 0), (100, 100))),
        Ratio(((0, 100), (33, 70), (66, 90), (100, 0))),
        Ratio(((50, 10),)),
        Free(0),
        Free(3),
    ]
)


@dataclass
class Scene:
    """Rows with amounts, and pods of several classes that ask for some of them."""

    has: list[list[int]]
    "By row, what there is of each resource; `taken` likewise."
    taken: list[list[int]]
    asks: list[list[int]]
    "By class."
    weights: list[int]
    lasts: list[bool]
    shape: ScoreShape
    view: list[dict[int, int]]
    "By resource, what one class sees as taken in addition on some rows; `promises` likewise."
    promises: list[dict[int, int]]

    def table(self) -> Table:
        table = Table()
        for i in range(len(self.weights)):
            table.declare(Column(("has", i), np.int64, Reason.ALLOCATABLE))
            table.declare(Column(("taken", i), np.int64, Reason.LOAD))
        for n, (has, taken) in enumerate(zip(self.has, self.taken, strict=True)):
            row = table.add_row(f"n{n}")
            for i, (there, gone) in enumerate(zip(has, taken, strict=True)):
                table.set(("has", i), row, there)
                table.set(("taken", i), row, gone)
        return table

    def judges(self, table: Table) -> list[AmountJudge]:
        return [
            AmountJudge(
                table,
                [Need(("has", i), ("taken", i), adds, self.lasts[i]) for i, adds in enumerate(asks)],
                [Share(("has", i), ("taken", i), adds, self.weights[i]) for i, adds in enumerate(asks)],
                self.shape,
            )
            for asks in self.asks
        ]

    def shortage(self, row: int, asks: list[int], *seen: list[dict[int, int]]) -> int:
        """What the plain formula says, of numbers that come from no table."""
        cells = {("has", i): amount for i, amount in enumerate(self.has[row])}
        cells |= {("taken", i): self._taken(row, i, *seen) for i in range(len(asks))}
        return shortage(cells, [Need(("has", i), ("taken", i), adds) for i, adds in enumerate(asks)])

    def score(self, row: int, asks: list[int], *seen: list[dict[int, int]]) -> int:
        filled = [(has, self._taken(row, i, *seen) + asks[i], self.weights[i]) for i, has in enumerate(self.has[row])]
        return self.shape.plain(filled)

    def _taken(self, row: int, i: int, *seen: list[dict[int, int]]) -> int:
        return self.taken[row][i] + sum(each[i].get(row, 0) for each in seen)


@st.composite
def scenes(draw: st.DrawFn) -> Scene:
    rows, resources, classes = draw(st.integers(1, 5)), draw(st.integers(1, 4)), draw(st.integers(1, 4))

    def amounts(number: int, of: st.SearchStrategy[int]) -> list[list[int]]:
        line = st.lists(of, min_size=resources, max_size=resources)
        return draw(st.lists(line, min_size=number, max_size=number))

    def added() -> list[dict[int, int]]:
        some = st.dictionaries(st.integers(0, rows - 1), AMOUNTS, max_size=2)
        return draw(st.lists(some, min_size=resources, max_size=resources))

    rules = st.lists(st.booleans(), min_size=resources, max_size=resources)
    return Scene(
        amounts(rows, AMOUNTS),
        amounts(rows, SUMS),
        amounts(classes, AMOUNTS),
        draw(st.lists(st.integers(1, 3), min_size=resources, max_size=resources)),
        draw(st.lists(st.booleans(), min_size=resources, max_size=resources)),
        draw(SHAPES | rules.map(tuple).map(Mixed)),
        added(),
        added(),
    )


def rounding(has: list[int], taken: list[int], asks: list[int], shape: ScoreShape) -> Scene:
    """One row and one pod whose amounts floats cannot tell from others."""
    nothing: list[dict[int, int]] = [{} for _ in has]
    return Scene([has], [taken], [asks], [1] * len(has), [True] * len(has), shape, nothing, nothing)


def overlay(added: list[dict[int, int]]) -> Overlay:
    return {("taken", i): cells for i, cells in enumerate(added)}


def rows_of(found: Any, *shape: int) -> Any:
    return np.broadcast_to(np.asarray(found), shape).tolist()


@settings(max_examples=150)
@given(scene=scenes())
@example(rounding([1 << 53], [0], [(1 << 53) + 1], LEAST_ALLOCATED))
@example(rounding([1 << 56], [1], [0], LEAST_ALLOCATED))
@example(rounding([10, 10, 0], [1, 8, 0], [0, 0, 0], BALANCED))
@example(rounding([63840323001177467, 1], [53625871320989072, 0], [0, 0], BALANCED))
def test_one_row_many_rows_and_many_classes_are_judged_by_the_plain_formula(scene: Scene) -> None:
    table = scene.table()
    judges, rows = scene.judges(table), range(len(scene.has))
    masks = [[scene.shortage(row, asks) for asks in scene.asks] for row in rows]
    scores = [[scene.score(row, asks) for asks in scene.asks] for row in rows]

    columns, index = table.columns, np.arange(len(rows))
    for i, judge in enumerate(judges):
        assert [judge.feasible(One(columns, row)) for row in rows] == [line[i] for line in masks]
        assert [judge.score(One(columns, row)) for row in rows] == [line[i] for line in scores]
        assert rows_of(judge.feasible(Many(columns, index)), len(rows)) == [line[i] for line in masks]
        assert rows_of(judge.score(Many(columns, index)), len(rows)) == [line[i] for line in scores]
    forms = [judge.shortcuts.fast for judge in judges if judge.shortcuts.fast is not None]
    numbers = [form.numbers for form in forms]
    feasible, score = forms[-1].of_row(columns)
    assert [[feasible(row, number) for number in numbers] for row in rows] == masks
    assert [[score(row, number) for number in numbers] for row in rows] == scores
    together, cells = forms[0].together(numbers), Many(columns, index[:, np.newaxis])
    assert rows_of(together.feasible(cells), len(rows), len(judges)) == masks
    assert rows_of(together.score(cells), len(rows), len(judges)) == scores


@settings(max_examples=80)
@given(scene=scenes())
def test_views_count_for_verdict_and_score_and_promises_for_the_verdict_alone(scene: Scene) -> None:
    table = scene.table()
    columns, rows = table.columns, range(len(scene.has))

    def promised(cells: Cells) -> Cells:
        both: dict[Hashable, dict[int, int]] = {column: dict(each) for column, each in overlay(scene.promises).items()}
        for column, each in (cells.overlay or {}).items():
            for row, more in each.items():
                both[column][row] = both[column].get(row, 0) + more
        return type(cells)(cells.columns, cells.rows, both)

    judges = scene.judges(table)
    for judge, asks in zip(judges, scene.asks, strict=True):
        assert judge.amounts is not None
        judge.amounts.promised = promised
        for seen in ([], [scene.view]):
            view = overlay(scene.view) if seen else None
            many = Many(columns, np.arange(len(rows)), view)
            masks = [scene.shortage(row, asks, scene.promises, *seen) for row in rows]
            scores = [scene.score(row, asks, *seen) for row in rows]
            assert [judge.feasible(One(columns, row, view)) for row in rows] == masks
            assert rows_of(judge.feasible(many), len(rows)) == masks
            assert [judge.score(One(columns, row, view)) for row in rows] == scores
            assert rows_of(judge.score(many), len(rows)) == scores


@settings(max_examples=60)
@given(scene=scenes())
def test_what_is_lacking_and_what_preemption_could_give_follow_from_the_needs(scene: Scene) -> None:
    table = scene.table()
    rows = np.arange(len(scene.has))
    for judge, asks in zip(scene.judges(table), scene.asks, strict=True):
        masks = np.array([scene.shortage(row, asks) for row in rows.tolist()])
        lasting = [
            any(adds > has and lasts for adds, has, lasts in zip(asks, scene.has[row], scene.lasts, strict=True))
            for row in rows.tolist()
        ]
        assert judge.unresolvable(masks, rows).tolist() == lasting
        lack = rows_of(judge.lack(Many(table.columns, rows)), len(rows))
        assert [each > 0 for each in lack] == [mask > 0 for mask in masks.tolist()]
        assert [judge.lack(One(table.columns, row)) for row in rows.tolist()] == pytest.approx(lack)


def test_a_judge_reads_the_columns_of_now_after_the_table_has_grown() -> None:
    table = Table()
    for name in ("has", "taken"):
        table.declare(Column(name, np.int64, Reason.REQUESTED))
    judge = AmountJudge(table, [Need("has", "taken", 4)], [Share("has", "taken", 4)], LEAST_ALLOCATED)
    table.set("has", table.add_row("n"), 10)
    assert (judge.feasible(One(table.columns, 0)), judge.score(One(table.columns, 0))) == (0, 60)
    for i in range(table.capacity):
        table.add_row(f"n{i}")
    table.set("taken", 0, 7)
    assert (judge.feasible(One(table.columns, 0)), judge.score(One(table.columns, 0))) == (1, 0)


def test_it_is_asked_again_after_what_changes_its_columns() -> None:
    table = Scene([], [], [], [1], [True], BALANCED, [], []).table()
    judge = AmountJudge(table, [Need(("has", 0), ("has", 0), 1)], [Share(("has", 0), ("taken", 0), 1)], BALANCED)
    assert judge.filters_on == Reason.NODE | Reason.ALLOCATABLE
    assert judge.scores_on == Reason.NODE | Reason.ALLOCATABLE | Reason.LOAD


def test_classes_are_alike_where_only_what_pods_ask_for_differs() -> None:
    scene = Scene([[8]], [[0]], [[1], [2]], [1], [True], LEAST_ALLOCATED, [{}], [{}])
    one, other = (judge.shortcuts.fast for judge in scene.judges(scene.table()))
    assert one is not None
    assert other is not None
    assert one.key == other.key
    assert (one.numbers, other.numbers) == (PodAmounts((1,), (1,)), PodAmounts((2,), (2,)))
    scene.shape = MOST_ALLOCATED
    third = scene.judges(scene.table())[0].shortcuts.fast
    assert third is not None
    assert third.key != one.key


@pytest.mark.parametrize(
    ("shape", "filled", "score"),
    [
        (LEAST_ALLOCATED, [(8, 3, 2), (32, 10, 1)], (2 * 62 + 68) // 3),
        (MOST_ALLOCATED, [(8, 3, 2), (32, 10, 1)], (2 * 37 + 31) // 3),
        (MOST_ALLOCATED, [(8, 9, 1), (0, 1, 5)], 100),
        (LEAST_ALLOCATED, [(0, 0, 1)], 0),
        (Ratio(((0, 0), (100, 100))), [(8, 3, 2), (32, 10, 1)], round((2 * 37 + 31) / 3)),
        (Ratio(((0, 100), (100, 0))), [(8, 8, 9), (32, 10, 1)], 69),
        (Mixed((False, True)), [(64, 24, 1), (8, 6, 2)], 70),
        (Mixed((False, True)), [(64, 24, 1), (0, 2, 1)], 31),
        (Mixed(()), [], 100),
        (Free(0), [(64, 24, 1), (0, 2, 1)], 31),
        (Free(2), [(8, 3, 1), (32, 10, 1)], (62 + 68 + 2 * 62) // 4),
        (Free(1), [(8, 3, 0), (32, 40, 1)], 0),
        (Free(0), [], 0),
        (BALANCED, [(8, 3, 1), (32, 10, 1)], 96),
        (BALANCED, [(10, 1, 1), (10, 3, 1), (0, 5, 1)], 90),
        (BALANCED, [(10, 1, 1)], 100),
    ],
)
def test_worked_examples_of_the_plain_formulas(shape: ScoreShape, filled: list[Filled], score: int) -> None:
    assert shape.plain(filled) == score
