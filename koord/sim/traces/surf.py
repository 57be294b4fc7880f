"""SURF: a week of jobs of the HPC cluster Lisa, with their CPU use every 30 s (batch).

`surf_week_tasks.csv` has a task a line: submission in ms since 1970, duration in ms, cores, capacity in MHz and memory
in MB. `surf_week_task_cpu_30s.npz` has the use of task k in MHz: `cpu_mhz[offset[k] : offset[k + 1]]`. A task requests
its cores and its memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from koord.sim.columns import BatchTasks
from koord.sim.traces.archive import arrays, numbers
from koord.sim.traces.rows import rows
from koord.sim.traces.trace import Repairs, Streams, Trace, TraceFault

TASKS: Final = "surf_week_tasks.csv"
USE: Final = "surf_week_task_cpu_30s.npz"
STEP_S: Final = 30.0
MEMORY_UNIT: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class _Task:
    arrival_s: float
    cores: float
    mhz: float
    memory_bytes: float


def read(streams: Streams) -> Trace:
    tasks = _tasks(streams)
    archive = arrays(streams[USE], USE)
    names = numbers(archive, USE, "task_id", 1)
    offset = numbers(archive, USE, "offset", 1).astype(np.int64)
    mhz = numbers(archive, USE, "cpu_mhz", 1).astype(np.float32)
    if len(offset) != len(names) + 1 or offset[0] != 0 or offset[-1] != len(mhz) or (np.diff(offset) < 0).any():
        raise TraceFault(USE, None, f"array offset must rise from 0 to {len(mhz)}, with one value more than tasks")
    repairs = Repairs()
    place = {str(name): row for row, name in enumerate(names)}
    order = []
    for name in sorted(tasks, key=lambda name: (tasks[name].arrival_s, name)):
        row = place.get(name)
        if row is None or offset[row] == offset[row + 1]:
            repairs.add("task without use left out", f"{TASKS} task {name}", None)
        else:
            order.append(name)
    if not order:
        raise TraceFault(TASKS, None, "has no task with use")
    use = []
    for name in order:
        row, task = place[name], tasks[name]
        use.append(np.maximum(mhz[offset[row] : offset[row + 1]], 0) * np.float32(1000 * task.cores / task.mhz))
    first_s = tasks[order[0]].arrival_s
    return Trace(
        tasks=BatchTasks(
            ids=tuple(f"surf-{name}" for name in order),
            arrival_s=np.array([tasks[name].arrival_s - first_s for name in order]),
            request_cpu_milli=np.array([round(tasks[name].cores * 1000) for name in order], np.int64),
            request_memory_bytes=np.array([round(tasks[name].memory_bytes) for name in order], np.int64),
            step_s=STEP_S,
            offset=np.concatenate(([0], np.cumsum([len(curve) for curve in use]))).astype(np.int64),
            use_milli=np.concatenate(use),
        ),
        repairs=repairs.listed(),
    )


def _tasks(streams: Streams) -> dict[str, _Task]:
    tasks: dict[str, _Task] = {}
    for row in rows(streams[TASKS], TASKS, ("id", "submission_time", "cpu_count", "cpu_capacity", "mem_capacity")):
        if (name := row.text("id")) in tasks:
            raise row.fault(f"task {name} stands twice")
        tasks[name] = _Task(
            arrival_s=row.not_negative("submission_time") / 1000,
            cores=row.positive("cpu_count"),
            mhz=row.positive("cpu_capacity"),
            memory_bytes=row.positive("mem_capacity") * MEMORY_UNIT,
        )
    return tasks
