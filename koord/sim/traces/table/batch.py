"""Batch pods: a task a line with its duration, or a sample of a task a line with its time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from koord.sim.columns import BatchTasks, no_tasks
from koord.sim.traces.table.chunks import Chunk
from koord.sim.traces.table.columns import BATCH, Layout, layout
from koord.sim.traces.table.services import with_step
from koord.sim.traces.trace import Repairs, TraceFault

TASK_STEP_S: Final = 30.0
"Of tasks with a duration: it is rounded up to whole steps."
MOST_SAMPLES: Final = 60_000_000
UNREQUESTED_MEMORY: Final = 1 << 30
EARLY: Final = "task that arrived before the services began arrives at their beginning"
GAP: Final = "missing sample of a task filled with the value before it"
LONGEST_TASK_S: Final = 90 * 86_400.0
"A longer gap or duration is taken for a mistake in its unit."


@dataclass(slots=True)
class _Tasks:
    """What the lines of a task say besides its use."""

    row_of: dict[str, int] = field(default_factory=dict)
    arrival_s: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)
    queue: list[str] = field(default_factory=list)
    gang: list[str] = field(default_factory=list)

    def rows(self, chunk: Chunk, form: Layout) -> NDArray[np.int64]:
        arrival = form.optional_quantity(chunk, "arrival")
        cpu, memory = form.optional_quantity(chunk, "request_cpu"), form.optional_quantity(chunk, "request_memory")
        queue, gang = form.optional_names(chunk, "queue"), form.optional_names(chunk, "gang")
        rows = np.empty(len(chunk), np.int64)
        for line, name in enumerate(chunk.names("task")):
            row = self.row_of.setdefault(name, len(self.row_of))
            rows[line] = row
            if row == len(self.cpu):
                self.arrival_s.append(float(arrival[line]))
                self.cpu.append(float(cpu[line]))
                self.memory.append(float(memory[line]))
                self.queue.append(queue[line])
                self.gang.append(gang[line])
        return rows


def read_batch(chunks: Iterable[Chunk], begin_s: float | None, repairs: Repairs) -> BatchTasks:
    """`begin_s`: when the services began; None: tasks begin with the first arrival."""
    tasks = _Tasks()
    uses: list[NDArray[np.float32]] | None = None
    form = None
    samples = _Samples()
    stream, step_s = with_step(chunks, "task")
    for chunk in stream:
        form = form or _layout(chunk)
        if form.has("time"):
            samples.add(chunk, form, tasks.rows(chunk, form), repairs, step_s)
        else:
            uses = uses or []
            step_s = TASK_STEP_S
            uses += _uses(chunk, form, tasks, repairs)
    if form is None:
        return no_tasks(step_s)
    if uses is None:
        uses, first_s = samples.uses(len(tasks.row_of), step_s, repairs)
        tasks.arrival_s = [
            float(first) if np.isnan(arrival) else arrival
            for arrival, first in zip(tasks.arrival_s, first_s, strict=True)
        ]
    return _columns(tasks, uses, step_s, begin_s, repairs)


def _layout(chunk: Chunk) -> Layout:
    form = layout(chunk, BATCH)
    if form.has("time") == form.has("duration"):
        raise TraceFault(
            chunk.file, 1, "must have either a column duration_s (a task a line) or time_s (a sample of a task a line)"
        )
    if form.has("duration") and not form.has("arrival"):
        raise TraceFault(chunk.file, 1, "column arrival_s or arrival_ms or arrival is missing")
    return form


def _uses(chunk: Chunk, form: Layout, tasks: _Tasks, repairs: Repairs) -> list[NDArray[np.float32]]:
    """The use of the tasks of a chunk, the same in all steps."""
    before = len(tasks.row_of)
    rows = tasks.rows(chunk, form)
    if len(tasks.row_of) - before < len(chunk):
        first = np.unique(rows, return_index=True)[1]
        again = next(line for line in range(len(chunk)) if rows[line] < before or line not in first)
        raise chunk.fault(again, form.columns["task"], f"task {chunk.text('task')[again]} stands twice")
    duration_s = form.quantity(chunk, "duration")
    for wrong in np.flatnonzero((duration_s <= 0) | (duration_s > LONGEST_TASK_S)):
        raise chunk.fault(int(wrong), form.columns["duration"], f"must be above 0 s and at most {LONGEST_TASK_S:g} s")
    cpu = form.quantity(chunk, "cpu", repairs)
    steps = np.ceil(duration_s / TASK_STEP_S).astype(np.int64)
    return [np.full(count, use, np.float32) for count, use in zip(steps, cpu, strict=True)]


@dataclass(slots=True)
class _Samples:
    rows: list[NDArray[np.int32]] = field(default_factory=list)
    steps: list[NDArray[np.int64]] = field(default_factory=list)
    use: list[NDArray[np.float32]] = field(default_factory=list)
    count: int = 0

    def add(self, chunk: Chunk, form: Layout, rows: NDArray[np.int64], repairs: Repairs, step_s: float) -> None:
        self.count += len(chunk)
        if self.count > MOST_SAMPLES:
            raise TraceFault(
                chunk.file,
                chunk.lines[-1],
                f"has more than {MOST_SAMPLES} samples: cut the file, or write means of longer steps",
            )
        self.rows.append(rows.astype(np.int32))
        self.steps.append(np.ceil(form.quantity(chunk, "time") / step_s).astype(np.int64) - 1)
        self.use.append(form.quantity(chunk, "cpu", repairs).astype(np.float32))

    def uses(
        self, tasks: int, step_s: float, repairs: Repairs
    ) -> tuple[list[NDArray[np.float32]], NDArray[np.float64]]:
        """The use of each task by step of its own, and when it began."""
        rows, steps, use = np.concatenate(self.rows), np.concatenate(self.steps), np.concatenate(self.use)
        order = np.lexsort((steps, rows))
        rows, steps, use = rows[order], steps[order], use[order]
        ends = np.searchsorted(rows, np.arange(tasks + 1))
        uses, first_s = [], np.empty(tasks)
        for task in range(tasks):
            own = slice(int(ends[task]), int(ends[task + 1]))
            own_steps, first = np.unique(steps[own], return_index=True)
            means = np.add.reduceat(use[own], first) / np.diff(np.append(first, own.stop - own.start))
            lengths = np.diff(np.append(own_steps, own_steps[-1] + 1))
            if missing := int(lengths.sum() - len(lengths)):
                if lengths.sum() * step_s > LONGEST_TASK_S:
                    raise TraceFault("batch", None, f"task {task} runs for more than {LONGEST_TASK_S:g} s")
                repairs.add(GAP, "batch", None, missing)
            uses.append(np.repeat(means, lengths).astype(np.float32))
            first_s[task] = own_steps[0] * step_s
        return uses, first_s


def _columns(
    tasks: _Tasks, uses: list[NDArray[np.float32]], step_s: float, begin_s: float | None, repairs: Repairs
) -> BatchTasks:
    arrival_s = np.array(tasks.arrival_s)
    origin_s = float(arrival_s.min()) if begin_s is None else begin_s
    arrival_s -= origin_s
    if early := int((arrival_s < 0).sum()):
        repairs.add(EARLY, "batch", None, early)
        arrival_s = np.maximum(arrival_s, 0)
    peaks = np.array([use.max() for use in uses], np.float64)
    cpu, memory = np.array(tasks.cpu), np.array(tasks.memory)
    order = np.argsort(arrival_s, kind="stable")
    names = list(tasks.row_of)
    return BatchTasks(
        ids=tuple(names[row] for row in order),
        arrival_s=arrival_s[order],
        request_cpu_milli=np.maximum(np.rint(np.where(np.isnan(cpu), peaks, cpu)), 1).astype(np.int64)[order],
        request_memory_bytes=np.where(np.isnan(memory), UNREQUESTED_MEMORY, memory).astype(np.int64)[order],
        step_s=step_s,
        offset=np.concatenate(([0], np.cumsum([len(uses[row]) for row in order]))).astype(np.int64),
        use_milli=np.concatenate([uses[row] for row in order]),
        queue=tuple(tasks.queue[row] for row in order) if any(tasks.queue) else None,
        gang=tuple(tasks.gang[row] for row in order) if any(tasks.gang) else None,
    )
