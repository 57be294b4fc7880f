"""What every source of cold memory answers: bytes of page cache that were not used for COLD_S, or for longer."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple, Protocol

COLD_S: Final = 300.0
"""Page cache that was used later than this counts as hot."""


class ColdReading(NamedTuple):
    node: int | None
    "None: the source does not tell it of the node as a whole."
    by_directory: Mapping[str, int]
    "Bytes of a cgroup and all below; those that the source knows nothing of are missing."


class ColdSource(Protocol):
    @property
    def name(self) -> str:
        """The kernel's own means, as `koord agent --features` says it."""

    def look(self, directories: Collection[str], now_s: float) -> ColdReading | None:
        """None while nothing is known yet."""


def above(directory: str) -> list[str]:
    """A directory and all those that it lies in, the root ("") included."""
    parts = directory.split("/") if directory else []
    return ["/".join(parts[:end]) for end in range(len(parts) + 1)]
