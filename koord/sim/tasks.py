"""Batch pods with work to do: how far each is, what it wants next, and what it loses when it is evicted.

A task advances along its own time: it wants `use_milli` of the step that it is in, and a task that gets a share of what
it wants advances by as much work less. So work is conserved to the last milli-core-second:

    done = work up to its progress + work that was lost

Work that was done since the last checkpoint is lost on eviction. A checkpoint is taken every so often while it runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

import numpy as np

from koord.sim.columns import BatchTasks
from koord.sim.minutes import Floats, Ints
from koord.sim.packing import gpu_milli_of
from koord.sim.scenario import TICK_S

ENDED_S: Final = 1e-6
"""A task that has less left than this is done."""
_FLOATS: Final = (
    "arrival_s",
    "queued_s",
    "bound_s",
    "starts_s",
    "progress_s",
    "saved_s",
    "saved_at_s",
    "lost_milli_s",
    "used_milli",
)
_INTS: Final = ("source", "status", "node", "tries")


class Status(IntEnum):
    PENDING = 1
    "It waits for a node."
    PLACED = 2
    "It has a node, and runs there or starts."
    DONE = 3


@dataclass(frozen=True, slots=True)
class TaskSource:
    """What tasks want, with the work up to each of their steps."""

    tasks: BatchTasks
    work_before: Floats
    "By value of `use_milli`: the work of its task before it."
    work: Floats
    "By task."
    gpu_milli: Floats
    "By task, of all GPUs together."

    @property
    def duration_s(self) -> Floats:
        return self.tasks.duration_s

    def work_at(self, source: Ints, progress_s: Floats) -> Floats:
        """Work of tasks up to some progress."""
        step = _step(self, source, progress_s)
        value = self.tasks.offset[source] + step
        within_s = progress_s - step * self.tasks.step_s
        done: Floats = self.work_before[value] + self.tasks.use_milli[value] * within_s
        return done


def source_of(tasks: BatchTasks) -> TaskSource:
    """Steps that are shorter than a minute are merged, since the world advances by minutes."""
    tasks = _by_minutes(tasks)
    per_value = tasks.use_milli.astype(np.float64) * tasks.step_s
    total = np.concatenate(([0.0], np.cumsum(per_value)))
    begins = np.repeat(total[tasks.offset[:-1]], np.diff(tasks.offset))
    work = total[tasks.offset[1:]] - total[tasks.offset[:-1]]
    return TaskSource(tasks, total[:-1] - begins, work, gpu_milli_of(tasks))


def _by_minutes(tasks: BatchTasks) -> BatchTasks:
    if tasks.step_s >= TICK_S:
        return tasks
    merged = int(np.ceil(TICK_S / tasks.step_s))
    rows = [tasks.use_milli[tasks.offset[task] : tasks.offset[task + 1]] for task in range(len(tasks.ids))]
    means = [np.add.reduceat(row, np.arange(0, len(row), merged)) / merged for row in rows]
    offset = np.concatenate(([0], np.cumsum([len(row) for row in means], dtype=np.int64)))
    use = np.concatenate(means).astype(np.float32) if means else tasks.use_milli
    return BatchTasks(
        tasks.ids,
        tasks.arrival_s,
        tasks.request_cpu_milli,
        tasks.request_memory_bytes,
        tasks.step_s * merged,
        offset,
        use,
        tasks.queue,
        tasks.gang,
        tasks.gpu,
    )


@dataclass(slots=True)
class TaskTable:
    """All batch pods that have come, as columns by their number. Grows as they come."""

    count: int
    source: Ints
    "Row in the source."
    status: Ints
    node: Ints
    "-1: none."
    tries: Ints
    "How often it lost its node."
    arrival_s: Floats
    queued_s: Floats
    "When it last began to wait."
    bound_s: Floats
    "When it first got a node; NaN before."
    starts_s: Floats
    "When it begins, or began, to work on its node."
    progress_s: Floats
    saved_s: Floats
    "Its progress at the last checkpoint."
    saved_at_s: Floats
    "When that was taken, or when the task began on this node."
    lost_milli_s: Floats
    used_milli: Floats
    "In the last minute."

    def add(self, source: Ints, at_s: float, arrival_s: Floats) -> Ints:
        """Tasks come. Their numbers."""
        first, count = self.count, len(source)
        if first + count > len(self.source):
            size = max(1024, 2 * (first + count))
            for name in (*_INTS, *_FLOATS):
                setattr(self, name, np.resize(getattr(self, name), size))
        new = slice(first, first + count)
        self.source[new], self.status[new], self.node[new], self.tries[new] = source, Status.PENDING, -1, 0
        self.arrival_s[new], self.queued_s[new] = arrival_s, at_s
        self.bound_s[new] = self.starts_s[new] = self.saved_at_s[new] = np.nan
        self.progress_s[new] = self.saved_s[new] = self.lost_milli_s[new] = self.used_milli[new] = 0.0
        self.count += count
        return np.arange(first, first + count)

    def column(self, name: str) -> Floats:
        values: Floats = getattr(self, name)[: self.count]
        return values

    def bind(self, number: int, node: int, now_s: float, start_s: float) -> None:
        self.status[number], self.node[number] = Status.PLACED, node
        self.starts_s[number] = self.saved_at_s[number] = now_s + start_s
        if np.isnan(self.bound_s[number]):
            self.bound_s[number] = now_s

    def lose(self, number: int, source: TaskSource) -> float:
        """A task falls back to its last checkpoint. The work that is lost."""
        one = np.array([self.source[number]])
        lost = float(
            (source.work_at(one, self.progress_s[number : number + 1])
             - source.work_at(one, self.saved_s[number : number + 1]))[0]
        )  # fmt: skip
        self.progress_s[number] = self.saved_s[number]
        self.lost_milli_s[number] += lost
        return lost

    def leave(self, number: int, now_s: float) -> None:
        """A task has no node any more, and waits for another."""
        self.status[number], self.node[number], self.queued_s[number] = Status.PENDING, -1, now_s
        self.tries[number] += 1

    def with_status(self, status: Status) -> Ints:
        return np.flatnonzero(self.status[: self.count] == status)

    def running(self, now_s: float) -> Ints:
        """Tasks that work in the minute that begins now."""
        return np.flatnonzero((self.status[: self.count] == Status.PLACED) & (self.starts_s[: self.count] <= now_s))


def empty_table() -> TaskTable:
    columns: dict[str, Any] = {name: np.zeros(0, np.int64) for name in _INTS}
    columns |= {name: np.zeros(0) for name in _FLOATS}
    return TaskTable(count=0, **columns)


def _step(source: TaskSource, rows: Ints, progress_s: Floats) -> Ints:
    tasks = source.tasks
    last = tasks.offset[rows + 1] - tasks.offset[rows] - 1
    step: Ints = np.clip((progress_s // tasks.step_s).astype(np.int64), 0, last)
    return step


@dataclass(frozen=True, slots=True)
class Wants:
    """What running tasks would do in the next minute if nothing held them back."""

    milli: Floats
    "Mean use over the minute."
    rate_milli: Floats
    "Mean use for as long as they run: more than `milli` for those that end within the minute."
    first_milli: Floats
    first_s: Floats
    "How long they use that, before they come to the next step or end."
    next_milli: Floats
    next_s: Floats


def wants(source: TaskSource, rows: Ints, progress_s: Floats) -> Wants:
    tasks = source.tasks
    step = _step(source, rows, progress_s)
    value = tasks.offset[rows] + step
    length_s = (tasks.offset[rows + 1] - tasks.offset[rows]) * tasks.step_s
    first_s = np.clip((step + 1) * tasks.step_s - progress_s, 0.0, TICK_S)
    next_s = np.clip(np.minimum(TICK_S - first_s, length_s - (step + 1) * tasks.step_s), 0.0, None)
    following = np.minimum(value + 1, tasks.offset[rows + 1] - 1)
    first, then = tasks.use_milli[value].astype(np.float64), tasks.use_milli[following].astype(np.float64)
    work, lasts_s = first * first_s + then * next_s, first_s + next_s
    rate = np.divide(work, lasts_s, out=np.zeros_like(work), where=lasts_s > 0)
    return Wants(work / TICK_S, rate, first, first_s, then, next_s)


def used_milli(wants: Wants, share: Floats) -> Floats:
    """Mean use over the minute of tasks that get this share of their rate. One that is about to end uses its rate for
    longer if it is held back, and no more than its work."""
    return np.minimum(share * wants.rate_milli, wants.milli)


def advance_s(wants: Wants, used: Floats) -> Floats:
    """How far tasks come by their use in the minute. A task that wants nothing is not slowed."""
    work = used * TICK_S
    in_first = wants.first_milli * wants.first_s
    is_first = work <= in_first
    rate = np.where(is_first, wants.first_milli, wants.next_milli)
    rest = np.where(is_first, work, work - in_first)
    spent_s = np.divide(rest, rate, out=np.where(is_first, wants.first_s, wants.next_s), where=rate > 0)
    slowed = np.where(is_first, spent_s, wants.first_s + spent_s)
    whole_s = wants.first_s + wants.next_s
    advance: Floats = np.where(used >= wants.milli, whole_s, np.minimum(slowed, whole_s))
    return advance
