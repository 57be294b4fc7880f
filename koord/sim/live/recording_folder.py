"""The folder of a recording: files that grow by packed parts, and a state that says how to continue it.

After each part the state says how long every file is and until when each source was read. A recording that was killed
cuts its files to these lengths, so nothing is written twice.
"""

from __future__ import annotations

import gzip
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from koord.api.machinery.faults import BadInput
from koord.api.machinery.struct import EMPTY, Struct
from koord.sim.history.rows import HEADERS, Cell, text_of
from koord.sim.scenario import API_VERSION, KIND
from koord.sim.traces.trace import Content

STATE: Final = "recording.json"
SCENARIO: Final = "scenario.yaml"
WRITTEN_BY: Final = "# Written by koord sim record. Remove this line to keep your changes."
VERSION: Final = 1
MINUTE_S: Final = 60


class RecordingState(Struct):
    version: int
    source: str
    "What is recorded: a cluster or a Prometheus."
    sizes: Mapping[str, int] = EMPTY
    "Bytes by file."
    until_s: Mapping[str, float] = EMPTY
    "The time of the last sample, by node of a cluster, or of all."
    first_s: float | None = None
    last_s: float | None = None


class RecordingFolder:
    """Opened once for a recording; `append` writes a part."""

    def __init__(self, folder: Path, source: str, most_bytes: int) -> None:
        self._folder, self._most_bytes = folder, most_bytes
        self.state = _continued(folder, source)

    @property
    def bytes(self) -> int:
        return sum(self.state.sizes.values())

    @property
    def is_full(self) -> bool:
        return self.bytes >= self._most_bytes

    def append(
        self, lines: Mapping[Content, list[tuple[Cell, ...]]], until_s: Mapping[str, float], times_s: tuple[float, ...]
    ) -> None:
        """Writes lines, then the state that counts them. Before the first sample nothing is written: a recording that
        never begins leaves no folder."""
        if not times_s and self.state.first_s is None:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        sizes = dict(self.state.sizes)
        for content, part in lines.items():
            name = file_name(content)
            if name not in sizes:
                sizes[name] = 0
                part = [HEADERS[content], *part]
            if not part:
                continue
            with (self._folder / name).open("ab") as file:
                file.write(gzip.compress(text_of(part).encode(), compresslevel=6, mtime=0))
                file.flush()
                os.fsync(file.fileno())
                sizes[name] = file.tell()
        times = [time_s for time_s in (self.state.first_s, self.state.last_s, *times_s) if time_s is not None]
        self.state = RecordingState(
            version=VERSION,
            source=self.state.source,
            sizes=sizes,
            until_s={**self.state.until_s, **until_s},
            first_s=min(times, default=None),
            last_s=max(times, default=None),
        )
        _replace(self._folder / STATE, msgspec.json.format(msgspec.json.encode(self.state)) + b"\n")

    def write_scenario(self) -> None:
        """A scenario that simulates the recording, unless the user has made it their own."""
        file = self._folder / SCENARIO
        if file.exists() and not file.read_text().startswith(WRITTEN_BY):
            return
        first_s, last_s = self.state.first_s or 0.0, self.state.last_s or 0.0
        minutes = max(1, int((last_s - first_s) // MINUTE_S) + 1)
        text = "\n".join(
            (
                WRITTEN_BY,
                f"apiVersion: {API_VERSION}",
                f"kind: {KIND}",
                "name: recording",
                f"duration: {minutes}m",
                "services: {trace: table}",
                "batch: {trace: table}",
                "",
            )
        )
        _replace(file, text.encode())


def file_name(content: Content) -> str:
    return f"{content}.csv.gz"


def _continued(folder: Path, source: str) -> RecordingState:
    """The state of a folder: its own if it has a recording of this source, else a new one."""
    file = folder / STATE
    if not file.exists():
        if folder.exists() and not folder.is_dir():
            raise BadInput(f"{folder}: is a file; name a folder for the recording")
        if folder.exists() and any(folder.iterdir()):
            raise BadInput(f"{folder}: has other files and no {STATE}: name a folder that is empty or does not exist")
        return RecordingState(VERSION, source)
    try:
        state = msgspec.json.decode(file.read_bytes(), type=RecordingState)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"{file}: is damaged ({error}); remove the folder to record again") from None
    if state.version != VERSION:
        raise BadInput(f"{file}: version {state.version} is not supported, this koord writes {VERSION}")
    if state.source != source:
        raise BadInput(f"{folder}: is a recording of {state.source}, not of {source}: name another folder")
    for name, size in state.sizes.items():
        path = folder / name
        if not path.is_file() or path.stat().st_size < size:
            raise BadInput(f"{path}: is missing or shorter than {STATE} says; remove the folder to record again")
        os.truncate(path, size)
    for content in HEADERS:
        if (path := folder / file_name(content)).exists() and path.name not in state.sizes:
            path.unlink()
    return state


def _replace(file: Path, content: bytes) -> None:
    new = file.with_name(f".{file.name}.new")
    with new.open("wb") as opened:
        opened.write(content)
        opened.flush()
        os.fsync(opened.fileno())
    os.replace(new, file)
