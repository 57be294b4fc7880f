"""FGD: fragments by hand, and the score that follows."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from koord.scheduler.plugins.packing.fragmentation import Fragmentation, typical
from koord.scheduler.plugins.packing.shapes import Fleet, NodeGroup, PodShape

WHOLE = PodShape(4000, 0, 1, 1000)
HALF = PodShape(2000, 0, 1, 500)
CPU_ONLY = PodShape(1000, 0)


def one_node(*devices: int, cpu: int = 32_000) -> Fleet:
    group = NodeGroup("T4", len(devices), 32_000, 65_536)
    return Fleet([group], np.array([0]), np.array([cpu]), np.array([65_536]), np.array([devices]))


@pytest.mark.parametrize(
    ("fleet", "mix", "fragments"),
    [
        (one_node(1000, 400), {WHOLE: 1.0}, 400),  # too small for a whole device
        (one_node(1000, 400), {HALF: 1.0}, 400),
        (one_node(500, 500), {WHOLE: 1.0}, 1000),  # no device fits: all of it
        (one_node(500, 500), {HALF: 1.0}, 0),
        (one_node(1000, 1000, cpu=3000), {WHOLE: 1.0}, 2000),  # no CPU for it
        (one_node(1000, 1000), {CPU_ONLY: 1.0}, 2000),  # no use for a GPU at all
        (one_node(1000, 1000), {WHOLE._replace(models=frozenset({"A100"})): 1.0}, 2000),
        (one_node(1000, 400), {WHOLE: 0.5, HALF: 0.25, CPU_ONLY: 0.25}, 0.75 * 400 + 0.25 * 1400),
    ],
)
def test_what_shapes_cannot_use_is_a_fragment(fleet: Fleet, mix: dict[PodShape, float], fragments: float) -> None:
    assert Fragmentation(fleet, mix).fragments(np.array([0])).item() == pytest.approx(fragments)


def test_the_score_is_the_fall_of_fragments() -> None:
    scores = Fragmentation(one_node(1000, 500), {WHOLE: 0.5, HALF: 0.5}).score(HALF, np.array([0]))
    # On the whole device: from 250 to 1000 * 0.5 = 500. On the half: from 250 to 0.
    assert scores.device.item() == 1
    assert scores.score.item() == math.floor(100 / (1 + math.exp(-250 / 1000)))


def test_typical_shapes_cover_95_percent_whatever_their_memory() -> None:
    mix = {HALF: 50.0, HALF._replace(memory_mib=9): 20.0, WHOLE: 26.0, CPU_ONLY: 4.0}
    assert typical(mix) == {HALF: 70 / 96, WHOLE: 26 / 96}


def test_rows_that_changed_one_by_one_are_as_if_made_anew() -> None:
    rng = random.Random(2)
    group = NodeGroup("T4", 3, 32_000, 65_536)
    fleet = Fleet([group], np.zeros(6, np.int64), np.full(6, 32_000), np.full(6, 65_536), np.full((6, 3), 1000))
    mix = {WHOLE: 0.4, HALF: 0.3, PodShape(3000, 0, 2, 1000): 0.2, CPU_ONLY: 0.1}
    kept = Fragmentation(fleet, mix)
    for _ in range(40):
        row = rng.randrange(6)
        fleet.devices[row, rng.randrange(3)] = rng.choice([0, 200, 500, 700, 1000])
        fleet.cpu[row] = rng.randrange(32_000)
        kept.refresh_one(row)
    anew = Fragmentation(fleet, mix)
    for shape in mix:
        fitting = fleet.fits(shape, slice(None)).nonzero()[0]
        for one, other in zip(kept.score(shape, fitting), anew.score(shape, fitting), strict=True):
            assert one.tobytes() == other.tobytes()
