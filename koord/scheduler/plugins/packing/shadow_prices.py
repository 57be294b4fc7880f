"""Shadow prices: place a pod where the value of what is left, if filled well, falls least.

    V(node) = min over prices (l, u) of [ l cpuFree + u memoryFree + sum of v_k(free of each device; l, u) ] + B_k(f)
    loss    = V(node) - V(node after the pod)                                           the smallest loss wins

The minimum is the Lagrangian dual of "fill this node within its CPU and memory": every node has its own price of CPU.
B_k(f) keeps slots together for pods with several GPUs; f counts wholly free devices. `Prices` are tables that are made
seldom, from nodes and the mix of pods; `Valuation` keeps the bracket of every row and rewrites a row when it changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from koord.scheduler.plugins.packing.cutting_stock import effective_sizes
from koord.scheduler.plugins.packing.fill_values import GRID, LEVELS, fill_values
from koord.scheduler.plugins.packing.group_prices import LOAD, worths
from koord.scheduler.plugins.packing.shapes import STEP, WHOLE, Fleet, Mix, NodeGroup, PodShape, Scores, first_of_equals
from koord.scheduler.state.table import Array

PREMIUM: Final = 0.02
"""The planned chance that a pod with several GPUs finds no slot. A higher one hoards whole nodes."""
ROUNDING: Final = 1.0
"""Losses that differ by less milli are equal: it hides what floats add up to."""
MOST_BYTES: Final = 1 << 27
"""Of tables that can be made again."""
ROWS_AT_ONCE: Final = 2048
"""A row takes some 6 kB while it is worked out or scored: all at once would take 300 MB on a large cluster."""
CPU_PRICE: Final = np.ascontiguousarray(GRID[:, 0])
MEMORY_PRICE: Final = np.ascontiguousarray(GRID[:, 1])
TIES: Final = 64
"""More than any node has GPUs: of equal losses, the row with the fewest wholly free devices wins."""


@dataclass(frozen=True, slots=True)
class Prices:
    """The tables. `values`: of a device by group, level and grid point; `slots`: B_k(f) by group and f."""

    values: Array
    slots: Array


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
    takes = np.array([sizes[each.gpu_milli] if each.gpus == 1 else float(each.gpus) for each in shapes])
    with_gpu = np.array([shape.gpus > 0 for shape in shapes], np.bool_)
    worth = worths(groups, shapes, often, takes, idle, load)
    among = np.where(with_gpu, often, 0.0) / max(float(often[with_gpu].sum()), 1e-12)
    return Prices(fill_values(groups, shapes, among, worth), _slots(groups, shapes, often, premium))


def _slots(groups: Sequence[NodeGroup], shapes: Sequence[PodShape], often: Array, premium: float) -> Array:
    """B_k(f) = eta sum_{n >= 2} P_n 1000 n floor(f/n), P_n: the part of all GPU that n-GPU pods ask for."""
    most = max((group.gpus for group in groups), default=0)
    found = np.zeros((len(groups), most + 1))
    free = np.arange(most + 1)
    asked = float(sum(shape.total_milli * number for shape, number in zip(shapes, often.tolist(), strict=True)))
    for k, group in enumerate(groups):
        for shape, number in zip(shapes, often.tolist(), strict=True):
            if shape.gpus >= 2 and group.could_host(shape):
                part = shape.total_milli * number / asked
                found[k] += premium * part * WHOLE * shape.gpus * (free // shape.gpus)
    return found


def idle_of(fleet: Fleet) -> Array:
    """By group, the devices, CPU and memory that rows have free."""
    columns = (fleet.devices.sum(axis=1) / WHOLE, fleet.cpu, fleet.memory)
    return np.stack([np.bincount(fleet.group, column, len(fleet.groups)) for column in columns], axis=1)


class Valuation:
    """The value of every row of a fleet at given prices."""

    def __init__(self, fleet: Fleet, prices: Prices) -> None:
        self._fleet, self._slots, self._prices = fleet, prices.slots, prices
        self._values = prices.values.reshape(-1, len(GRID))  # by group * LEVELS + level
        rows = len(fleet.cpu)
        self._brackets = np.zeros((rows, len(GRID)))
        self._value = np.zeros(rows)
        self._whole = np.zeros(rows, np.int64)
        self._places = np.zeros(fleet.devices.shape, np.int64)
        "Where the value of each device is."
        self._is_first = np.zeros(fleet.devices.shape, np.bool_)
        "Whether no device before it has as much left."
        self._costs: dict[tuple[int, int], Array] = {}
        self._falls: dict[int, Array] = {}
        self._of_whole: dict[int, Array] = {}
        self.refresh(np.arange(rows))

    def over(self, fleet: Fleet) -> Valuation:
        """Other rows of the same groups, at the same prices."""
        return Valuation(fleet, self._prices)

    def refresh(self, rows: Array) -> None:
        """Rows have changed. Every row is worked out from what it has, so the way that led there does not matter."""
        for start in range(0, len(rows), ROWS_AT_ONCE):
            self._refresh(rows[start : start + ROWS_AT_ONCE])

    def _refresh(self, rows: Array) -> None:
        fleet = self._fleet
        devices = fleet.devices[rows]
        places = fleet.group[rows, np.newaxis] * LEVELS + devices // STEP
        brackets = self._values[places].sum(axis=1)
        brackets += fleet.cpu[rows, np.newaxis] * CPU_PRICE
        brackets += fleet.memory[rows, np.newaxis] * MEMORY_PRICE
        whole = np.count_nonzero(devices == WHOLE, axis=1)
        self._places[rows], self._brackets[rows], self._whole[rows] = places, brackets, whole
        self._value[rows] = brackets.min(axis=1) + self._slots[fleet.group[rows], whole]
        self._is_first[rows] = first_of_equals(devices)

    def refresh_one(self, row: int) -> None:
        """The same for one row, in fewer calls."""
        fleet = self._fleet
        free: list[int] = fleet.devices[row].tolist()
        group: int = fleet.group.item(row)
        places = [group * LEVELS + each // STEP for each in free]
        bracket = self._brackets[row]
        self._values[places].sum(axis=0, out=bracket)
        bracket += fleet.cpu.item(row) * CPU_PRICE
        bracket += fleet.memory.item(row) * MEMORY_PRICE
        whole = free.count(WHOLE)
        self._places[row], self._whole[row] = places, whole
        self._value[row] = bracket.min() + self._slots.item(group, whole)
        self._is_first[row] = [free.index(each) == j for j, each in enumerate(free)]

    def losses(self, shape: PodShape, rows: Array) -> tuple[Array, Array]:
        """By how much the value of rows falls with a pod that fits there; and the device of a share, else -1."""
        if shape.is_share:
            return self._share_losses(shape, rows)
        after = self._brackets[rows] - self._cost(shape)
        group, whole = self._fleet.group[rows], self._whole[rows]
        if shape.gpus:
            after += self._whole_falls(shape.gpus)[group]
            whole = np.maximum(whole - shape.gpus, 0)
        value = after.min(axis=1) + self._slots[group, whole]
        return self._value[rows] - value, np.full(len(rows), -1)

    def by_device(self, shape: PodShape, row: int) -> list[float]:
        """What a row is worth with a share on each of its devices."""
        devices = self._fleet.devices[row]
        after = self._brackets[row] + self._fall(shape.gpu_milli)[self._places[row]] - self._cost(shape)
        whole = np.maximum(self._whole[row] - (devices == WHOLE), 0)
        values = after.min(axis=1) + self._slots[self._fleet.group[row], whole]
        found: list[float] = np.where(devices >= shape.gpu_milli, values, -np.inf).tolist()
        return found

    def _share_losses(self, shape: PodShape, rows: Array) -> tuple[Array, Array]:
        fits = self._is_first[rows] & (self._fleet.devices[rows] >= shape.gpu_milli)
        at, device = fits.nonzero()
        row = rows[at]
        place = self._places[row, device]
        after = self._brackets[row] + self._fall(shape.gpu_milli)[place]
        after -= self._cost(shape)
        whole = self._whole[row] - (self._fleet.devices[row, device] == WHOLE)
        values = np.full(fits.shape, -np.inf)
        values[at, device] = after.min(axis=1) + self._slots[self._fleet.group[row], whole]
        best = values.argmax(axis=1)
        return self._value[rows] - values[np.arange(len(rows)), best], best

    def score(self, shape: PodShape, rows: Array) -> Scores:
        """The smallest loss has the highest score; of equal losses, the fewest wholly free devices."""
        losses, device = self.losses(shape, rows)
        # A row without room has no loss; whoever asks for it anyway gets a number.
        rounded = np.rint(np.minimum(losses, 1e9) / ROUNDING).astype(np.int64)
        return Scores(-(rounded * TIES + self._whole[rows]), device)

    def _cost(self, shape: PodShape) -> Array:
        """What its CPU and memory cost, by grid point."""
        key = shape.cpu_milli, shape.memory_mib
        found = self._costs.get(key)
        if found is None:
            found = self._costs[key] = shape.cpu_milli * CPU_PRICE + shape.memory_mib * MEMORY_PRICE
        return found

    def _whole_falls(self, gpus: int) -> Array:
        """The same for whole devices: by group and grid point."""
        found = self._of_whole.get(gpus)
        if found is None:
            empty, full = self._values[::LEVELS], self._values[LEVELS - 1 :: LEVELS]
            found = self._of_whole[gpus] = gpus * (empty - full)
        return found

    def _fall(self, milli: int) -> Array:
        """What a device gains, which is never above 0, when a share goes there: by place and grid point. Shapes with
        equal shares have one table in common."""
        found = self._falls.get(milli)
        if found is None:
            if len(self._falls) * self._values.nbytes >= MOST_BYTES:
                self._falls.clear()
            width = -(-milli // STEP)
            level = np.arange(len(self._values)) % LEVELS
            left = np.arange(len(self._values)) - np.minimum(width, level)
            found = self._falls[milli] = self._values[left] - self._values
        return found
