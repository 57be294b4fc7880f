"""What plugins must know of pods on nodes: their CPUs, devices, reservation, gang, quota.

A note is made from the pod itself whenever the pod is put, kept in its record, and counted as the record comes and
goes. So a restart, a re-list, a node that flaps and a new configuration all lead to the same state: put everything
again. One `Notes` counts for all profiles of a cluster; plugins find it by `cluster.notes`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import ClassVar, TypeAlias

from koord.api.kubernetes.pod import Pod
from koord.scheduler.state.pods import PodRecord
from koord.scheduler.state.table import Row
from koord.scheduler.state.watchers import Index

NotesOf: TypeAlias = tuple[tuple[str, object], ...]
"""By the name of who made them, sorted. Notes are values: equal ones mean the same."""


class Notes(Index):
    """Makes one plugin's notes, and counts them. It keeps its own state by `moved` alone, which is also told of what is
    undone; columns are written through the table. As an index, it may look at nodes as well."""

    name: ClassVar[str]
    from_pod: ClassVar[bool] = True
    """Whether the pod itself says all of it. A note that it cannot say (what was promised before its binding) stays as
    it was when the pod is put again on the same node."""

    def of(self, pod: Pod) -> object | None:
        """What a pod says of itself; None where it has nothing to note."""
        return None

    def cells(self, note: object, row: Row) -> Iterable[tuple[Hashable, int]]:
        """What a pod with this note adds to columns of its row, which a view gives back to whoever does not see it."""
        return ()

    def moved(self, note: object, record: PodRecord, row: Row, sign: int) -> None:
        """A pod with this note came to a row (+1), or left it (-1)."""
        raise NotImplementedError(type(self).__name__)


def with_note(notes: NotesOf, name: str, note: object | None) -> NotesOf:
    """The same with another note under a name, or without one."""
    others = [each for each in notes if each[0] != name]
    return tuple(sorted([*others, (name, note)] if note is not None else others, key=lambda each: each[0]))
