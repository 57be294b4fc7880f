"""Clocks that jump and disks that are slow, for child processes, by a small library that is loaded into them.

The library is built with the machine's C compiler. Without one these faults are left out.
"""

from __future__ import annotations

import mmap
import shutil
import struct
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from koord.api.machinery.faults import BadInput

SOURCE: Final = Path(__file__).with_name("preload.c")
LIBRARY: Final = "preload.so"
NS: Final = 1_000_000_000


def build(folder: Path) -> Path | None:
    """The library, built in the folder; None if this machine has no C compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    library = folder / LIBRARY
    command = [compiler, "-shared", "-fPIC", "-O2", "-o", str(library), str(SOURCE), "-ldl"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        raise BadInput(f"{' '.join(command)}: {result.stderr.strip()}")
    return library


class Control:
    """What a process that runs with `environment` experiences."""

    def __init__(self, library: Path, path: Path) -> None:
        self._library, self._path = library, path
        path.write_bytes(bytes(16))
        with path.open("r+b") as file:
            self._mapped = mmap.mmap(file.fileno(), 16)

    @property
    def environment(self) -> Mapping[str, str]:
        return {"LD_PRELOAD": str(self._library), "KOORD_CHAOS_CONTROL": str(self._path)}

    def jump(self, seconds: float) -> None:
        """By how much the clock of the day is ahead of the machine's."""
        struct.pack_into("q", self._mapped, 0, int(seconds * NS))

    def slow(self, seconds: float) -> None:
        """How long each sync to disk waits first."""
        struct.pack_into("q", self._mapped, 8, int(seconds * NS))
