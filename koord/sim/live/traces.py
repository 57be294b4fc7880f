"""Opens the files of traces, plain or packed by gzip, and has them read.

The files of a trace are in the folder of its name below the folder of all traces, or in that folder itself.
"""

from __future__ import annotations

import gzip
import zlib
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO, Final, cast

from koord.sim.cluster import Cluster
from koord.sim.mix import build
from koord.sim.scenario import Scenario
from koord.sim.traces.registry import READERS, reader
from koord.sim.traces.trace import Trace, TraceFault, TraceReader

JOINED_BY: Final = "+"


def cluster_of(scenario: Scenario, traces: Path, seed: int) -> Cluster:
    """The cluster of a scenario, from the folder that has the traces. A trace is read once."""
    services, batch = scenario.services, scenario.batch
    wanted = [(name.strip(), services.path) for name in services.trace.split(JOINED_BY)]
    opened = {source: read_trace(source[0], traces / source[1]) for source in (*wanted, (batch.trace, batch.path))}
    return build(scenario, [opened[source] for source in wanted], opened[batch.trace, batch.path], seed)


def read_trace(name: str, folder: Path) -> Trace:
    """A trace by the name of its reader."""
    source = reader(name)
    if source is None:
        raise TraceFault(name, None, f"is not a trace; valid: {', '.join(known.name for known in READERS)}")
    if (own := folder / source.folder).is_dir():
        folder = own
    with ExitStack() as stack:
        streams = {file: stack.enter_context(_opened(folder, file, source)) for file in source.files}
        try:
            return source.read(streams)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise TraceFault(str(folder), None, f"a packed file of {name} is damaged: {error}") from None


def _opened(folder: Path, file: str, source: TraceReader) -> BinaryIO:
    if (plain := folder / file).is_file():
        return plain.open("rb")
    if (packed := folder / f"{file}.gz").is_file():
        return cast("BinaryIO", gzip.open(packed, "rb"))
    needed = ", ".join(source.files)
    raise TraceFault(str(folder), None, f"trace {source.name} needs {needed} (or the same with .gz): {file} is missing")
