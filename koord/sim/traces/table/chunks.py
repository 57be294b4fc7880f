"""Lines of a table as columns, a few thousand at a time, with checks that name file, line and column."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import accumulate, islice
from typing import BinaryIO, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from koord.api.text.timestamp import TimestampError, parse_timestamp
from koord.sim.traces.trace import TraceFault

ROWS: Final = 8192
"In a chunk."
PART: Final = 1 << 16
"Characters of a line that are read at once."
LONGEST_FIELD: Final = 4096
Cells: TypeAlias = Sequence[object]


@dataclass(frozen=True, slots=True)
class Chunk:
    """`cells`: columns by name, each as text (CSV) or as values (Parquet). None and empty text are absent values."""

    file: str
    lines: Sequence[int]
    cells: Mapping[str, Cells]

    def __len__(self) -> int:
        return len(self.lines)

    def has(self, column: str) -> bool:
        return column in self.cells

    def text(self, column: str) -> list[str]:
        """Absent values are empty."""
        return ["" if cell is None else str(cell) for cell in self.cells[column]]

    def names(self, column: str) -> list[str]:
        """Like `text`, but no value may be absent."""
        names = self.text(column)
        if "" in names:
            raise self.fault(names.index(""), column, "must not be empty")
        return names

    def numbers(self, column: str, *, optional: bool = False) -> NDArray[np.float64]:
        """Absent values are NaN if they are allowed."""
        cells = self.cells[column]
        if optional:
            cells = ["nan" if cell is None or cell == "" else cell for cell in cells]
        try:
            numbers = np.array(cells, np.float64)
        except (ValueError, TypeError):
            raise self._not_a_number(column, cells) from None
        wrong = np.isinf(numbers) if optional else ~np.isfinite(numbers)
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            absent = cells[row] is None or cells[row] == ""
            raise self.fault(row, column, "must not be empty" if absent else f"{cells[row]} is not a finite number")
        return numbers

    def times(self, column: str) -> NDArray[np.float64]:
        """Seconds since 1970 of a column with times, as in 2026-01-31T12:00:00Z."""
        seconds = np.empty(len(self))
        for row, cell in enumerate(self.cells[column]):
            if isinstance(cell, datetime):
                seconds[row] = (cell if cell.tzinfo is not None else cell.replace(tzinfo=UTC)).timestamp()
                continue
            try:
                seconds[row] = parse_timestamp("" if cell is None else str(cell))
            except TimestampError as error:
                raise self.fault(row, column, str(error)) from None
        return seconds

    def fault(self, row: int, column: str, message: str) -> TraceFault:
        return TraceFault(self.file, self.lines[row], f"column {column}: {message}")

    def _not_a_number(self, column: str, cells: Cells) -> TraceFault:
        for row, cell in enumerate(cells):
            try:
                float(str(cell))
            except ValueError:
                absent = cell is None or cell == ""
                return self.fault(row, column, "must not be empty" if absent else f"{str(cell)!r} is not a number")
        return self.fault(0, column, "must have numbers")


def chunks_of_csv(stream: BinaryIO, file: str) -> Iterator[Chunk]:
    """A CSV file with a header, in chunks. Besides the chunk, a part of one line is in memory at a time."""
    text = io.TextIOWrapper(stream, encoding="utf-8-sig", newline="")
    reader = csv.reader(iter(partial(text.readline, PART), ""), strict=True)
    try:
        header = next(reader, None)
        if header is None:
            raise TraceFault(file, None, "is empty")
        names = checked_header(header, file)
        while True:
            first = reader.line_num + 1
            rows = list(islice(reader, ROWS))
            if not rows:
                return
            lines = _lines(rows, first, reader.line_num)
            if [] in rows:
                lines, rows = [line for line, row in zip(lines, rows, strict=True) if row], [row for row in rows if row]
            _check_fields(rows, lines, len(names), file)
            if rows:
                yield Chunk(file, lines, dict(zip(names, zip(*rows, strict=True), strict=True)))
    except UnicodeDecodeError:
        raise TraceFault(file, reader.line_num + 1, "is not UTF-8 text") from None
    except csv.Error as error:
        raise TraceFault(file, reader.line_num, f"is not CSV: {error}") from None
    finally:
        if not stream.closed:
            text.detach()


def _lines(rows: Sequence[Sequence[str]], first: int, last: int) -> Sequence[int]:
    """Where each row begins. A row has more than one line where a field in quotes has line ends."""
    if last - first + 1 == len(rows):
        return range(first, last + 1)
    lengths = [1 + sum(field.count("\n") for field in row) for row in rows]
    return [first + before for before in accumulate(lengths[:-1], initial=0)]


def _check_fields(rows: Sequence[Sequence[str]], lines: Sequence[int], fields: int, file: str) -> None:
    """Rows have the right number of fields, and none is huge: a line longer than `PART` would have a huge field."""
    if set(map(len, rows)) <= {fields} and all(
        max(map(len, column)) <= LONGEST_FIELD for column in zip(*rows, strict=True)
    ):
        return
    for line, row in zip(lines, rows, strict=True):
        if max(map(len, row)) > LONGEST_FIELD:
            raise TraceFault(file, line, f"has a field longer than {LONGEST_FIELD} characters: is this a CSV file?")
        if len(row) != fields:
            raise TraceFault(file, line, f"has {len(row)} fields, the header has {fields}")


def checked_header(header: Sequence[str], file: str) -> list[str]:
    names = [name.strip() for name in header]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise TraceFault(file, 1, f"column {twice[0]} stands twice in the header")
    return names
