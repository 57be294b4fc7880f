"""Pods that hold room for others, and the pods inside: what each is counted with, so that nothing counts twice.

What pods inside a room have comes out of what its holder has. So the holder is counted with the rest alone:

    rest = max(0, held - had by those inside)       and together they are max(held, had by those inside)

One `Insiders` keeps this for one kind of notes: devices, CPUs and NUMA amounts, estimates of load. It depends only on
the pods on the row, not on their order: a restart, a node that flaps and an undo lead to the same result.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Final, Generic, NamedTuple, TypeAlias, TypeVar

from koord.scheduler.state.pods import PodRecord
from koord.scheduler.state.table import Row

N = TypeVar("N")
NAME: Final = "Reservation"
"""Under which a pod's record has the note about rooms."""


class StandsFor(NamedTuple):
    """A note: the pod stands for this reservation."""

    uid: str
    takes: tuple[tuple[str, str], ...] = ()
    "Keys and uids of pods that it takes over, until they say so themselves."


class CameOutOf(NamedTuple):
    """A note: the pod uses this reservation."""

    uid: str
    name: str


RoomNote: TypeAlias = StandsFor | CameOutOf


def room_note(record: PodRecord) -> RoomNote | None:
    """What a pod has to do with a room."""
    for name, note in record.notes:
        if name == NAME and isinstance(note, (StandsFor, CameOutOf)):
            return note
    return None


@dataclass(slots=True)
class _Room(Generic[N]):
    holder: tuple[PodRecord, N] | None = None
    "The pod that holds it, and its note."
    inside: dict[str, N] = field(default_factory=dict)
    rest: N | None = None
    "What the holder is counted with."


class Insiders(Generic[N]):
    """`rest`: what is left of a note on a row, without the notes of those inside."""

    def __init__(self, rest: Callable[[N, Collection[N], Row], N]) -> None:
        self._rest = rest
        self._rooms: dict[Row, dict[str, _Room[N]]] = {}

    def moved(self, note: N, record: PodRecord, row: Row, sign: int) -> list[tuple[PodRecord, N, int]]:
        """A pod came (+1) or left (-1): the pods and notes that count from now on (+1), or no longer (-1)."""
        about = room_note(record) if len(record.notes) > 1 else None
        if about is None:
            return [(record, note, sign)]
        rooms = self._rooms.setdefault(row, {})
        room = rooms.setdefault(about.uid, _Room())
        changed: list[tuple[PodRecord, N, int]] = []
        if room.holder is not None and room.rest is not None:
            changed.append((room.holder[0], room.rest, -1))
        if isinstance(about, StandsFor):
            room.holder = (record, note) if sign > 0 else None
        elif sign > 0:
            room.inside[record.key] = note
            changed.append((record, note, +1))
        else:
            del room.inside[record.key]
            changed.append((record, note, -1))
        room.rest = None
        if room.holder is not None:
            room.rest = self._rest(room.holder[1], room.inside.values(), row)
            changed.append((room.holder[0], room.rest, +1))
        elif not room.inside:
            del rooms[about.uid]
            if not rooms:
                del self._rooms[row]
        return changed

    def counted(self, note: N, record: PodRecord, row: Row) -> N:
        """What a pod on a row is counted with, which has this note."""
        room = self._of_holder(record, row)
        return note if room is None or room.rest is None else room.rest

    def recount(self, note: N, record: PodRecord, row: Row) -> N:
        """The same if the rest of a note may have changed: the caller counts the whole row again."""
        room = self._of_holder(record, row)
        if room is None or room.holder is None:
            return note
        room.rest = self._rest(room.holder[1], room.inside.values(), row)
        return room.rest

    def _of_holder(self, record: PodRecord, row: Row) -> _Room[N] | None:
        about = room_note(record) if len(record.notes) > 1 else None
        return self._rooms.get(row, {}).get(about.uid) if isinstance(about, StandsFor) else None
