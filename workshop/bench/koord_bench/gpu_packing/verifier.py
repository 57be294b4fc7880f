"""Whether a replay kept to what its nodes have. It knows the cluster, the pods and the placements, and no policy.

Every placement must fit: CPU, memory, GPU model, distinct devices that exist with as much left as it takes, and no
more pods than a node may have. Every dropped pod must have fitted nowhere at that moment.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from koord.scheduler.plugins.packing.shapes import PodShape
from koord.sim.traces.trace import GpuNode
from koord_bench.gpu_packing.replay import Placed

PODS: Final = 1001
DEVICE: Final = 1000
MOST_FAULTS: Final = 20


class Verifier:
    """Counts what is taken, in its own way, and collects faults."""

    def __init__(self, nodes: Sequence[GpuNode]) -> None:
        self._nodes = nodes
        self._cpu = np.array([node.cpu_milli for node in nodes])
        self._memory = np.array([node.memory_mib for node in nodes])
        self._pods = np.full(len(nodes), PODS)
        self._models = np.array([node.model for node in nodes])
        most = max(node.gpus for node in nodes)
        exists = np.arange(most) < np.array([node.gpus for node in nodes])[:, np.newaxis]
        self._left = np.where(exists, DEVICE, -1)
        self.faults: list[str] = []
        self.taken_milli = 0

    def place(self, shape: PodShape, placed: Placed | None, number: int) -> None:
        """The pod with that number was placed, or dropped."""
        if placed is None:
            row = self._somewhere(shape)
            if row is not None:
                self._fault(f"pod {number} was dropped, though it fits on {self._nodes[row].name}")
            return
        why = self._against(shape, placed)
        if why:
            self._fault(f"pod {number} on {self._nodes[placed.row].name}: {why}")
        self._take(shape, placed)

    def _against(self, shape: PodShape, placed: Placed) -> str:
        row, devices = placed
        if shape.models and shape.gpus and self._models[row] not in shape.models:
            return f"its GPU is a {self._models[row]}, the pod takes {'|'.join(sorted(shape.models))}"
        for name, left, asked in (
            ("CPU", self._cpu[row], shape.cpu_milli),
            ("memory", self._memory[row], shape.memory_mib),
            ("pods", self._pods[row], 1),
        ):
            if left < asked:
                return f"{name}: {left} left, {asked} asked for"
        if len(devices) != shape.gpus or len(set(devices)) != len(devices):
            return f"got devices {list(devices)}, asked for {shape.gpus}"
        for device in devices:
            if not 0 <= device < self._nodes[row].gpus:
                return f"has no device {device}"
            if self._left[row, device] < shape.gpu_milli:
                return f"device {device}: {self._left[row, device]} left, {shape.gpu_milli} asked for"
        return ""

    def _somewhere(self, shape: PodShape) -> int | None:
        """A node that the pod fits on."""
        fits = (self._cpu >= shape.cpu_milli) & (self._memory >= shape.memory_mib) & (self._pods >= 1)
        if shape.gpus:
            if shape.models:
                fits &= np.isin(self._models, list(shape.models))
            fits &= (self._left >= shape.gpu_milli).sum(axis=1) >= shape.gpus
        rows = np.flatnonzero(fits)
        return int(rows[0]) if len(rows) else None

    def _take(self, shape: PodShape, placed: Placed) -> None:
        self._cpu[placed.row] -= shape.cpu_milli
        self._memory[placed.row] -= shape.memory_mib
        self._pods[placed.row] -= 1
        for device in placed.devices:
            if 0 <= device < self._left.shape[1]:
                self._left[placed.row, device] -= shape.gpu_milli
        self.taken_milli += shape.gpus * shape.gpu_milli

    def _fault(self, words: str) -> None:
        if len(self.faults) < MOST_FAULTS:
            self.faults.append(words)
