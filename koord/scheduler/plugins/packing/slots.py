"""What a node is worth to pods with several GPUs, beside what its devices are worth one by one.

    B_k = eta sum over shapes t with n >= 2 GPUs of P_t 1000 n slots_t
    slots_t = min(f // n, cpuFree // c_t, memoryFree // m_t)

f counts wholly free devices. P_t is the part of all GPU that pods of shape t ask for, but not less than `RARE`: a shape
that comes once in ten thousand still needs a whole node, and its own part would be too small to keep one free. CPU and
memory count in steps of a thirty-second of what nodes of the group have.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from koord.scheduler.plugins.packing.shapes import WHOLE, Mix, NodeGroup
from koord.scheduler.state.table import Array

PREMIUM: Final = 0.02
"""The planned chance that a pod with several GPUs finds no slot. A higher one hoards whole nodes."""
RARE: Final = 0.02
ALL_RARE: Final = 0.25
"""The least parts of all shapes together are not more than that, however many shapes there are."""
STEPS: Final = 32


class Slots:
    """B of every group, as a table."""

    def __init__(self, groups: Sequence[NodeGroup], mix: Mix, premium: float = PREMIUM) -> None:
        several = {shape: number for shape, number in mix.items() if shape.gpus >= 2 and number > 0}
        asked = sum(shape.total_milli * number for shape, number in mix.items())
        least = min(RARE, ALL_RARE / max(len(several), 1))
        self._cpu = [max(group.cpu_milli, 1) for group in groups]
        self._memory = [max(group.memory_mib, 1) for group in groups]
        self._of_group = np.array([self._cpu, self._memory], np.int64)
        self.most = max((group.gpus for group in groups), default=0)
        "Free devices beyond this number add nothing."
        self._table = np.zeros((len(groups), self.most + 1, STEPS + 1, STEPS + 1))
        self.is_flat = not several or not premium
        "Whether all rows are worth nothing."
        free, step = np.arange(self.most + 1), np.arange(STEPS + 1)
        for k, group in enumerate(groups):
            cpu, memory = (-(-step * has[k] // STEPS) for has in (self._cpu, self._memory))
            for shape, number in several.items():
                if group.could_host(shape):
                    by_gpus = (free // shape.gpus)[:, np.newaxis, np.newaxis]
                    by_cpu = (cpu // max(shape.cpu_milli, 1))[:, np.newaxis]
                    slots = np.minimum(np.minimum(by_gpus, by_cpu), memory // max(shape.memory_mib, 1))
                    part = max(shape.total_milli * number / asked, least)
                    self._table[k] += premium * part * WHOLE * shape.gpus * slots

    def of(self, group: Array, whole: Array, cpu: Array, memory: Array) -> Array:
        """B of rows with these amounts left."""
        if self.is_flat:
            return np.zeros(len(group))
        steps = np.maximum(np.array((cpu, memory)), 0)
        steps *= STEPS
        steps //= self._of_group.take(group, axis=1)
        np.minimum(steps, STEPS, out=steps)
        values: Array = self._table[group, np.minimum(whole, self.most), steps[0], steps[1]]
        return values

    def of_one(self, group: int, whole: int, cpu: int, memory: int) -> float:
        """The same of one row."""
        value: float = self.by_whole(group, cpu, memory).item(min(whole, self.most))
        return value

    def by_whole(self, group: int, cpu: int, memory: int) -> Array:
        """The same by how many devices are wholly free."""
        cpu_step = min(max(cpu, 0) * STEPS // self._cpu[group], STEPS)
        memory_step = min(max(memory, 0) * STEPS // self._memory[group], STEPS)
        values: Array = self._table[group, :, cpu_step, memory_step]
        return values
