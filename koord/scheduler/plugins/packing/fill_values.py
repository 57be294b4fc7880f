"""What a device with some GPU left is worth, if filled well, at given prices of the CPU and memory of its node.

    v_k(r; l,u) = tau ln(1 + sum_{one-GPU t, g_t <= r} p_t exp((w_t - l c_t - u m_t + v_k(r - g_t; l,u)) / tau))

A knapsack with a soft maximum: r is what is left, in steps of 10 milli, p_t how often shape t comes among GPU pods,
w_t what it is worth. Made once for a group k of equal nodes and all prices (l, u) of a grid.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from koord.scheduler.plugins.packing.shapes import STEP, WHOLE, NodeGroup, PodShape
from koord.scheduler.state.table import Array

TAU_V: Final = 10.0
"""1 % of a device: enough to prefer a flexible whole device to a gap of equal value."""
LEVELS: Final = WHOLE // STEP + 1
FINE: Final = 2.0**30
ROUGH: Final = 2.0**20
"""Prices and values are whole multiples of 1 / FINE and 1 / ROUGH: what a row adds up to is exact in any order."""
CPU_PRICES: Final = np.rint(np.concatenate([[0.0], 0.006 * 1.5 ** np.arange(12)]) * FINE) / FINE
MEMORY_PRICES: Final = np.rint(np.concatenate([[0.0], 0.0015 * 1.8 ** np.arange(6)]) * FINE) / FINE
GRID: Final = np.stack(np.meshgrid(CPU_PRICES, MEMORY_PRICES, indexing="ij"), axis=-1).reshape(-1, 2)
"""GPU milli for a milli-core and for a MiB: from free to dearer than any pod can pay."""


def fill_values(groups: Sequence[NodeGroup], shapes: Sequence[PodShape], often: Array, worth: Array) -> Array:
    """By group, what is left of a device in steps, and point of the grid. `often` sums to 1 over GPU pods."""
    values = np.zeros((len(groups), LEVELS, len(GRID)))
    cpu = np.array([shape.cpu_milli for shape in shapes], np.float64)
    memory = np.array([shape.memory_mib for shape in shapes], np.float64)
    # What shape t gives beside what is left after it, by shape and grid point.
    alone = (worth[:, np.newaxis] - np.outer(cpu, GRID[:, 0]) - np.outer(memory, GRID[:, 1])) / TAU_V
    logs = np.log(np.maximum(often, 1e-300))[:, np.newaxis]
    widths = np.array([-(-shape.gpu_milli // STEP) for shape in shapes], np.int64)
    filled: dict[bytes, Array] = {}
    for k, group in enumerate(groups):
        hosted = np.array([shape.gpus == 1 and group.could_host(shape) for shape in shapes], np.bool_) & (often > 0)
        key = hosted.tobytes()
        if key not in filled:
            filled[key] = _fill(widths[hosted], (alone + logs)[hosted])
        values[k] = filled[key]
    return np.rint(values * ROUGH) / ROUGH


def _fill(widths: Array, gains: Array) -> Array:
    """The table of one group. Shapes of one width count together: ln of the sum of their exponentials."""
    values = np.zeros((LEVELS, len(GRID)))
    if not len(widths):
        return values
    distinct = np.unique(widths)
    together = np.stack([_log_sum(gains[widths == width]) for width in distinct])
    for room in range(1, LEVELS):
        fitting = distinct <= room
        if not fitting.any():
            continue
        inside = together[fitting] + values[room - distinct[fitting]] / TAU_V
        most = np.maximum(inside.max(axis=0), 0.0)
        values[room] = TAU_V * (most + np.log(np.exp(-most) + np.exp(inside - most).sum(axis=0)))
    return values


def _log_sum(exponents: Array) -> Array:
    most = exponents.max(axis=0)
    log_sum: Array = most + np.log(np.exp(exponents - most).sum(axis=0))
    return log_sum
