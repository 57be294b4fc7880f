"""The front: no other setting does as much work with as few violations."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from koord.sim.pareto import Point, front

POINTS = st.lists(st.tuples(st.integers(0, 5).map(float), st.integers(0, 5).map(float)), max_size=12)


def test_a_front_by_hand() -> None:
    #          little work  dominated   more work  as much work, more violations
    points = [(10.0, 0.0), (9.0, 0.1), (20.0, 0.5), (20.0, 0.7)]
    assert front(points) == (0, 2)


def test_equal_settings_are_both_on_the_front() -> None:
    assert front([(1.0, 1.0), (1.0, 1.0)]) == (0, 1)


def test_nothing_has_no_front() -> None:
    assert front([]) == ()


def beats(one: Point, other: Point) -> bool:
    return one != other and one[0] >= other[0] and one[1] <= other[1]


@given(POINTS)
def test_a_point_is_on_the_front_exactly_if_no_point_beats_it(points: list[Point]) -> None:
    unbeaten = {i for i, point in enumerate(points) if not any(beats(other, point) for other in points)}
    assert set(front(points)) == unbeaten
