"""Shadow prices: tables that can be worked out by hand, and rows that are rewritten as if made again."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from koord.scheduler.plugins.packing.batch import Batch
from koord.scheduler.plugins.packing.cutting_stock import device_duals, effective_sizes
from koord.scheduler.plugins.packing.fill_values import (
    CPU_PRICES,
    FINE,
    GRID,
    LEVELS,
    MEMORY_PRICES,
    TAU_V,
    fill_values,
)
from koord.scheduler.plugins.packing.group_prices import Market
from koord.scheduler.plugins.packing.shadow_prices import Prices, Valuation, idle_of, work_out
from koord.scheduler.plugins.packing.shapes import Fleet, NodeGroup, PodShape
from koord.scheduler.plugins.packing.slots import ALL_RARE, PREMIUM, RARE, Slots

A100 = NodeGroup("A100", 2, 32_000, 65_536)
T4 = NodeGroup("T4", 2, 32_000, 65_536)
KINDS = ((0, 0), (1, 170), (1, 330), (1, 500), (1, 810), (1, 1000), (2, 1000), (4, 1000), (2, 500))
"""GPUs, and the milli of each."""


def fleet(*groups: NodeGroup, each: int = 2) -> Fleet:
    nodes = [k for k in range(len(groups)) for _ in range(each)]
    most = max(group.gpus for group in groups)
    devices = np.array([[1000] * groups[k].gpus + [0] * (most - groups[k].gpus) for k in nodes])
    cpu, memory = (np.array([groups[k][i] for k in nodes]) for i in (2, 3))
    return Fleet(groups, np.array(nodes), cpu, memory, devices)


@pytest.mark.parametrize(
    ("demand", "sizes"),
    [
        ({50: 1.0}, {50: 1 / 2}),
        ({81: 1.0}, {81: 1.0}),  # nothing that comes fits beside it
        ({33: 1.0}, {33: 1 / 3}),  # three on a device, and 10 milli are lost
        ({81: 1.0, 19: 2.0}, {81: 4 / 5, 19: 1 / 5}),  # five 190 have a device of their own, one is beside an 810
        ({81: 2.0, 19: 1.0}, {81: 1.0, 19: 0.0}),  # every 190 finds a gap: it is free
    ],
)
def test_a_share_takes_what_the_best_cut_of_devices_makes_it_take(
    demand: dict[int, float], sizes: dict[int, float]
) -> None:
    found = dict(zip(demand, device_duals(list(demand), list(demand.values())).tolist(), strict=True))
    assert found == pytest.approx(sizes)


def test_a_size_is_mostly_the_dual_and_a_little_the_share_itself() -> None:
    assert effective_sizes({330: 5.0, 1000: 2.0}) == pytest.approx({330: 0.9 / 3 + 0.1 * 0.33, 1000: 1.0})


def test_a_device_is_worth_the_shares_that_fill_it() -> None:
    half = PodShape(1000, 0, 1, 500)
    values = fill_values([A100], [half], np.array([1.0]), np.array([400.0]))[0]
    free = 0  # the grid's first point: CPU and memory cost nothing
    once = TAU_V * math.log(1 + math.exp(400 / TAU_V))
    assert values[49, free] == 0
    assert values[50, free] == pytest.approx(once)
    assert values[100, free] == pytest.approx(TAU_V * math.log(1 + math.exp((400 + once) / TAU_V)))
    priced = len(MEMORY_PRICES)  # the first point with a price of CPU
    assert GRID[priced].tolist() == [CPU_PRICES[1], 0.0]
    assert values[50, priced] == pytest.approx(TAU_V * math.log(1 + math.exp((400 - 1000 * CPU_PRICES[1]) / TAU_V)))


def test_a_shape_that_no_group_can_host_is_worth_nothing_and_fills_nothing() -> None:
    giant = PodShape(64_000, 0, 1, 1000)
    market = Market([A100], [giant], np.array([10.0]), np.array([1.0]), np.array([[2.0, 32_000.0, 65_536.0]]))
    assert market.worths().tolist() == [0.0]
    assert not fill_values([A100], [giant], np.array([1.0]), np.array([1000.0])).any()


def test_prices_are_where_the_slope_is_flat_or_the_price_is_nothing() -> None:
    shapes = [PodShape(8000, 8192, 1, 1000, frozenset({"A100"})), PodShape(4000, 8192, 1, 500)]
    idle = np.array([[4.0, 64_000.0, 131_072.0], [4.0, 64_000.0, 131_072.0]])
    market = Market([A100, T4], shapes, np.array([5.0, 9.0]), np.array([1.0, 0.5]), idle)
    prices = market.prices(30.0)
    gradient, _ = market.slopes(prices, 30.0)
    assert (prices >= 0).all()
    for price, slope in zip(prices.tolist(), gradient.tolist(), strict=True):
        assert abs(slope) < 1e-3 if price > 1e-6 else slope > -1e-3


def test_what_only_a_scarce_model_can_host_makes_that_model_dear() -> None:
    rows = fleet(A100, T4)
    mix = {PodShape(4000, 8192, 1, 1000, frozenset({"A100"})): 5.0, PodShape(4000, 8192, 1, 1000): 5.0}
    losses, _ = Valuation(rows, work_out([A100, T4], mix, idle_of(rows))).losses(
        PodShape(4000, 8192, 1, 1000), np.arange(4)
    )
    assert max(losses[2:]) < min(losses[:2])


def test_a_share_goes_where_it_leaves_no_gap() -> None:
    rows = fleet(A100, each=2)
    rows.devices[0] = [500, 1000]
    mix = {PodShape(1000, 1024, 1, 500): 5.0, PodShape(2000, 1024, 1, 1000): 5.0}
    losses, device = Valuation(rows, work_out([A100], mix, idle_of(rows))).losses(
        PodShape(1000, 1024, 1, 500), np.arange(2)
    )
    assert losses[0] < losses[1]
    assert device[0] == 0


def test_a_node_whose_gpus_need_its_cpu_is_not_given_to_pods_without_gpus() -> None:
    rows = fleet(A100, T4, each=1)
    rows.cpu[:] = [8000, 32_000]
    mix = {PodShape(4000, 1024, 1, 1000): 9.0, PodShape(2000, 1024): 1.0}
    losses, _ = Valuation(rows, work_out([A100, T4], mix, idle_of(rows))).losses(PodShape(2000, 1024), np.arange(2))
    assert losses[1] < 1 < losses[0]


def test_slots_for_pods_with_several_gpus_are_worth_a_premium() -> None:
    mix = {PodShape(1000, 1024, 2, 1000): 1.0, PodShape(1000, 1024, 1, 1000): 2.0}
    slots = work_out([A100], mix, np.array([[2.0, 32_000.0, 65_536.0]])).slots
    worth = [slots.of_one(0, whole, 32_000, 65_536) for whole in range(3)]
    assert worth == [0.0, 0.0, pytest.approx(PREMIUM * 0.5 * 1000 * 2)]


@pytest.mark.parametrize(
    ("whole", "cpu", "memory", "number"),
    [
        (8, 128_000, 786_432, 2),
        (8, 91_000, 786_432, 1),  # CPU for one of them
        (8, 128_000, 393_216, 1),  # memory for one
        (8, 40_000, 786_432, 0),
        (7, 128_000, 786_432, 1),  # devices for one
        (9, 999_000, 786_432, 2),  # a node that is larger than those of its group counts as one of them
    ],
)
def test_a_slot_is_one_only_with_the_cpu_and_memory_that_its_pods_need(
    whole: int, cpu: int, memory: int, number: int
) -> None:
    group, shape = NodeGroup("A100", 8, 128_000, 786_432), PodShape(46_000, 300_000, 4, 1000)
    slots = Slots([group], {shape: 1.0})
    assert slots.of_one(0, whole, cpu, memory) == pytest.approx(number * PREMIUM * 4000)
    together = slots.of(*(np.array([each]) for each in (0, whole, cpu, memory)))
    assert together.tolist() == [slots.of_one(0, whole, cpu, memory)]


def test_a_large_shape_that_seldom_comes_is_left_a_slot_all_the_same() -> None:
    group = NodeGroup("A100", 8, 128_000, 786_432)
    giant, small = PodShape(120_000, 700_000, 8, 1000), PodShape(4000, 8192, 1, 1000)
    worth = Slots([group], {giant: 0.0001, small: 1.0}).of_one(0, 8, 128_000, 786_432)
    assert worth == pytest.approx(PREMIUM * RARE * 8000)
    # All rare shapes together, however many, count as at most a quarter of all pods.
    many = {PodShape(120_000, 700_000 - i, 8, 1000): 1e-9 for i in range(500)}
    worth = Slots([group], {**many, small: 1.0}).of_one(0, 8, 128_000, 786_432)
    assert worth == pytest.approx(PREMIUM * ALL_RARE * 8000)


def random_rows(rng: random.Random, *, nodes: int = 12) -> tuple[Fleet, list[PodShape]]:
    """Nodes of two groups that are filled at random, and shapes of all kinds."""
    rows = fleet(A100._replace(gpus=4), T4, each=nodes // 2)
    for row in range(nodes):
        change(rows, row, rng)
    shapes = [
        PodShape(rng.randrange(100, 20_000), rng.randrange(30_000), *rng.choice(KINDS))
        for _ in range(rng.randrange(3, 30))
    ]
    return rows, shapes


def change(rows: Fleet, row: int, rng: random.Random) -> None:
    for device in range(rows.groups[rows.group[row]].gpus):
        rows.devices[row, device] = rng.choice([0, 170, 190, 340, 500, 670, 1000, 1000])
    rows.cpu[row], rows.memory[row] = rng.randrange(32_000), rng.randrange(65_536)


@pytest.mark.parametrize("seed", range(12))
def test_one_row_and_many_shapes_together_are_scored_as_the_formula_says(seed: int) -> None:
    rng = random.Random(seed)
    rows, shapes = random_rows(rng)
    valuation = Valuation(rows, work_out(rows.groups, dict.fromkeys(shapes, 1.0), idle_of(fleet(*rows.groups))))
    for _ in range(6):
        row = rng.randrange(12)
        change(rows, row, rng)
        valuation.refresh_one(row)
    batch, some = Batch(shapes), np.array(sorted(rng.sample(range(12), 5)))
    room = batch.room(rows.cpu[some], rows.devices[some])
    together = valuation.score_many(batch, room, some)
    anew, compared = Valuation(rows, Prices(valuation._values.reshape(2, LEVELS, -1), valuation._slots)), 0
    for i, shape in enumerate(shapes):
        could = (rows.cpu >= shape.cpu_milli) & ((rows.devices >= shape.gpu_milli).sum(axis=1) >= shape.gpus)
        assert room[:, i].tolist() == could[some].tolist()
        fitting = could.nonzero()[0]
        plain = anew.score(shape, fitting)
        by_row = dict(zip(fitting.tolist(), zip(*(each.tolist() for each in plain), strict=True), strict=True))
        assert {row: valuation.score_one(shape, row) for row in by_row} == by_row
        for j, row in enumerate(some.tolist()):
            if row in by_row:
                compared += 1
                assert together[j, i] == by_row[row][0]
                if shape.is_share:
                    values = valuation.by_device(shape, row)
                    assert values.index(max(values)) == by_row[row][1]
    assert compared


def test_values_add_up_exactly_in_any_order() -> None:
    rows, shapes = random_rows(random.Random(3))
    values = work_out(rows.groups, dict.fromkeys(shapes, 1.0), idle_of(fleet(*rows.groups))).values
    for table in (values, GRID[:, 0] * 128_000, GRID[:, 1] * (1 << 20)):
        assert (np.rint(table * FINE) == table * FINE).all()


def test_rows_that_changed_one_by_one_are_as_if_made_anew() -> None:
    rng = random.Random(1)
    rows = fleet(A100, T4, each=5)
    shapes = [
        PodShape(1000, 1024, 1, 330),
        PodShape(3000, 4096, 1, 1000),
        PodShape(2000, 512, 2, 1000),
        PodShape(900, 0),
    ]
    prices = work_out([A100, T4], dict.fromkeys(shapes, 1.0), idle_of(rows))
    kept = Valuation(rows, prices)
    for _ in range(60):
        row, device = rng.randrange(10), rng.randrange(2)
        rows.devices[row, device] = rng.choice([0, 170, 340, 670, 1000])
        rows.cpu[row], rows.memory[row] = rng.randrange(32_000), rng.randrange(65_536)
        kept.refresh_one(row)
    anew = Valuation(rows, prices)
    for shape in shapes:
        fitting = rows.fits(shape, slice(None)).nonzero()[0]
        for one, other in zip(kept.losses(shape, fitting), anew.losses(shape, fitting), strict=True):
            assert one.tobytes() == other.tobytes()
