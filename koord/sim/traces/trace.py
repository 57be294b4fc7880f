"""What a reader of a trace gets, and what it gives.

A reader gets opened binary streams by the names of its files and returns a Trace. It either refuses its input with
file and line, or repairs it by a stated rule that the trace counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import BinaryIO, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from koord.api.machinery.faults import BadInput
from koord.sim.columns import BatchTasks, Repair, ServiceCurves
from koord.sim.minutes import NodeColumns

Content: TypeAlias = Literal["services", "batch", "nodes", "gpu pods"]
Streams: TypeAlias = Mapping[str, BinaryIO]
"Unpacked and seekable, by file name without `.gz`."


class TraceFault(BadInput):
    """A file of a trace is wrong, and no rule repairs it."""

    def __init__(self, file: str, line: int | None, message: str) -> None:
        super().__init__(f"{file}:{line}: {message}" if line is not None else f"{file}: {message}")
        self._file, self._line, self._message = file, line, message

    def below(self, folder: str) -> TraceFault:
        """The same fault of a file in that folder: readers know files by their names alone."""
        return TraceFault(f"{folder}/{self._file}", self._line, self._message)


class GpuNode(NamedTuple):
    name: str
    model: str
    gpus: int
    cpu_milli: int
    memory_mib: int


class GpuPod(NamedTuple):
    name: str
    cpu_milli: int
    memory_mib: int
    gpus: int
    gpu_milli: int
    "Of each GPU."
    models: frozenset[str]
    "It accepts these; empty: any."
    begin_s: int
    end_s: int


@dataclass(frozen=True, slots=True)
class Trace:
    services: ServiceCurves | None = None
    tasks: BatchTasks | None = None
    nodes: NodeColumns | None = None
    repairs: tuple[Repair, ...] = ()
    system_milli: NDArray[np.float64] | None = None
    "What nodes use outside of pods, in the order of `nodes`."
    gpu_nodes: tuple[GpuNode, ...] = ()
    gpu_pods: tuple[GpuPod, ...] = ()


@dataclass(frozen=True, slots=True)
class TraceReader:
    name: str
    "As scenarios name it."
    summary: str
    folder: str
    "Where the files usually are, below the folder of all traces."
    files: tuple[str, ...]
    "Without `.gz`."
    contents: tuple[Content, ...]
    read: Callable[[Streams], Trace]


@dataclass(slots=True)
class Repairs:
    """Counts repairs by rule while a file is read."""

    _counts: dict[str, int] = field(default_factory=dict)
    _first: dict[str, str] = field(default_factory=dict)

    def add(self, rule: str, file: str, line: int | None, count: int = 1) -> None:
        self._counts[rule] = self._counts.get(rule, 0) + count
        self._first.setdefault(rule, f"{file}:{line}" if line is not None else file)

    def listed(self) -> tuple[Repair, ...]:
        return tuple(Repair(rule, count, self._first[rule]) for rule, count in self._counts.items())
