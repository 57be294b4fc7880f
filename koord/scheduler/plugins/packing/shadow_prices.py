"""Shadow prices: place a pod where the value of what is left, if filled well, falls least.

    V(node) = min over prices (l, u) of [ l cpuFree + u memoryFree + sum of v_k(free of each device; l, u) ] + B_k
    loss    = V(node) - V(node after the pod)                                           the smallest loss wins

The minimum is the Lagrangian dual of "fill this node within its CPU and memory": every node has its own price of CPU.
B keeps slots together for pods with several GPUs (see `slots`). `Prices` are tables that are made
seldom, from nodes and the mix of pods; `Valuation` keeps the bracket of every row and rewrites a row when it changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from koord.scheduler.plugins.packing.batch import Batch
from koord.scheduler.plugins.packing.cutting_stock import effective_sizes
from koord.scheduler.plugins.packing.fill_values import GRID, LEVELS, fill_values
from koord.scheduler.plugins.packing.group_prices import LOAD, worths
from koord.scheduler.plugins.packing.shapes import STEP, WHOLE, Fleet, Mix, NodeGroup, PodShape, Scores, first_of_equals
from koord.scheduler.plugins.packing.slots import PREMIUM, Slots
from koord.scheduler.state.table import Array

ROUNDING: Final = 1.0
"""Losses that differ by less milli are equal: it hides what floats add up to."""
MOST_BYTES: Final = 1 << 27
"""Of tables that can be made again."""
ROWS_AT_ONCE: Final = 2048
"""A row takes some 6 kB while it is computed or scored: all at once would take 300 MB on a large cluster."""
CPU_PRICE: Final = np.ascontiguousarray(GRID[:, 0])
MEMORY_PRICE: Final = np.ascontiguousarray(GRID[:, 1])
PRICES: Final = np.ascontiguousarray(GRID.T)
MOST_LOSS: Final = 1e9
MOST_SHAPES: Final = 512
MOST_BATCHES: Final = 4
"""Of which tables are kept."""
FEWEST_PLACES: Final = 128
"""More than the devices of all rows that are scored at once differ in."""
TIES: Final = 64
"""More than any node has GPUs: of equal losses, the row with the fewest wholly free devices wins."""


@dataclass(frozen=True, slots=True)
class Prices:
    """The tables. `values`: of a device by group, level and grid point; `slots`: B."""

    values: Array
    slots: Slots


def work_out(
    groups: Sequence[NodeGroup], mix: Mix, idle: Array, premium: float = PREMIUM, load: float = LOAD
) -> Prices:
    """Prices for a mix of pods on nodes. `idle`: by group devices, CPU and memory."""
    shapes = [shape for shape, number in mix.items() if number > 0]
    often = np.array([mix[shape] for shape in shapes], np.float64)
    shares: dict[int, float] = {}
    for shape, number in zip(shapes, often.tolist(), strict=True):
        if shape.gpus == 1:
            shares[shape.gpu_milli] = shares.get(shape.gpu_milli, 0.0) + number
    sizes = effective_sizes(shares)
    takes = np.array([sizes[shape.gpu_milli] if shape.gpus == 1 else float(shape.gpus) for shape in shapes])
    with_gpu = np.array([shape.gpus > 0 for shape in shapes], np.bool_)
    worth = worths(groups, shapes, often, takes, idle, load)
    among = np.where(with_gpu, often, 0.0) / max(float(often[with_gpu].sum()), 1e-12)
    return Prices(fill_values(groups, shapes, among, worth), Slots(groups, mix, premium))


def idle_of(fleet: Fleet) -> Array:
    """By group, the devices, CPU and memory that rows have free."""
    columns = (fleet.devices.sum(axis=1) / WHOLE, fleet.cpu, fleet.memory)
    return np.stack([np.bincount(fleet.group, column, len(fleet.groups)) for column in columns], axis=1)


class _Device(NamedTuple):
    """One of several devices of a row that have equally much left: the first."""

    slot: int
    free: int
    place: int
    "Where its value is."


class Valuation:
    """The value of every row of a fleet at given prices. `losses` is the formula. Other forms of it, of one row, and of
    some rows for many shapes, give the same numbers: tables are in fixed point, so that sums are exact."""

    def __init__(self, fleet: Fleet, prices: Prices) -> None:
        self._fleet, self._slots, self._prices = fleet, prices.slots, prices
        self._values = prices.values.reshape(-1, len(GRID))  # by group * LEVELS + level
        rows = len(fleet.cpu)
        self._brackets = np.zeros((rows, len(GRID)))
        self._value = np.zeros(rows)
        self._whole = np.zeros(rows, np.int64)
        self._distinct: list[tuple[_Device, ...] | None] = [None] * rows
        "Devices that differ in what is left, where that is known."
        self._costs: dict[tuple[int, int], Array] = {}
        self._falls: dict[int, Array] = {}
        self._of_whole: dict[int, Array] = {}
        self._of_shape: dict[PodShape, dict[int, Array]] = {}
        self._tables: dict[Batch, _Tables] = {}
        self._sums: dict[tuple[int, ...], Array] = {}
        "By group and what is left of each device, in order: what the devices are worth together."
        self.refresh(np.arange(rows))

    def over(self, fleet: Fleet) -> Valuation:
        """Other rows of the same groups, at the same prices."""
        return Valuation(fleet, self._prices)

    def refresh(self, rows: Array) -> None:
        """Rows have changed."""
        for start in range(0, len(rows), ROWS_AT_ONCE):
            self._refresh(rows[start : start + ROWS_AT_ONCE])

    def _refresh(self, rows: Array) -> None:
        fleet = self._fleet
        devices = fleet.devices[rows]
        brackets = self._values[fleet.group[rows, np.newaxis] * LEVELS + devices // STEP].sum(axis=1)
        brackets += fleet.cpu[rows, np.newaxis] * CPU_PRICE
        brackets += fleet.memory[rows, np.newaxis] * MEMORY_PRICE
        whole = np.count_nonzero(devices == WHOLE, axis=1)
        self._brackets[rows], self._whole[rows] = brackets, whole
        slots = self._slots.of(fleet.group[rows], whole, fleet.cpu[rows], fleet.memory[rows])
        self._value[rows] = brackets.min(axis=1) + slots
        for row in rows.tolist():
            self._distinct[row] = None

    def refresh_one(self, row: int) -> None:
        """The same for one row, in fewer calls."""
        fleet = self._fleet
        free: list[int] = fleet.devices[row].tolist()
        group: int = fleet.group.item(row)
        cpu, memory = fleet.cpu.item(row), fleet.memory.item(row)
        bracket = self._brackets[row]
        np.add(np.dot((cpu, memory), PRICES), self._sum(group, free), bracket)
        whole = self._whole[row] = free.count(WHOLE)
        self._value[row] = np.minimum.reduce(bracket) + self._slots.of_one(group, whole, cpu, memory)
        self._distinct[row] = None

    def _sum(self, group: int, free: list[int]) -> Array:
        """What devices are worth together, by grid point. Rows whose devices are as full are many."""
        key = (group, *sorted(free))
        sums = self._sums.get(key)
        if sums is None:
            if len(self._sums) * GRID.nbytes >= MOST_BYTES:
                self._sums.clear()
            places = [group * LEVELS + cpu_free // STEP for cpu_free in free]
            sums = self._sums[key] = np.add.reduce(self._values.take(places, axis=0), axis=0)
        return sums

    def losses(self, shape: PodShape, rows: Array) -> tuple[Array, Array]:
        """By how much the value of rows falls with a pod that fits there; and the device of a share, else -1."""
        if shape.is_share:
            return self._share_losses(shape, rows)
        group, whole = self._fleet.group[rows], np.maximum(self._whole[rows] - shape.gpus, 0)
        after = self._brackets[rows] + self.whole_falls(shape.gpus)[group]
        after -= self.cost(shape)
        value = after.min(axis=1) + self._slots_after(shape, rows, whole)
        return self._value[rows] - value, np.full(len(rows), -1)

    def _slots_after(self, shape: PodShape, rows: Array, whole: Array) -> Array:
        """B of rows after a pod of this shape, with `whole` free devices left."""
        fleet = self._fleet
        cpu, memory = fleet.cpu[rows] - shape.cpu_milli, fleet.memory[rows] - shape.memory_mib
        return self._slots.of(fleet.group[rows], whole, cpu, memory)

    def _share_losses(self, shape: PodShape, rows: Array) -> tuple[Array, Array]:
        devices = self._fleet.devices[rows]
        at, device = (first_of_equals(devices) & (devices >= shape.gpu_milli)).nonzero()
        row, free = rows[at], devices[at, device]
        group = self._fleet.group[row]
        after = self._brackets[row] + self._fall(shape.gpu_milli)[group * LEVELS + free // STEP]
        after -= self.cost(shape)
        values = np.full(devices.shape, -np.inf)
        values[at, device] = after.min(axis=1) + self._slots_after(shape, row, self._whole[row] - (free == WHOLE))
        best = values.argmax(axis=1)
        return self._value[rows] - values[np.arange(len(rows)), best], best

    def score(self, shape: PodShape, rows: Array) -> Scores:
        """The smallest loss has the highest score; of equal losses, the fewest wholly free devices."""
        losses, device = self.losses(shape, rows)
        return Scores(_score(losses, self._whole[rows]), device)

    def score_one(self, shape: PodShape, row: int) -> tuple[int, int]:
        """The same of one row that the pod fits on, in fewer calls."""
        fleet, best, device, least = self._fleet, -np.inf, -1, np.minimum.reduce
        group, whole = fleet.group.item(row), self._whole.item(row)
        cpu, memory = fleet.cpu.item(row) - shape.cpu_milli, fleet.memory.item(row) - shape.memory_mib
        slots, most = self._slots.by_whole(group, cpu, memory).item, self._slots.most
        if shape.is_share:
            bracket, milli, falls = self._brackets[row], shape.gpu_milli, self._falls_of(shape)
            for slot, free, place in self._distinct[row] or self._tell_apart(row):
                if free >= milli:
                    fall = falls.get(place)
                    if fall is None:
                        fall = falls[place] = self._fall(milli)[place] - self.cost(shape)
                    value = least(bracket + fall) + slots(min(whole - (free == WHOLE), most))
                    if value > best:
                        best, device = value, slot
        else:
            rest = self._brackets[row] - self.cost(shape)
            if shape.gpus:
                rest += self.whole_falls(shape.gpus)[group]
            best = least(rest) + slots(min(max(whole - shape.gpus, 0), most))
        loss = min(self._value.item(row) - float(best), MOST_LOSS)
        return -(round(loss / ROUNDING) * TIES + whole), device

    def score_many(self, batch: Batch, room: Array, rows: Array) -> Array:
        """The same of some rows and many shapes, 0 where there is no `room`: by row and shape."""
        tables, whole = self._of_batch(batch), self._whole.take(rows)
        # A line for pods that take whole devices or none, and one for each device that differs from those before it.
        lines = []
        for i, row in enumerate(rows.tolist()):
            lines.append((i, -1, WHOLE, -1 - self._fleet.group.item(row)))
            lines += [(i, *device) for device in self._distinct[row] or self._tell_apart(row)]
        of_row, slot, free, place = np.array(lines).T
        is_device = slot >= 0
        fits = free[:, np.newaxis] >= batch.milli
        fits &= is_device[:, np.newaxis] == batch.is_share
        fits &= room.take(of_row, axis=0)
        line, shape = fits.nonzero()
        at = of_row.take(line)
        row = rows.take(at)
        after = tables.falls_at(place.tolist(), line, shape)
        after += self._brackets.take(row, axis=0)
        taken = np.where(is_device.take(line), (free == WHOLE).take(line), batch.gpus.take(shape))
        left = np.maximum(whole.take(at) - taken, 0)
        values = np.full(fits.shape, -np.inf)
        values[line, shape] = _least(after) + self._slots_of(tables, row, shape, left)
        best = np.maximum.reduceat(values, (~is_device).nonzero()[0], axis=0)
        return _score(self._value.take(rows)[:, np.newaxis] - best, whole[:, np.newaxis])

    def by_device(self, shape: PodShape, row: int) -> list[float]:
        """What a row is worth with a share on each of its devices."""
        devices, group = self._fleet.devices[row], self._fleet.group.item(row)
        after = self._brackets[row] + self._fall(shape.gpu_milli)[group * LEVELS + devices // STEP] - self.cost(shape)
        whole = np.maximum(self._whole[row] - (devices == WHOLE), 0)
        values = after.min(axis=1) + self._slots_after(shape, np.full(len(devices), row), whole)
        by_slot: list[float] = np.where(devices >= shape.gpu_milli, values, -np.inf).tolist()
        return by_slot

    def _slots_of(self, tables: _Tables, row: Array, shape: Array, whole: Array) -> Array:
        """B of rows after a pod of each shape, with `whole` free devices left, pair by pair."""
        fleet = self._fleet
        cpu, memory = fleet.cpu.take(row) - tables.cpu.take(shape), fleet.memory.take(row) - tables.memory.take(shape)
        return self._slots.of(fleet.group.take(row), whole, cpu, memory)

    def _tell_apart(self, row: int) -> tuple[_Device, ...]:
        first: dict[int, _Device] = {}
        start = self._fleet.group.item(row) * LEVELS
        for slot, free in enumerate(self._fleet.devices[row].tolist()):
            if free and free not in first:
                first[free] = _Device(slot, free, start + free // STEP)
        distinct = self._distinct[row] = tuple(first.values())
        return distinct

    def _of_batch(self, batch: Batch) -> _Tables:
        tables = self._tables.get(batch)
        if tables is None:
            if len(self._tables) >= MOST_BATCHES:
                self._tables.clear()
            tables = self._tables[batch] = _Tables(batch, self)
        return tables

    def cost(self, shape: PodShape) -> Array:
        """What its CPU and memory cost, by grid point."""
        key = shape.cpu_milli, shape.memory_mib
        cost = self._costs.get(key)
        if cost is None:
            if len(self._costs) * GRID.nbytes >= MOST_BYTES:
                self._costs.clear()
            cost = self._costs[key] = shape.cpu_milli * CPU_PRICE + shape.memory_mib * MEMORY_PRICE
        return cost

    def _falls_of(self, shape: PodShape) -> dict[int, Array]:
        """By place, what a row gains when a pod goes to a device: its CPU and memory included."""
        falls = self._of_shape.get(shape)
        if falls is None:
            if len(self._of_shape) >= MOST_SHAPES:
                self._of_shape.clear()
            falls = self._of_shape[shape] = {}
        return falls

    def whole_falls(self, gpus: int) -> Array:
        """What a row gains, which is never above 0, when whole devices are taken: by group and grid point."""
        falls = self._of_whole.get(gpus)
        if falls is None:
            empty, full = self._values[::LEVELS], self._values[LEVELS - 1 :: LEVELS]
            falls = self._of_whole[gpus] = gpus * (empty - full)
        return falls

    def _fall(self, milli: int) -> Array:
        """The same when a share goes to a device: by place and grid point. Shapes with equal shares have one table in
        common."""
        fall = self._falls.get(milli)
        if fall is None:
            if len(self._falls) * self._values.nbytes >= MOST_BYTES:
                self._falls.clear()
            fall = self._falls[milli] = self.falls_at(np.arange(len(self._values)), -(-milli // STEP))
        return fall

    def falls_at(self, places: Array, widths: Array | int) -> Array:
        """The same for some places, by widths of shares in steps."""
        falls: Array = self._values[places - np.minimum(widths, places % LEVELS)] - self._values[places]
        return falls


class _Tables:
    """Of the shapes of a batch, what does not depend on rows."""

    def __init__(self, batch: Batch, valuation: Valuation) -> None:
        self._valuation = valuation
        self.cpu, self.memory, self._gpus = batch.cpu, batch.memory, batch.gpus
        self._costs: Array = np.array([valuation.cost(shape) for shape in batch.shapes]).reshape(len(batch), len(GRID))
        "By shape and grid point."
        self._widths = -(-batch.milli // STEP)
        self._most = max(FEWEST_PLACES, MOST_BYTES // 4 // max(self._costs.nbytes, 1))
        self._falls: Array = np.zeros((0, len(GRID)))
        "By place and shape, and grid point: places by their numbers in `_numbers`."
        self._numbers: dict[int, int] = {}

    def falls_at(self, places: Sequence[int], line: Array, shape: Array) -> Array:
        """What a row gains by a pod, its CPU and memory included: pair by pair of places (by their line) and shapes,
        and by grid point. A place below 0 is that of a group, for pods that take whole devices or none."""
        numbers = self._numbers
        new = [place for place in dict.fromkeys(places) if place not in numbers]
        if new:
            if len(numbers) + len(new) > self._most:
                numbers.clear()
                new = list(dict.fromkeys(places))
            self._learn(new)
        first = np.array([numbers[place] * len(self._costs) for place in places])
        falls: Array = self._falls.take(first.take(line) + shape, axis=0)
        return falls

    def _learn(self, places: Sequence[int]) -> None:
        shapes, numbers = len(self._costs), self._numbers
        needed = (len(numbers) + len(places)) * shapes
        if needed > len(self._falls):
            wider = np.zeros((2 * needed, len(GRID)))
            wider[: len(numbers) * shapes] = self._falls[: len(numbers) * shapes]
            self._falls = wider
        for place in places:
            start = len(numbers) * shapes
            numbers[place] = len(numbers)
            falls = self._valuation.falls_at(np.full(shapes, place), self._widths) if place >= 0 else self._whole(place)
            np.subtract(falls, self._costs, out=self._falls[start : start + shapes])

    def _whole(self, place: int) -> Array:
        by_gpus = [self._valuation.whole_falls(gpus)[-1 - place] for gpus in self._gpus.tolist()]
        return np.array(by_gpus).reshape(len(by_gpus), len(GRID))


def _least(by_point: Array) -> Array:
    """Of every line the smallest: faster than along an axis."""
    if not len(by_point):
        return np.zeros(0)
    least: Array = np.minimum.reduceat(by_point.ravel(), np.arange(0, by_point.size, by_point.shape[1]))
    return least


def _score(losses: Array, whole: Array) -> Array:
    # A row without room has no loss; a caller that asks for it anyway gets a number.
    rounded = np.rint(np.minimum(losses, MOST_LOSS) / ROUNDING).astype(np.int64)
    return -(rounded * TIES + whole)
