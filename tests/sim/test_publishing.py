"""The manager's rules of writing on columns: as `koord.manager` decides about each node."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from koord.manager.node_resource.writing import is_beyond, is_room_beyond
from koord.sim.policies.policy import Lent
from koord.sim.publishing import Gates, due, figures_of, nothing_published

GATES = Gates(np.array([0.1]), np.array([300.0]), np.array([15.0]))
MILLI = st.integers(1, 200_000)


def is_due(published: int, wanted: int, room: int | None) -> bool:
    """Whether a node is written that showed a figure a minute ago."""
    remembered = nothing_published(1)
    remembered.cpu_milli[0], remembered.memory_bytes[0], remembered.written_s[0] = published, 1 << 30, 0.0
    remembered.wanted = figures_of(
        Lent(
            np.array([float(wanted)]),
            np.array([float(1 << 30)]),
            room_milli=None if room is None else np.array([float(room)]),
        ),
        1,
    )
    remembered.firm_milli[0], remembered.firm_bytes[0] = remembered.wanted.firm_milli[0], 1 << 30
    return bool(due(remembered, np.array([wanted]), np.array([1 << 30]), 60.0, GATES)[0])


@given(MILLI, MILLI)
@example(10_000, 11_000)
@example(10_000, 11_001)
def test_a_figure_is_written_where_it_differs_by_more_than_the_threshold(published: int, wanted: int) -> None:
    assert is_due(published, wanted, None) == is_beyond(published, wanted, 0.1)


@given(MILLI, MILLI, MILLI)
@example(100_000, 101_000, 4_000)
@example(100_000, 103_000, 4_000)
@example(100_000, 97_000, 0)
def test_a_figure_of_requests_and_room_is_judged_by_its_room(published: int, wanted: int, room: int) -> None:
    room = min(room, wanted)
    assert is_due(published, wanted, room) == is_room_beyond(published, wanted, room, 0.1)
