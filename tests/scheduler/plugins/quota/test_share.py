"""The fair share of siblings: the worked examples of the specification, and what holds for all."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koord.scheduler.plugins.quota.share import Claim, scaled, shares, split

LOTS = 10**18


def claim(name: str, least: int, weight: int, request: int, *, lends: bool = True) -> Claim:
    return Claim(name, request, least, weight, lends)


EXAMPLES: dict[str, tuple[int, list[Claim], list[int]]] = {
    "units": (
        100,
        [claim("A", 10, 40, 5), claim("B", 15, 60, 20), claim("C", 20, 50, 40), claim("D", 15, 80, 70)],
        [5, 20, 35, 40],
    ),
    "C asks for 30 only": (
        100,
        [claim("A", 10, 40, 5), claim("B", 15, 60, 20), claim("C", 20, 50, 30), claim("D", 15, 80, 70)],
        [5, 20, 30, 45],
    ),
    "cores": (
        100_000,
        [
            claim("A", 10_000, 40_000, 5_000),
            claim("B", 15_000, 60_000, 20_000),
            claim("C", 20_000, 50_000, 40_000),
            claim("D", 15_000, 80_000, 70_000),
        ],
        [5_000, 20_000, 35_385, 39_615],
    ),
    "all is lent": (100, [claim("A", 50, 100, 100), claim("B", 50, 100, 0)], [100, 0]),
    "and asked back": (100, [claim("A", 50, 100, 100), claim("B", 50, 100, 100)], [50, 50]),
    "by weight": (10, [claim("x", 1, 5, 10), claim("y", 1, 3, 10), claim("z", 1, 2, 10)], [5, 3, 2]),
    "left over by name": (8, [claim(name, 0, 1, 8) for name in "abc"], [3, 3, 2]),
    "the last gets less": (7, [claim(f"q{i}", 0, 1, 9) for i in range(4)], [2, 2, 2, 1]),
    "what is too much is split again": (
        20,
        [claim("a", 4, 1, 15), claim("b", 4, 99, 6), claim("c", 4, 1, 15)],
        [7, 6, 7],
    ),
    "no lending": (
        50,
        [claim("a", 20, 10, 2, lends=False), claim("b", 10, 10, 50), claim("c", 10, 30, 50)],
        [20, 13, 17],
    ),
    "lending": (50, [claim("a", 20, 10, 2), claim("b", 10, 10, 50), claim("c", 10, 30, 50)], [2, 17, 31]),
    "several splits favour no quota": (
        70,
        [claim("b", 0, 1, 27), claim("a", 0, 1, 27), claim("c", 0, 1, 9), claim("d", 9, 0, 0, lends=False)],
        [26, 26, 9, 9],
    ),
    "without weight": (40, [claim("n", 5, 0, 50), claim("k", 5, 7, 50)], [5, 35]),
}


@pytest.mark.parametrize("example", EXAMPLES)
def test_worked_examples(example: str) -> None:
    total, claims, expected = EXAMPLES[example]
    assert shares(total, claims) == expected


def test_mins_shrink_with_the_cluster() -> None:
    assert [scaled(90_000, least, 120_000) for least in (60_000, 30_000, 30_000)] == [45_000, 22_500, 22_500]
    assert [scaled(9, least, 12) for least in (6, 3, 3)] == [4, 2, 2]
    assert scaled(0, 6, 12) == 0
    assert scaled(-3, 6, 12) == 0
    assert scaled(100, 6, 12) == 6


claims = st.lists(
    st.tuples(st.integers(0, 40), st.integers(0, 20), st.integers(0, 9), st.booleans()), min_size=1, max_size=6
).map(
    lambda rows: [
        Claim(f"q{i}", request, least, weight, lends) for i, (request, least, weight, lends) in enumerate(rows)
    ]
)


@settings(max_examples=50)
@given(st.integers(0, 120), claims)
def test_what_always_holds(total: int, claims: list[Claim]) -> None:
    given_ = shares(total, claims)
    for claim_, got in zip(claims, given_, strict=True):
        assert got <= max(claim_.request, 0 if claim_.lends else claim_.least)
        assert got >= min(claim_.request, claim_.least)
    if sum(claim_.least for claim_ in claims) <= total:
        assert sum(given_) <= total
    wanting = [c for c, got in zip(claims, given_, strict=True) if got < c.request and c.weight]
    if wanting and sum(c.least for c in claims) <= total:
        assert sum(given_) == total


@settings(max_examples=50)
@given(st.integers(0, 10**20), st.lists(st.integers(1, 10**15), min_size=1, max_size=8))
def test_parts_add_up_and_are_nearest(amount: int, weights: list[int]) -> None:
    parts = split(amount, [(weight, f"q{i}") for i, weight in enumerate(weights)])
    assert sum(parts) == amount
    for part, weight in zip(parts, weights, strict=True):
        assert 0 <= part - weight * amount // sum(weights) <= 1


@settings(max_examples=50)
@given(st.integers(0, 120), claims, st.integers(1, 9))
def test_more_weight_never_costs_more_than_rounding(total: int, claims: list[Claim], more: int) -> None:
    heavier = [claims[0]._replace(weight=claims[0].weight + more), *claims[1:]]
    assert shares(total, heavier)[0] >= shares(total, claims)[0] - 1


@settings(max_examples=30)
@given(st.integers(0, 120), claims)
def test_equals_differ_by_one_unit_and_the_first_by_name_gets_it(total: int, claims: list[Claim]) -> None:
    first = claims[0]._replace(name="a")
    given_ = shares(total, [claims[0]._replace(name="b"), first, *claims[1:]])
    assert 0 <= given_[1] - given_[0] <= 1
