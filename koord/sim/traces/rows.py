"""Lines of a CSV file, read one by one, with fields as numbers. Faults name file, line, column and valid values."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import BinaryIO

from koord.sim.traces.trace import TraceFault


class Row:
    """A line by the names of its columns."""

    __slots__ = ("_columns", "_fields", "file", "line")

    def __init__(self, file: str, line: int, columns: dict[str, int], fields: Sequence[str]) -> None:
        self.file, self.line, self._columns, self._fields = file, line, columns, fields

    def has(self, column: str) -> bool:
        """Whether the column exists and has a value here."""
        place = self._columns.get(column)
        return place is not None and self._fields[place] != ""

    def text(self, column: str) -> str:
        value = self._fields[self._columns[column]]
        if value == "":
            raise self.fault(f"column {column}: must not be empty")
        return value

    def optional_text(self, column: str) -> str:
        place = self._columns.get(column)
        return "" if place is None else self._fields[place]

    def number(self, column: str) -> float:
        value = self._fields[self._columns[column]]
        try:
            number = float(value)
        except ValueError:
            raise self.fault(f"column {column}: {value!r} is not a number") from None
        if not math.isfinite(number):
            raise self.fault(f"column {column}: {value} is not a finite number")
        return number

    def positive(self, column: str) -> float:
        number = self.number(column)
        if number <= 0:
            raise self.fault(f"column {column}: must be above 0, not {self._fields[self._columns[column]]}")
        return number

    def not_negative(self, column: str) -> float:
        number = self.number(column)
        if number < 0:
            raise self.fault(f"column {column}: must be 0 or more, not {self._fields[self._columns[column]]}")
        return number

    def fault(self, message: str) -> TraceFault:
        return TraceFault(self.file, self.line, message)


def rows(stream: BinaryIO, file: str, needed: Iterable[str], columns: Sequence[str] | None = None) -> Iterator[Row]:
    """The lines of a stream. `columns`: their names, if the file has no header."""
    text = io.TextIOWrapper(stream, encoding="utf-8-sig", newline="")
    reader = csv.reader(text, strict=True)
    try:
        header = list(columns) if columns is not None else next(reader, None)
        if header is None:
            raise TraceFault(file, None, "is empty")
        places = _places(file, header, needed)
        for fields in reader:
            if not fields:
                continue
            if len(fields) != len(header):
                raise TraceFault(file, reader.line_num, f"has {len(fields)} fields, the header has {len(header)}")
            yield Row(file, reader.line_num, places, fields)
    except UnicodeDecodeError:
        raise TraceFault(file, None, "is not UTF-8 text") from None
    except csv.Error as error:
        raise TraceFault(file, reader.line_num, f"is not CSV: {error}") from None
    finally:
        if not stream.closed:
            text.detach()


def _places(file: str, header: Sequence[str], needed: Iterable[str]) -> dict[str, int]:
    names = [name.strip() for name in header]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise TraceFault(file, 1, f"column {twice[0]} stands twice in the header")
    if missing := [name for name in needed if name not in names]:
        raise TraceFault(file, 1, f"column {missing[0]} is missing; the header has {', '.join(names)}")
    return {name: place for place, name in enumerate(names)}
