"""What runs in a simulated cluster, as columns: services with their usage over time, and batch pods with work to do.

Readers of traces and generators produce these; the world runs them. Time is in seconds from the start of the trace.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class ServiceCurves:
    """What services use over time, on a regular grid. One row is one pod of a service."""

    ids: tuple[str, ...]
    step_s: float
    "Value k of a row is the mean over the seconds from k * step_s to (k + 1) * step_s."
    cpu_milli: NDArray[np.float32]
    "Services x steps. NaN: the pod does not exist at that time."
    memory_bytes: NDArray[np.float32] | None = None
    "The same shape; None if the trace has no memory."
    request_cpu_milli: NDArray[np.int64] | None = None
    "By service; None if the trace has no requests."
    request_memory_bytes: NDArray[np.int64] | None = None
    node: tuple[str, ...] | None = None
    "Recorded placement by service, empty where it is unknown; None if the trace has none."

    @property
    def seconds(self) -> float:
        """Length of the curves."""
        return float(self.cpu_milli.shape[1] * self.step_s)


class NodeGpus(NamedTuple):
    """The GPUs of a node."""

    number: int
    model: str


class GpuShare(NamedTuple):
    """What a pod asks for of GPUs."""

    gpus: int
    milli: int
    "Of each of them; 1000 is a whole one."
    models: frozenset[str] = frozenset()
    "It accepts these; empty: any."


NO_GPU = GpuShare(0, 0)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class BatchTasks:
    """Batch pods in the order of their arrival.

    Task k wants `use_milli[offset[k] : offset[k + 1]]`: one value for every `step_s` of its own progress. A task that
    gets less than it wants progresses more slowly.
    """

    ids: tuple[str, ...]
    arrival_s: NDArray[np.float64]
    request_cpu_milli: NDArray[np.int64]
    request_memory_bytes: NDArray[np.int64]
    step_s: float
    offset: NDArray[np.int64]
    use_milli: NDArray[np.float32]
    queue: tuple[str, ...] | None = None
    "Name of the quota by task, empty for the default one; None if the trace has no queues."
    gang: tuple[str, ...] | None = None
    "Name of the gang by task, empty where it has none; None if the trace has no gangs."
    gpu: tuple[GpuShare, ...] | None = None
    "By task; None if the trace has no GPUs."

    @property
    def duration_s(self) -> NDArray[np.float64]:
        """How long each task runs if it gets all that it wants."""
        return np.diff(self.offset) * self.step_s


def joined(first: BatchTasks, more: BatchTasks) -> BatchTasks:
    """Tasks after tasks. Both have the same `step_s`, unless the first are none."""
    if first.ids and first.step_s != more.step_s:
        raise ValueError(f"tasks by steps of {first.step_s:g} s and of {more.step_s:g} s cannot be joined")
    return BatchTasks(
        (*first.ids, *more.ids),
        np.concatenate((first.arrival_s, more.arrival_s)),
        np.concatenate((first.request_cpu_milli, more.request_cpu_milli)),
        np.concatenate((first.request_memory_bytes, more.request_memory_bytes)),
        more.step_s,
        np.concatenate((first.offset, more.offset[1:] + first.offset[-1])),
        np.concatenate((first.use_milli, more.use_milli)),
        _joined(first, more, first.queue, more.queue, ""),
        _joined(first, more, first.gang, more.gang, ""),
        _joined(first, more, first.gpu, more.gpu, NO_GPU),
    )


def _joined(
    first: BatchTasks, more: BatchTasks, values: Sequence[T] | None, others: Sequence[T] | None, absent: T
) -> tuple[T, ...] | None:
    if values is None and others is None:
        return None
    return (*(values or (absent,) * len(first.ids)), *(others or (absent,) * len(more.ids)))


def no_services() -> ServiceCurves:
    return ServiceCurves((), 300.0, np.zeros((0, 1), np.float32))


def no_tasks(step_s: float = 60.0) -> BatchTasks:
    none = np.zeros(0, np.int64)
    return BatchTasks((), none.astype(np.float64), none, none, step_s, np.zeros(1, np.int64), none.astype(np.float32))


@dataclass(frozen=True, slots=True)
class Repair:
    """A change that a reader made to its input by a stated rule."""

    rule: str
    "What was done: gap filled, negative value set to 0, ..."
    count: int
    first: str
    "File and line of the first one."
