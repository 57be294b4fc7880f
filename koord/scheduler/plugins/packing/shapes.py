"""The words of GPU packing: what pods ask for, which nodes are equal, how often each shape comes, what rows have free.

CPU is in milli-cores, memory in MiB, GPU in thousandths of a device (milli). A pod takes a share of one device, or the
same share of several; a whole device is 1000.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from koord.scheduler.state.table import Array

WHOLE: Final = 1000
"""A device, in milli."""
STEP: Final = 10
"""Tables of devices are in steps of one percent."""


class PodShape(NamedTuple):
    """What a pod asks for. Pods of one shape are alike to every policy."""

    cpu_milli: int
    memory_mib: int
    gpus: int = 0
    gpu_milli: int = 0
    "Of each device."
    models: frozenset[str] = frozenset()
    "GPU models that will do; empty: all."

    @property
    def total_milli(self) -> int:
        return self.gpus * self.gpu_milli

    @property
    def is_share(self) -> bool:
        """Whether it takes a part of one device; else it takes whole ones, or none."""
        return self.gpus == 1 and self.gpu_milli < WHOLE


class NodeGroup(NamedTuple):
    """Nodes that are equal to prices: same model, number of GPUs and CPU. `memory_mib` is the most that one has."""

    model: str
    gpus: int
    cpu_milli: int
    memory_mib: int

    def could_host(self, shape: PodShape) -> bool:
        """Whether an empty node of the group takes a pod of this shape."""
        return (
            (not shape.gpus or not shape.models or self.model in shape.models)
            and self.gpus >= shape.gpus
            and self.cpu_milli >= shape.cpu_milli
            and self.memory_mib >= shape.memory_mib
        )


Mix = Mapping[PodShape, float]
"""How often each shape comes, in any unit."""


@dataclass(slots=True)
class Fleet:
    """What is free on every row, and how much there is in all. Arrays are written in place."""

    groups: Sequence[NodeGroup]
    group: Array
    "The group of every row."
    cpu: Array
    memory: Array
    devices: Array
    "Free milli by row and device. A device that is not there has none."

    def whole(self, rows: Array | slice) -> Array:
        """How many devices are wholly free."""
        whole: Array = np.count_nonzero(self.devices[rows] == WHOLE, axis=-1)
        return whole

    def fits(self, shape: PodShape, rows: Array | slice) -> Array:
        """Whether rows have room for a pod, on devices too."""
        room = (self.cpu[rows] >= shape.cpu_milli) & (self.memory[rows] >= shape.memory_mib)
        if shape.gpus:
            room &= np.count_nonzero(self.devices[rows] >= shape.gpu_milli, axis=-1) >= shape.gpus
            if shape.models:
                room &= allowed(shape, self.groups)[self.group[rows]]
        return room


class Scores(NamedTuple):
    """What a policy says of some rows, for a pod that fits there: the highest score wins."""

    score: Array
    device: Array
    "Where a share would go; -1 where the pod takes no share."


def allowed(shape: PodShape, groups: Sequence[NodeGroup]) -> Array:
    """Which groups have a model that will do."""
    return np.array([not shape.models or group.model in shape.models for group in groups], np.bool_)


def first_of_equals(devices: Array) -> Array:
    """Whether no device before it, on the same row, has as much left: a policy need not look at others."""
    first = np.ones(devices.shape, np.bool_)
    for j in range(1, devices.shape[1]):
        first[:, j] = (devices[:, :j] != devices[:, j : j + 1]).all(axis=1)
    return first


def groups_of(nodes: Iterable[tuple[str, int, int, int]]) -> tuple[list[NodeGroup], Array]:
    """The groups of nodes (model, GPUs, CPU, memory), and the group of each."""
    memory: dict[tuple[str, int, int], int] = {}
    keys = []
    for model, gpus, cpu_milli, memory_mib in nodes:
        key = model, gpus, cpu_milli
        keys.append(key)
        memory[key] = max(memory.get(key, 0), memory_mib)
    number = {key: i for i, key in enumerate(memory)}
    return [NodeGroup(*key, most) for key, most in memory.items()], np.array([number[key] for key in keys], np.int64)
