"""Many shapes of pods as arrays, an element a shape: what a row is worth to each of them is one calculation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from koord.scheduler.plugins.packing.shapes import WHOLE, PodShape
from koord.scheduler.state.table import Array


class Batch:
    """Shapes in a fixed order."""

    def __init__(self, shapes: Sequence[PodShape]) -> None:
        self.shapes = tuple(shapes)
        self.cpu: Array = np.array([shape.cpu_milli for shape in shapes], np.int64)
        self.memory: Array = np.array([shape.memory_mib for shape in shapes], np.int64)
        self.gpus: Array = np.array([shape.gpus for shape in shapes], np.int64)
        self.milli: Array = np.array([shape.gpu_milli for shape in shapes], np.int64)
        self._most = int(self.gpus.max(initial=0))
        self.is_share: Array = np.array([shape.is_share for shape in shapes], np.bool_)

    def __len__(self) -> int:
        return len(self.shapes)

    def room(self, cpu: Array, devices: Array) -> Array:
        """Whether rows with this CPU and these devices left have room: by row and shape."""
        largest = np.full((len(devices), devices.shape[1] + 1 + self._most), -1, np.int64)
        largest[:, 0] = WHOLE
        largest[:, 1 : devices.shape[1] + 1] = np.sort(devices, axis=1)[:, ::-1]
        room: Array = largest.take(self.gpus, axis=1) >= self.milli
        room &= cpu[:, np.newaxis] >= self.cpu
        return room
