"""Fragmentation gradient descent (FGD, ATC'23): place a pod where the least idle GPU becomes useless to the mix.

    F(node) = sum over typical shapes m of p_m f_m
    f_m     = all idle GPU of the node, where a pod of shape m does not fit there, or has no GPU;
              else what devices have left that are too small for m
    score   = floor(100 sigmoid((F(node) - F(node after the pod)) / 1000))

Scores are coarse on purpose: many nodes tie, and the first of them is filled up before the next one is used.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from koord.scheduler.plugins.packing.shapes import WHOLE, Fleet, Mix, PodShape, Scores, allowed, first_of_equals
from koord.scheduler.state.table import Array

TYPICAL: Final = 0.95
"""Shapes count, the most frequent first, until they cover this part of all pods."""


def typical(mix: Mix) -> dict[PodShape, float]:
    """The most frequent shapes, whatever their memory, and how often they come among themselves."""
    merged: dict[PodShape, float] = {}
    for shape, number in mix.items():
        key = shape._replace(memory_mib=0)
        merged[key] = merged.get(key, 0.0) + number
    total, covered, often = sum(merged.values()), 0.0, dict[PodShape, float]()
    for shape, number in sorted(merged.items(), key=lambda shape_share: (-shape_share[1], _order(shape_share[0]))):
        often[shape] = number
        covered += number
        if covered >= TYPICAL * total:
            break
    return {shape: number / covered for shape, number in often.items()}


def _order(shape: PodShape) -> tuple[object, ...]:
    return shape.cpu_milli, shape.gpus, shape.gpu_milli, sorted(shape.models)


class Fragmentation:
    """Scores of rows of a fleet for typical shapes. Rows are counted once when they change, for all pods."""

    def __init__(self, fleet: Fleet, shapes: Mix) -> None:
        self._fleet, self._shapes = fleet, shapes
        self._often = np.array(list(shapes.values()), np.float64)
        self._cpu = np.array([shape.cpu_milli for shape in shapes], np.int64)
        self._gpus = np.array([shape.gpus for shape in shapes], np.int64)
        milli = np.array([shape.gpu_milli for shape in shapes], np.int64)
        self._allowed = np.stack([allowed(shape, fleet.groups) for shape in shapes], axis=1) & (self._gpus > 0)
        "By group and typical shape."
        left = np.arange(WHOLE + 1)[:, np.newaxis]
        self._fits = (left >= milli).astype(np.int64)
        "By what a device has left, and typical shape."
        self._useful = left * self._fits
        rows, number = len(fleet.cpu), len(shapes)
        self._fitting = np.zeros((rows, number), np.int64)
        "By row and typical shape, how many devices fit; and what these have left together."
        self._usable = np.zeros((rows, number), np.int64)
        self._idle = np.zeros(rows, np.int64)
        self._fragments = np.zeros(rows)
        self._is_first = np.zeros(fleet.devices.shape, np.bool_)
        self.refresh(np.arange(rows))

    def over(self, fleet: Fleet) -> Fragmentation:
        """Other rows, for the same shapes."""
        return Fragmentation(fleet, self._shapes)

    def refresh(self, rows: Array) -> None:
        """Rows have changed."""
        fleet = self._fleet
        devices = fleet.devices[rows]
        fitting, usable = self._fits[devices[:, 0]], self._useful[devices[:, 0]]
        for j in range(1, devices.shape[1]):
            fitting, usable = fitting + self._fits[devices[:, j]], usable + self._useful[devices[:, j]]
        idle = devices.sum(axis=1)
        self._fitting[rows], self._usable[rows], self._idle[rows] = fitting, usable, idle
        self._fragments[rows] = self._sum(idle, fitting, usable, fleet.cpu[rows], fleet.group[rows])
        self._is_first[rows] = first_of_equals(devices)

    def refresh_one(self, row: int) -> None:
        """A row has changed."""
        self.refresh(np.array([row]))

    def fragments(self, rows: Array) -> Array:
        """F of rows, in milli."""
        fragments: Array = self._fragments[rows]
        return fragments

    def score(self, shape: PodShape, rows: Array) -> Scores:
        """Of rows that the pod fits on, and the device of a share: the one with the best score."""
        if shape.is_share:
            return self._share_score(shape, rows)
        fleet = self._fleet
        # Devices that a pod takes are wholly free, or it takes an equal part of several.
        devices = fleet.devices[rows]
        idle, fitting, usable = self._idle[rows], self._fitting[rows], self._usable[rows]
        if shape.gpus:
            fits = devices >= shape.gpu_milli
            row, device = (fits & (fits.cumsum(axis=1) <= shape.gpus)).nonzero()
            before = devices[row, device]
            after = before - shape.gpu_milli
            fitting, usable = fitting.copy(), usable.copy()
            np.add.at(fitting, row, self._fits[after] - self._fits[before])
            np.add.at(usable, row, self._useful[after] - self._useful[before])
            idle = idle - shape.total_milli
        left = self._sum(idle, fitting, usable, fleet.cpu[rows] - shape.cpu_milli, fleet.group[rows])
        return Scores(_score(self._fragments[rows] - left), np.full(len(rows), -1))

    def _share_score(self, shape: PodShape, rows: Array) -> Scores:
        fleet = self._fleet
        at, device = (self._is_first[rows] & (fleet.devices[rows] >= shape.gpu_milli)).nonzero()
        row = rows[at]
        before = fleet.devices[row, device]
        after = before - shape.gpu_milli
        fitting = self._fitting[row] + (self._fits[after] - self._fits[before])
        usable = self._usable[row] + (self._useful[after] - self._useful[before])
        idle, cpu = self._idle[row] - shape.gpu_milli, fleet.cpu[row] - shape.cpu_milli
        left = self._sum(idle, fitting, usable, cpu, fleet.group[row])
        scores = np.full((len(rows), fleet.devices.shape[1]), -1, np.int64)
        scores[at, device] = _score(self._fragments[row] - left)
        best = scores.argmax(axis=1)
        return Scores(scores[np.arange(len(rows)), best], best)

    def _sum(self, idle: Array, fitting: Array, usable: Array, cpu: Array, group: Array) -> Array:
        """F of rows with these amounts left."""
        hosts = self._allowed[group] & (fitting >= self._gpus) & (cpu[:, np.newaxis] >= self._cpu)
        total: Array = ((idle[:, np.newaxis] - usable * hosts) * self._often).sum(axis=1)
        return total


def _score(gain: Array) -> Array:
    scores: Array = np.floor(100 / (1 + np.exp(-gain / WHOLE))).astype(np.int64)
    return scores
