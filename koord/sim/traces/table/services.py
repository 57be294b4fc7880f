"""Samples of services to curves on a regular grid.

A sample is the mean of the step that ends at its time. Samples of one step are averaged. The step of the grid is the
usual distance between the samples of a pod at the beginning of the file, in whole tens of seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from koord.sim.columns import ServiceCurves
from koord.sim.traces.grid import count_gaps, fill_short_gaps
from koord.sim.traces.table.chunks import Chunk
from koord.sim.traces.table.columns import SERVICES, TIMES, layout, spellings
from koord.sim.traces.trace import Repairs, TraceFault

MOST_CELLS: Final = 60_000_000
"Services times steps: 600 MB."
STEP_UNIT_S: Final = 10.0
MOST_SERVICES: Final = 1_000_000
USUAL_STEP_S: Final = 60.0
LONGEST_GAP_S: Final = 3600.0
CHUNKS_FOR_STEP: Final = 16
DISTANCES: Final = 100
TYPICAL: Final = 25
"Percentile of the distances: gaps make some of them longer."
GAP: Final = "gap of at most an hour filled with the value before it (steps)"
ABSENT: Final = "gap of more than an hour in which the pod does not exist"
BACK: Final = "sample earlier than the one before it put in its place"
TWICE: Final = "second sample of a pod at the same time averaged with the first"
MOVED: Final = "pod on a second node counted on its first one"
Number = TypeVar("Number", bound=np.generic)


def read_services(
    chunks: Iterable[Chunk], repairs: Repairs, *, most_cells: int = MOST_CELLS
) -> tuple[ServiceCurves, float]:
    """The curves, and the time of their beginning."""
    grid: _Samples | None = None
    form = None
    stream, step_s = with_step(chunks, "pod")
    for chunk in stream:
        form = form or layout(chunk, SERVICES)
        time_s = form.quantity(chunk, "time")
        grid = grid or _Samples(step_s, int(np.ceil(time_s.min() / step_s)) - 1, most_cells)
        rows = grid.rows(chunk, chunk.names("pod"), form.optional_names(chunk, "node"), repairs)
        grid.note_requests(
            rows, form.optional_quantity(chunk, "request_cpu"), form.optional_quantity(chunk, "request_memory")
        )
        grid.note_order(rows, time_s, chunk, repairs)
        cpu = form.quantity(chunk, "cpu", repairs)
        grid.add(rows, time_s, cpu, form.optional_quantity(chunk, "memory", repairs), chunk)
    if grid is None:
        raise TraceFault("services", None, "has no samples")
    return grid.curves(repairs), grid.first_step * step_s


def with_step(chunks: Iterable[Chunk], names: str) -> tuple[Iterator[Chunk], float]:
    """The same chunks, and the distance between samples of the same pod at their beginning. `names`: the column that
    has the pods."""
    rest = iter(chunks)
    first: list[Chunk] = []
    last_s: dict[str, float] = {}
    distances: list[float] = []
    for chunk in rest:
        first.append(chunk)
        time = next((column for column in spellings("time") if chunk.has(column)), None)
        if time is None or not chunk.has(names):
            break
        seconds = chunk.times(time) if time == "time" else chunk.numbers(time) * TIMES[time.removeprefix("time_")]
        for name, time_s in zip(chunk.text(names), seconds.tolist(), strict=True):
            distances.append(abs(time_s - last_s.get(name, time_s)))
            last_s[name] = time_s
        distances = [distance for distance in distances if distance > 0]
        if len(distances) >= DISTANCES or len(first) == CHUNKS_FOR_STEP:
            break
    step_s = float(np.percentile(distances, TYPICAL, method="lower")) if distances else USUAL_STEP_S
    return chain(first, rest), max(STEP_UNIT_S, round(step_s / STEP_UNIT_S) * STEP_UNIT_S)


@dataclass(slots=True)
class _Samples:
    """Sums and counts by service and step; grows to both sides of the first step."""

    step_s: float
    first_step: int
    most_cells: int
    steps: int = 0
    row_of: dict[str, int] = field(default_factory=dict)
    node: list[str] = field(default_factory=list)
    last_s: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    request_cpu: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    request_memory: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    cpu: NDArray[np.float32] = field(default_factory=lambda: np.zeros((0, 0), np.float32))
    memory: NDArray[np.float32] = field(default_factory=lambda: np.zeros((0, 0), np.float32))
    count: NDArray[np.uint16] = field(default_factory=lambda: np.zeros((0, 0), np.uint16))

    def rows(self, chunk: Chunk, names: list[str], nodes: list[str], repairs: Repairs) -> NDArray[np.int64]:
        """The row of each line's pod; new pods get new rows."""
        row_of = self.row_of
        for name in dict.fromkeys(names):
            row_of.setdefault(name, len(row_of))
        self.node += [""] * (len(row_of) - len(self.node))
        rows = np.fromiter(map(row_of.__getitem__, names), np.int64, len(names))
        for line, node in enumerate(nodes):
            if node and node != self.node[row := int(rows[line])]:
                if self.node[row]:
                    repairs.add(MOVED, chunk.file, chunk.lines[line])
                else:
                    self.node[row] = node
        return rows

    def note_requests(self, rows: NDArray[np.int64], cpu: NDArray[np.float64], memory: NDArray[np.float64]) -> None:
        """The last request of a pod counts."""
        more = len(self.row_of) - len(self.last_s)
        self.last_s = np.append(self.last_s, np.full(more, -np.inf))
        self.request_cpu = np.append(self.request_cpu, np.full(more, np.nan))
        self.request_memory = np.append(self.request_memory, np.full(more, np.nan))
        for requests, values in ((self.request_cpu, cpu), (self.request_memory, memory)):
            given = ~np.isnan(values)
            requests[rows[given]] = values[given]

    def note_order(self, rows: NDArray[np.int64], time_s: NDArray[np.float64], chunk: Chunk, repairs: Repairs) -> None:
        """Counts samples that are not later than the one before of the same pod."""
        order = np.argsort(rows, kind="stable")
        by_pod, times = rows[order], time_s[order]
        is_first = np.concatenate(([True], by_pod[1:] != by_pod[:-1]))
        before = np.where(is_first, self.last_s[by_pod], np.concatenate(([-np.inf], times[:-1])))
        for rule, wrong in ((BACK, times < before), (TWICE, times == before)):
            if wrong.any():
                repairs.add(rule, chunk.file, chunk.lines[int(order[wrong].min())], int(wrong.sum()))
        np.maximum.at(self.last_s, rows, time_s)

    def add(
        self,
        rows: NDArray[np.int64],
        time_s: NDArray[np.float64],
        cpu: NDArray[np.float64],
        memory: NDArray[np.float64],
        chunk: Chunk,
    ) -> None:
        steps = np.ceil(time_s / self.step_s).astype(np.int64) - 1
        self._make_room(int(steps.min()), int(steps.max()), chunk)
        steps -= self.first_step
        np.add.at(self.cpu, (rows, steps), cpu.astype(np.float32))
        np.add.at(self.count, (rows, steps), np.uint16(1))
        np.fmax.at(self.memory, (rows, steps), memory.astype(np.float32))

    def _make_room(self, least: int, most: int, chunk: Chunk) -> None:
        before, after = max(0, self.first_step - least), max(0, most + 1 - self.first_step - self.steps)
        self.first_step -= before
        self.steps += before + after
        services = len(self.row_of)
        if services * self.steps > self.most_cells or services > MOST_SERVICES:
            raise TraceFault(
                chunk.file,
                chunk.lines[-1],
                f"{services} services (at most {MOST_SERVICES}) times {self.steps} steps of {self.step_s:g} s"
                f" (together at most {self.most_cells}) are too many:"
                " cut the file into shorter times, or write means of longer steps",
            )
        height, width = self.cpu.shape
        if before or services > height or self.steps > width:
            height = height if services <= height else max(services, min(2 * height, self.most_cells // self.steps))
            enough = not before and self.steps <= width
            width = width if enough else max(self.steps, min(2 * width, self.most_cells // height))
            self.cpu = _moved(self.cpu, (height, width), before, 0)
            self.memory = _moved(self.memory, (height, width), before, np.nan)
            self.count = _moved(self.count, (height, width), before, 0)

    def curves(self, repairs: Repairs) -> ServiceCurves:
        services = len(self.row_of)
        count = self.count[:services, : self.steps]
        cpu = self.cpu[:services, : self.steps]
        np.divide(cpu, count, out=cpu, where=count > 0)
        cpu[count == 0] = np.nan
        memory = self.memory[:services, : self.steps]
        has_memory = not np.isnan(memory).all()
        longest = round(LONGEST_GAP_S / self.step_s)
        for row, name in enumerate(self.row_of):
            if filled := fill_short_gaps(cpu[row], longest):
                repairs.add(GAP, f"services, pod {name}", None, filled)
            if gaps := count_gaps(cpu[row]):
                repairs.add(ABSENT, f"services, pod {name}", None, gaps)
            if has_memory:
                fill_short_gaps(memory[row], longest)
        return ServiceCurves(
            ids=tuple(self.row_of),
            step_s=self.step_s,
            cpu_milli=cpu,
            memory_bytes=memory if has_memory else None,
            request_cpu_milli=_whole(self.request_cpu),
            request_memory_bytes=_whole(self.request_memory),
            node=tuple(self.node) if any(self.node) else None,
        )


def _moved(old: NDArray[Number], shape: tuple[int, int], before: int, fill: float) -> NDArray[Number]:
    """The values in a larger array, `before` columns to the right."""
    new = np.full(shape, fill, old.dtype)
    width = min(old.shape[1], shape[1] - before)
    new[: old.shape[0], before : before + width] = old[:, :width]
    return new


def _whole(requests: NDArray[np.float64]) -> NDArray[np.int64] | None:
    """Pods without a request request nothing; None if no pod has one."""
    return None if np.isnan(requests).all() else np.rint(np.nan_to_num(requests)).astype(np.int64)
