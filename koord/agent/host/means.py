"""Settings that no single file has: how they are read and made so.

A group of resctrl is a directory, and the tasks of a cgroup are in one of them, or have a cookie, one by one. The
executor treats these like any file: it reads a text, compares, keeps what was there, and writes another text.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from koord.agent.host.cgroups import Cgroups

MOST_PASSES: Final = 8
"""Tasks that are born while others are handled are found by looking again; the next round has those born after that."""


class Means(Protocol):
    def has(self, cgroups: Cgroups, directory: str) -> bool:
        """Whether this machine can do it."""
        ...

    def text(self, cgroups: Cgroups, directory: str, ours: Collection[str]) -> str:
        """What is so. `ours`: what the agent made of it, if it is known to have. Raises FileNotFoundError."""
        ...

    def put(self, cgroups: Cgroups, directory: str, text: str, ours: Collection[str]) -> None:
        """What `text` says becomes so."""
        ...

    def file(self, cgroups: Cgroups, directory: str) -> str:
        """Where it is seen, below the host's root."""
        ...

    def is_ours(self, original: str, wrote: Collection[str], shown: str) -> bool:
        """Whether what is shown is the agent's work, though perhaps half of it."""
        ...


def until_none_is_left(
    tasks: Callable[[], Iterable[int]],
    state_of: Callable[[], Callable[[int], str | None]],
    is_to_move: Callable[[str], bool],
    move: Callable[[int], None],
) -> None:
    """Moves tasks until all are where they should be: while one is moved another may be born of one that was not.

    `state_of` is called again in each pass; it answers None for a task that has ended.
    """
    for _ in range(MOST_PASSES):
        of = state_of()
        left = [task for task in tasks() if (now := of(task)) is not None and is_to_move(now)]
        if not left:
            return
        for task in left:
            try:
                move(task)
            except ProcessLookupError:
                continue


def parts(text: str) -> set[str]:
    """Of a text that lists in which states tasks are."""
    return set(text.split(",")) if text else set()


def numbers_of(what: str) -> Callable[[str], str]:
    """Reads a text whose states are numbers."""

    def read(text: str) -> str:
        if not all(part.isdecimal() for part in parts(text)):
            raise ValueError(f"{text[:60]!r} is not a list of {what}, which are numbers")
        return text

    return read


def none_but(shown: str, wanted: str) -> bool:
    """Whether no task is in another state; there may be none."""
    return parts(shown) <= parts(wanted)


def listed(states: Mapping[str, object] | Iterable[str]) -> str:
    return ",".join(sorted(states))
