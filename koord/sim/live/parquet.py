"""Parquet files of the table form, read in chunks by duckdb (extra `history`)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from koord.api.machinery.faults import BadInput
from koord.sim.traces.table.chunks import ROWS, Chunk, checked_header
from koord.sim.traces.trace import TraceFault

MEMORY_LIMIT: Final = "512MB"


def chunks_of_parquet(path: Path) -> Iterator[Chunk]:
    """Lines are counted from 1, as rows: a Parquet file has no header line."""
    try:
        import duckdb
    except ModuleNotFoundError:
        raise BadInput(f'{path}: Parquet needs duckdb: pip install "koord[history]"; CSV does not') from None
    with duckdb.connect(config={"memory_limit": MEMORY_LIMIT, "threads": 1}) as connection:
        try:
            rows = connection.execute("SELECT * FROM read_parquet(?)", [str(path)])
            names = checked_header([str(column[0]) for column in rows.description or ()], path.name)
            line = 1
            while batch := rows.fetchmany(ROWS):
                cells = dict(zip(names, zip(*batch, strict=True), strict=True))
                yield Chunk(path.name, range(line, line + len(batch)), cells)
                line += len(batch)
        except duckdb.Error as error:
            raise TraceFault(path.name, None, f"is not Parquet: {str(error).splitlines()[0]}") from None
