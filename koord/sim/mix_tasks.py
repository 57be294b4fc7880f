"""Batch pods of a cluster: the tasks of a trace within bounds, brought to sizes, repeated if a scenario wants more."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from koord.api.machinery.faults import BadInput
from koord.api.text.duration import parse_duration
from koord.api.text.quantity import value
from koord.sim.chance import chance, choice
from koord.sim.columns import BatchTasks
from koord.sim.scenario import BatchSource

MOST_SAMPLES: Final = 250_000_000
"Steps of all tasks: a GB."


def sized_tasks(source: BatchSource, tasks: BatchTasks, services: int, length_s: float, seed: int) -> BatchTasks:
    """`services`: how many pods are services."""
    if not tasks.ids:
        return tasks
    rows = _within_bounds(source, tasks)
    count = len(rows) if source.pods is None else source.pods - services
    if count < 1:
        raise BadInput(f"batch.pods ({source.pods}) must be above the number of services, which is {services}")
    turns = np.arange(count) // len(rows)
    rows = np.resize(rows, count)
    ids = tuple(f"{tasks.ids[row]}-{turn}" if turn else tasks.ids[row] for row, turn in zip(rows, turns, strict=True))
    cpu, memory = tasks.request_cpu_milli[rows], tasks.request_memory_bytes[rows]
    if source.cores:
        cores = np.array([choice(source.cores, chance(seed, "task cores", name)) for name in ids], np.int64)
        cpu, memory = cores * 1000, cores * value(source.memory_per_core)
    arrival_s = tasks.arrival_s[rows]
    if source.pods is not None:
        arrival_s = (np.arange(count) + [chance(seed, "arrival", name) for name in ids]) * (length_s / count)
    offset, use = _use(tasks, rows, cpu / tasks.request_cpu_milli[rows])
    return BatchTasks(
        ids=ids,
        arrival_s=arrival_s,
        request_cpu_milli=cpu,
        request_memory_bytes=memory,
        step_s=tasks.step_s,
        offset=offset,
        use_milli=use,
        queue=None if tasks.queue is None else tuple(tasks.queue[row] for row in rows),
        gang=None if tasks.gang is None else _gangs(tasks.gang, rows, turns),
        gpu=None if tasks.gpu is None else tuple(tasks.gpu[row] for row in rows),
    )


def _within_bounds(source: BatchSource, tasks: BatchTasks) -> NDArray[np.int64]:
    shortest_s = parse_duration(source.shortest)
    longest_s = np.inf if source.longest is None else parse_duration(source.longest)
    rows = np.flatnonzero((tasks.duration_s >= shortest_s) & (tasks.duration_s <= longest_s))
    if not rows.size:
        raise BadInput(
            f"batch.trace: no task runs {source.shortest} to {source.longest or 'any time'};"
            " change batch.shortest or batch.longest"
        )
    return rows


def _use(
    tasks: BatchTasks, rows: NDArray[np.int64], scale: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Offsets and values of the rows, one after the other."""
    lengths = np.diff(tasks.offset)[rows]
    if lengths.sum() > MOST_SAMPLES:
        raise BadInput(
            f"batch.pods: {len(rows)} tasks have {lengths.sum() / 1e6:,.0f} million steps, and at most"
            f" {MOST_SAMPLES / 1e6:g} million are kept; use fewer pods, or a smaller batch.longest"
        )
    offset = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    values = np.arange(offset[-1]) + np.repeat(tasks.offset[rows] - offset[:-1], lengths)
    return offset, tasks.use_milli[values] * np.repeat(scale.astype(np.float32), lengths)


def _gangs(gangs: tuple[str, ...], rows: NDArray[np.int64], turns: NDArray[np.int64]) -> tuple[str, ...]:
    """Each turn has gangs of its own."""
    pairs = zip(rows, turns, strict=True)
    return tuple(f"{gangs[row]}-{turn}" if gangs[row] and turn else gangs[row] for row, turn in pairs)
