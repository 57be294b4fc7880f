"""Arrays of a NumPy archive (.npz), checked: names, dimensions and numbers."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from koord.sim.traces.trace import TraceFault


def arrays(stream: BinaryIO, file: str) -> Mapping[str, NDArray[Any]]:
    """All arrays of the archive; pickled objects are refused."""
    try:
        with np.load(stream, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (ValueError, OSError, EOFError, zipfile.BadZipFile, AttributeError) as error:
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
