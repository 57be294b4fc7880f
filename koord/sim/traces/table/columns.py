"""Which columns the files of the table form have, and in which units.

A quantity may be given in one of several units: the name of its column says which. Values come out in koord's units:
seconds, milli-cores and bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from koord.sim.traces.table.chunks import Chunk
from koord.sim.traces.trace import Repairs, TraceFault

NEGATIVE: Final = "negative value set to 0"
TIMES: Final[Mapping[str, float]] = {"s": 1, "ms": 1e-3, "": 1}
"A column without a unit has times as text."
CPU: Final[Mapping[str, float]] = {"milli": 1, "cores": 1000}
MEMORY: Final[Mapping[str, float]] = {"bytes": 1, "mib": 1 << 20, "gib": 1 << 30}
QUANTITIES: Final[Mapping[str, Mapping[str, float]]] = {
    "time": TIMES,
    "arrival": TIMES,
    "duration": {"s": 1, "ms": 1e-3},
    "cpu": CPU,
    "memory": MEMORY,
    "request_cpu": CPU,
    "request_memory": MEMORY,
    "system_cpu": CPU,
}


LARGEST: Final[Mapping[str, float]] = {"time": 1e11, "duration": 1e13, "cpu": 1e9, "memory": float(1 << 50)}
"""By the last word of a quantity: a time in the year 5138, a million cores, a PiB. Beyond it, the unit is wrong."""


@dataclass(frozen=True, slots=True)
class Form:
    """The columns of a file, quantities without their units."""

    needed: tuple[str, ...]
    optional: tuple[str, ...]


SERVICES: Final = Form(("time", "pod", "cpu"), ("memory", "request_cpu", "request_memory", "node"))
BATCH: Final = Form(("task", "cpu"), ("time", "arrival", "duration", "request_cpu", "request_memory", "queue", "gang"))
NODES: Final = Form(("node", "cpu", "memory"), ("time", "pool", "system_cpu"))


@dataclass(frozen=True, slots=True)
class Layout:
    """How a file says what its form asks for: the column and factor of each quantity, the columns that are names."""

    columns: Mapping[str, str]
    factors: Mapping[str, float]

    def has(self, name: str) -> bool:
        return name in self.columns

    def quantity(
        self, chunk: Chunk, name: str, repairs: Repairs | None = None, *, optional: bool = False
    ) -> NDArray[np.float64]:
        """Values in koord's units; NaN where they are absent. Negative values become 0 if repairs may be made."""
        column = self.columns[name]
        if column in ("time", "arrival"):
            return chunk.times(column)
        numbers = chunk.numbers(column, optional=optional)
        _check_size(chunk, name, column, numbers, self.factors[name])
        numbers *= self.factors[name]
        negative = np.flatnonzero(numbers < 0)
        if negative.size and name not in ("time", "arrival"):
            if repairs is None:
                cell = chunk.cells[column][int(negative[0])]
                raise chunk.fault(int(negative[0]), column, f"must not be negative, but is {cell}")
            repairs.add(NEGATIVE, chunk.file, chunk.lines[int(negative[0])], int(negative.size))
            numbers[negative] = 0
        return numbers

    def optional_quantity(self, chunk: Chunk, name: str, repairs: Repairs | None = None) -> NDArray[np.float64]:
        """NaN where the file or the line does not say it."""
        if not self.has(name):
            return np.full(len(chunk), np.nan)
        return self.quantity(chunk, name, repairs, optional=True)

    def optional_names(self, chunk: Chunk, name: str) -> list[str]:
        return chunk.text(name) if self.has(name) else [""] * len(chunk)


def _check_size(chunk: Chunk, name: str, column: str, numbers: NDArray[np.float64], factor: float) -> None:
    largest = LARGEST["time" if name == "arrival" else name.rpartition("_")[2]] / factor
    beyond = np.flatnonzero(np.abs(numbers) > largest)
    if beyond.size:
        row = int(beyond[0])
        raise chunk.fault(
            row, column, f"must be at most {largest:g}, but is {chunk.cells[column][row]}: is its unit right?"
        )


def layout(chunk: Chunk, form: Form) -> Layout:
    """How the columns of a file fit its form, or the fault of the first that does not."""
    columns: dict[str, str] = {}
    factors: dict[str, float] = {}
    for column in chunk.cells:
        name = _name_of(column, form)
        if name is None:
            raise TraceFault(chunk.file, 1, f"column {column}: {_valid(column, form)}")
        if name in columns:
            raise TraceFault(chunk.file, 1, f"columns {columns[name]} and {column} say the same: leave one out")
        columns[name] = column
        if name in QUANTITIES:
            factors[name] = QUANTITIES[name][column.removeprefix(name).removeprefix("_")]
    for name in form.needed:
        if name not in columns:
            raise TraceFault(chunk.file, 1, f"column {' or '.join(spellings(name))} is missing")
    return Layout(columns, factors)


def spellings(name: str) -> list[str]:
    """The columns that may give a quantity."""
    return [f"{name}_{unit}" if unit else name for unit in QUANTITIES[name]] if name in QUANTITIES else [name]


def _name_of(column: str, form: Form) -> str | None:
    return next((name for name in (*form.needed, *form.optional) if column in spellings(name)), None)


def _valid(column: str, form: Form) -> str:
    names = (*form.needed, *form.optional)
    stem = column.rpartition("_")[0] or column
    if stem in QUANTITIES and stem in names:
        return f"unknown unit; valid: {', '.join(spellings(stem))}"
    return f"unknown; valid: {', '.join(spelling for name in names for spelling in spellings(name))}"
