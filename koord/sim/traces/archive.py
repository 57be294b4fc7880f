"""Arrays of a NumPy archive (.npz), checked: names, dimensions and numbers."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from typing import Any, BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from koord.sim.traces.trace import TraceFault

MOST_BYTES: Final = 2 << 30


def arrays(stream: BinaryIO, file: str) -> Mapping[str, NDArray[Any]]:
    """All arrays of the archive; pickled objects are refused, and what would fill memory."""
    try:
        with zipfile.ZipFile(stream) as archive:
            unpacked = sum(entry.file_size for entry in archive.infolist())
        if unpacked > MOST_BYTES:
            raise TraceFault(file, None, f"has {unpacked >> 20} MiB of arrays, and at most {MOST_BYTES >> 20} are read")
        stream.seek(0)
        with np.load(stream, allow_pickle=False) as loaded:
            return {name: loaded[name] for name in loaded.files}
    except TraceFault:
        raise
    except (ValueError, OSError, EOFError, MemoryError, zipfile.BadZipFile, AttributeError) as error:
        raise TraceFault(file, None, f"is not a NumPy archive: {error}") from None


def numbers(archive: Mapping[str, NDArray[Any]], file: str, name: str, dimensions: int) -> NDArray[Any]:
    array = archive.get(name)
    if array is None:
        raise TraceFault(file, None, f"array {name} is missing; it has {', '.join(archive) or 'none'}")
    if array.ndim != dimensions or array.dtype.kind not in "iuf":
        raise TraceFault(
            file, None, f"array {name} must have {dimensions} dimensions of numbers, not {array.ndim} of {array.dtype}"
        )
    return array
