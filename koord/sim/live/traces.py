"""Opens the files of traces, plain or packed by gzip, and has them read.

The files of a trace are in the folder of its name below the folder of all traces, or in that folder itself.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO, Final, cast

from koord.sim.cluster import Cluster
from koord.sim.live.parquet import chunks_of_parquet
from koord.sim.mix import build
from koord.sim.scenario import JOINED_BY, Scenario
from koord.sim.traces.registry import NAMES, SHIPPED, TABLE, reader
from koord.sim.traces.table.chunks import Chunk, chunks_of_csv
from koord.sim.traces.table.reading import FILES, read_table
from koord.sim.traces.trace import Content, Trace, TraceFault, TraceReader

SHIPPED_FOLDER: Final = Path(__file__).parents[1] / "traces" / "shipped"
FORMS: Final = (".csv", ".csv.gz", ".parquet")


def cluster_of(scenario: Scenario, traces: Path, seed: int) -> Cluster:
    """The cluster of a scenario, from the folder that has the traces. A trace is read once."""
    services, batch = scenario.services, scenario.batch
    wanted = [(name.strip(), services.path) for name in services.trace.split(JOINED_BY)]
    opened = {source: read_trace(source[0], traces / source[1]) for source in (*wanted, (batch.trace, batch.path))}
    return build(scenario, [opened[source] for source in wanted], opened[batch.trace, batch.path], seed)


def read_trace(name: str, folder: Path) -> Trace:
    """A trace by the name of its reader."""
    if name in (TABLE, SHIPPED):
        return read_recording(folder if name == TABLE else SHIPPED_FOLDER)
    source = reader(name)
    if source is None:
        raise TraceFault(name, None, f"is not a trace; valid: {', '.join(NAMES)}")
    if (own := folder / source.folder).is_dir():
        folder = own
    with ExitStack() as stack:
        streams = {file: stack.enter_context(_opened(folder, file, source)) for file in source.files}
        try:
            return source.read(streams)
        except TraceFault as fault:
            raise fault.below(str(folder)) from None
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise TraceFault(str(folder), None, f"a packed file of {name} is damaged: {error}") from None


def read_recording(folder: Path) -> Trace:
    """A folder in the table form. Files that it lacks are absent in the trace."""
    with ExitStack() as stack:
        files: dict[Content, Iterable[Chunk]] = {}
        for content in FILES:
            forms = [path for form in FORMS if (path := folder / f"{content}{form}").is_file()]
            if len(forms) > 1:
                raise TraceFault(str(folder), None, f"has {forms[0].name} and {forms[1].name}: leave one out")
            if forms:
                files[content] = _chunks(forms[0], stack)
        if not files:
            forms_of_one = ", ".join(f"services{form}" for form in FORMS)
            raise TraceFault(
                str(folder), None, f"has no recording: it needs one of {forms_of_one}; batch and nodes alike"
            )
        try:
            return read_table(files)
        except TraceFault as fault:
            raise fault.below(str(folder)) from None
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise TraceFault(str(folder), None, f"a packed file is damaged: {error}") from None


def _chunks(path: Path, stack: ExitStack) -> Iterable[Chunk]:
    if path.suffix == ".parquet":
        return chunks_of_parquet(path)
    return chunks_of_csv(stack.enter_context(_unpacked(path)), path.name)


def _unpacked(path: Path) -> BinaryIO:
    return cast("BinaryIO", gzip.open(path, "rb")) if path.suffix == ".gz" else path.open("rb")


def _opened(folder: Path, file: str, source: TraceReader) -> BinaryIO:
    if (plain := folder / file).is_file():
        return _unpacked(plain)
    if (packed := folder / f"{file}.gz").is_file():
        return _unpacked(packed)
    needed = ", ".join(source.files)
    raise TraceFault(str(folder), None, f"trace {source.name} needs {needed} (or the same with .gz): {file} is missing")
