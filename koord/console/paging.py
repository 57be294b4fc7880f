"""Pages of lists: filter, sort, and a cursor that neither repeats nor loses a row while others come and go.

A list is columns of equal length, with a key for each row. The cursor is the sort value and the key of the last row
shown: the next page begins after it, wherever that is by then.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from koord.api.machinery.faults import BadInput

DEFAULT_LIMIT: Final = 100
MOST: Final = 1000

Column = Sequence[Any]


class PageError(BadInput):
    """An invalid query of a list. The message names the field and what is valid."""


class PageQuery(msgspec.Struct, frozen=True):
    columns: tuple[str, ...] = ()
    "Empty: all."
    filter: str = ""
    sort: str = ""
    "A column; with a leading `-` the largest first. Empty: the list's own order."
    limit: int = DEFAULT_LIMIT
    cursor: str = ""


class PageRows(msgspec.Struct, frozen=True):
    columns: dict[str, list[Any]]
    total: int
    next: str | None


def page_of(columns: Mapping[str, Column], keys: Sequence[str], query: PageQuery) -> PageRows:
    """Column names are those of JSON. `keys` are unique."""
    if not 1 <= query.limit <= MOST:
        raise PageError(f"query limit: is {query.limit}; it must be from 1 to {MOST}")
    for name in query.columns:
        _require(columns, name, "columns")
    rows = _matching(columns, keys, query.filter)
    descending = query.sort.startswith("-")
    by = query.sort.removeprefix("-")
    after = _decoded(query.cursor) if query.cursor else None
    if by:
        _require(columns, by, "sort")
        values = columns[by]
        ordered = sorted(rows, key=lambda row: (_order(values[row]), keys[row]), reverse=descending)
        if after is not None:
            bound = (_order(after[0]), after[1])
            places = ((row, (_order(values[row]), keys[row])) for row in ordered)
            ordered = [row for row, place in places if (place < bound if descending else place > bound)]
    else:
        ordered = rows
        if after is not None:
            number = after[0] if isinstance(after[0], int) else 0
            at = next((i for i, row in enumerate(rows) if keys[row] == after[1]), number - 1)
            ordered = rows[at + 1 :]
    shown = ordered[: query.limit]
    more = len(ordered) > len(shown)
    last = shown[-1] if shown else None
    position = rows.index(last) + 1 if last is not None and not by and more else 0
    cursor = None if last is None or not more else _encoded((columns[by][last] if by else position, keys[last]))
    wanted = query.columns or tuple(columns)
    return PageRows({name: [columns[name][row] for row in shown] for name in wanted}, len(rows), cursor)


def _matching(columns: Mapping[str, Column], keys: Sequence[str], text: str) -> list[int]:
    if not text:
        return list(range(len(keys)))
    words = text.lower().split()
    texts = [column for column in columns.values() if column and isinstance(column[0], str)]
    rows = []
    for row in range(len(keys)):
        whole = "\n".join(column[row] for column in texts).lower()
        if all(word in whole for word in words):
            rows.append(row)
    return rows


def _order(value: Any) -> tuple[int, Any]:
    """Unknown values come before all others, so that they are last where the largest come first."""
    if value is None:
        return 0, 0
    return (2, value.lower()) if isinstance(value, str) else (1, value)


def _require(columns: Mapping[str, Column], name: str, field: str) -> None:
    if name not in columns:
        raise PageError(f"query {field}: there is no column {name[:60]!r}; valid are: {', '.join(columns)}")


def _encoded(cursor: tuple[Any, str]) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(cursor)).decode().rstrip("=")


def _decoded(cursor: str) -> tuple[Any, str]:
    try:
        text = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        return msgspec.json.decode(text, type=tuple[str | int | float | bool | None, str])
    except (binascii.Error, ValueError, msgspec.DecodeError):
        raise PageError("query cursor: is not a cursor of this list; leave it out for the first page") from None
