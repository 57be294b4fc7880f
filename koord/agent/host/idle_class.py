"""The idle class of a directory, with the weight that goes with it.

The kernel has one weight for all that is in the idle class, and refuses another. Whatever comes out of the class gets
the weight of a new directory, not the one that it had: so the two are read together, and put back together.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from koord.agent.host.cgroups import Cgroups

_FILE: Final = "cpu.idle"
_OUT: Final = "0"


@dataclass(frozen=True, slots=True)
class IdleClass:
    """Its texts: `1`; `0 512` for a directory that is not in the class, with its weight."""

    controller: str
    weight: str
    "The file."
    of_new: str
    "What a new directory has, and one that has just come out."

    def has(self, cgroups: Cgroups, directory: str) -> bool:
        return cgroups.files.exists(self.file(cgroups, directory))

    def text(self, cgroups: Cgroups, directory: str, ours: Collection[str]) -> str:
        text = cgroups.files.once(self.file(cgroups, directory)).decode().strip()
        if text != _OUT:
            return text
        return f"{text} {cgroups.files.once(self._weight(cgroups, directory)).decode().strip()}"

    def put(self, cgroups: Cgroups, directory: str, text: str, ours: Collection[str]) -> None:
        is_in, _, weight = text.partition(" ")
        cgroups.files.write(self.file(cgroups, directory), is_in)
        if weight:
            cgroups.files.write(self._weight(cgroups, directory), weight)

    def file(self, cgroups: Cgroups, directory: str) -> str:
        return cgroups.name(self.controller, directory, _FILE)

    def is_ours(self, original: str, wrote: Collection[str], shown: str) -> bool:
        """An agent that was killed between the two writes left the weight of a new directory."""
        return shown in wrote or (original.startswith(f"{_OUT} ") and shown == f"{_OUT} {self.of_new}")

    def _weight(self, cgroups: Cgroups, directory: str) -> str:
        return cgroups.name(self.controller, directory, self.weight)


def weighing(text: str, weight: str) -> str:
    """The same with another weight."""
    return f"{_OUT} {weight}" if text.startswith(f"{_OUT} ") else text


def read(text: str) -> int:
    return int(text.split()[0])


def says(shown: str, wanted: str) -> bool:
    """A text without a weight says nothing of it."""
    return shown == wanted or shown.split()[:1] == wanted.split()
