"""The policies that packing is compared with, as the FGD paper compares them: none of them looks at the mix of pods.

Each gives rows whole scores for a pod that fits there, and the device of a share. The formulas are those of the paper's
simulator: c and m are the pod's CPU and GPU, `left` is what the node has free.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final, TypeAlias

import numpy as np

from koord.scheduler.plugins.packing.shapes import WHOLE, Fleet, PodShape, Scores
from koord.scheduler.state.table import Array

MOST_CPU: Final = 128_000
MOST_GPU: Final = 8_000
_KINDS: Final = 10
"""Kinds of pods by their GPUs: none, 1 to 8, or a share."""
_SHARE: Final = 9


class Baseline:
    """One of these policies, on the rows of a fleet."""

    def __init__(self, fleet: Fleet, formula: Formula) -> None:
        self._fleet, self._formula = fleet, formula
        self._capacity = fleet.devices.sum(axis=1)
        self.kinds: Array = np.zeros((len(fleet.cpu), _KINDS), np.int64)
        "How many pods of each kind a row has."

    def came(self, shape: PodShape, row: int) -> None:
        """A pod came to a row."""
        self.kinds[row, _kind(shape)] += 1

    def score(self, shape: PodShape, rows: Array) -> Scores:
        devices = self._fleet.devices[rows]
        if shape.is_share:
            device = np.where(devices >= shape.gpu_milli, devices, 2 * WHOLE).argmin(axis=1)
        else:
            device = np.full(len(rows), -1)
        return Scores(self._formula(self, shape, rows, device), device)

    def best_fit(self, shape: PodShape, rows: Array, device: Array) -> Array:
        cpu = (self._fleet.cpu[rows] - shape.cpu_milli) / MOST_CPU
        gpu = (self._fleet.devices[rows].sum(axis=1) - shape.total_milli) / MOST_GPU
        return _floor(100 * (1 - 0.5 * cpu - 0.5 * gpu))

    def dot_product(self, shape: PodShape, rows: Array, device: Array) -> Array:
        cpu = self._fleet.cpu[rows] / MOST_CPU * (shape.cpu_milli / MOST_CPU)
        gpu = self._fleet.devices[rows].sum(axis=1) / MOST_GPU * (shape.total_milli / MOST_GPU)
        return _floor(100 * (1 - (cpu + gpu) / 2))

    def gpu_packing(self, shape: PodShape, rows: Array, device: Array) -> Array:
        if not shape.gpus:
            return np.zeros(len(rows), np.int64)
        devices = self._fleet.devices[rows]
        capacity = self._capacity[rows]
        if shape.is_share:
            left = devices[np.arange(len(rows)), device]
            fresh = (left == WHOLE) * 1
            used = np.maximum(100 - left * 100 // WHOLE // 10, 50)
        else:
            fresh, used = np.full(len(rows), shape.gpus), np.zeros(len(rows), np.int64)
        idle = devices.sum(axis=1) == capacity
        gpus = capacity // WHOLE
        packed = np.where(fresh > 0, np.maximum(50 - fresh, 33), used)
        scores: Array = np.where(idle, np.maximum(33 - gpus, gpus), packed)
        return scores

    def gpu_clustering(self, shape: PodShape, rows: Array, device: Array) -> Array:
        if not shape.gpus:
            return np.zeros(len(rows), np.int64)
        kinds = self.kinds[rows]
        here, others = kinds[:, _kind(shape)] > 0, np.count_nonzero(kinds[:, 1:], axis=1)
        among = np.where(here & (others == 1), 75, np.where(here, 50, np.where(others == 0, 25, 0)))
        used = _floor(25 * (MOST_GPU - self._fleet.devices[rows].sum(axis=1)) / MOST_GPU)
        scores: Array = among + used
        return scores


class AtRandom:
    """A row at random, and a device that fits."""

    def __init__(self, fleet: Fleet, rng: random.Random) -> None:
        self._fleet, self._rng = fleet, rng

    def choose(self, shape: PodShape, fitting: Array) -> tuple[int, int]:
        row = int(fitting[self._rng.randrange(len(fitting))])
        if not shape.is_share:
            return row, -1
        devices = (self._fleet.devices[row] >= shape.gpu_milli).nonzero()[0]
        return row, int(devices[self._rng.randrange(len(devices))])


Formula: TypeAlias = Callable[[Baseline, PodShape, Array, Array], Array]

BASELINES: Final[dict[str, Formula]] = {
    "DotProd": Baseline.dot_product,
    "GpuClustering": Baseline.gpu_clustering,
    "GpuPacking": Baseline.gpu_packing,
    "BestFit": Baseline.best_fit,
}


def _kind(shape: PodShape) -> int:
    return _SHARE if shape.is_share else shape.gpus


def _floor(numbers: Array) -> Array:
    floors: Array = np.floor(numbers).astype(np.int64)
    return floors
