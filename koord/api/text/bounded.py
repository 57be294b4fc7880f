"""Files that are read as a whole: of a bounded size, so that a wrong path does not fill memory."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from koord.api.machinery.faults import BadInput

MIB: Final = 1 << 20


def read_bounded(file: Path, most_mib: int, what: str) -> bytes:
    """The content. `what`: what the file should be, as in "a scenario".

    Raises `BadInput` if it is larger, and `OSError` if it cannot be read."""
    with file.open("rb") as stream:
        content = stream.read(most_mib * MIB + 1)
    if len(content) > most_mib * MIB:
        raise BadInput(f"{file}: has more than {most_mib} MiB: is it {what}?")
    return content
