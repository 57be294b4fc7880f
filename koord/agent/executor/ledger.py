"""What was there before the agent wrote, so that it can be put back.

An entry is made before the first write to a spot, and kept on disk: an agent that was killed, and another that comes
after it, know what to undo. When a strategy no longer wants a setting, the first value is put back. If the spot no
longer shows what the agent wrote, another program has taken over, and the agent leaves it alone.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator

import msgspec

from koord.agent.executor.write import Spot, Write
from koord.agent.host.all_knobs import knob_named
from koord.agent.host.cgroups import is_inside
from koord.agent.host.knobs import Knob, Place
from koord.api.machinery.codec import UNREADABLE
from koord.api.machinery.faults import BadInput

_PROCESS = re.compile("[0-9]{1,10}@[0-9]{1,20}")


class Entry(msgspec.Struct, frozen=True):
    knob: str
    directory: str
    by: str
    found: str
    "In the kernel's own words."
    wrote: tuple[str, ...]
    "What the spot may show of ours: an agent killed between two writes left one or the other."
    own: int | None = None
    "What the pod's spec gave the spot when `found` was last known to hold."
    process: str = ""
    "Of a setting of processes, which one: its number and its start."

    @property
    def spot(self) -> Spot:
        return Spot(self.knob, self.directory, self.process)


class LedgerError(BadInput):
    """A ledger on disk that cannot be followed."""


class Ledger:
    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self._entries = {entry.spot: entry for entry in entries}
        self.is_dirty = False
        "Whether it differs from what is on disk."

    @classmethod
    def parse(cls, text: bytes) -> Ledger:
        try:
            entries = msgspec.json.decode(text, type=list[Entry])
        except UNREADABLE as error:
            raise LedgerError(f"the record of what the agent changed is damaged: {error}") from error
        faults = [f"entry {at}: {fault}" for at, entry in enumerate(entries) if (fault := _fault(entry))]
        if faults:
            raise LedgerError(f"the record of what the agent changed is damaged: {'; '.join(faults)}")
        return cls(entries)

    def text(self) -> bytes:
        return msgspec.json.encode(list(self._entries.values()))

    def __iter__(self) -> Iterator[Entry]:
        return iter(list(self._entries.values()))

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, spot: Spot) -> bool:
        return spot in self._entries

    def any_in(self, knob: str, directory: str) -> Entry | None:
        """Of a setting of processes: that of any of them."""
        return next(
            (entry for entry in self._entries.values() if (entry.knob, entry.directory) == (knob, directory)), None
        )

    def get(self, spot: Spot) -> Entry | None:
        return self._entries.get(spot)

    def intend(self, write: Write, original: str, on_the_way: Iterable[str]) -> None:
        """Before the spot is written: what it holds is remembered, unless that is ours; and all that it may show soon.

        `found` is what is put back: what was there first, or what another program wrote there since.
        """
        before = self._entries.get(write.spot)
        wrote = dict.fromkeys([*(before.wrote if before else ()), *on_the_way])
        own = write.own if write.own is not None or before is None else before.own
        self._entries[write.spot] = Entry(
            write.knob.name, write.directory, write.by, original, tuple(wrote), own, write.process
        )
        self.is_dirty = True

    def give_own(self, spot: Spot, own: int, text: str) -> None:
        """The pod's spec gives the spot another value: that is put back, though the spot may still show ours."""
        entry = self._entries[spot]
        original = text if entry.own is not None else entry.found
        self._entries[spot] = msgspec.structs.replace(entry, own=own, found=original)
        self.is_dirty = True

    def settle(self, spot: Spot, text: str) -> None:
        """It shows this. Not worth a write to disk: there it says more, and all of it was ours."""
        if (entry := self._entries.get(spot)) is not None:
            self._entries[spot] = msgspec.structs.replace(entry, wrote=(text,))

    def forget(self, spot: Spot) -> None:
        if self._entries.pop(spot, None) is not None:
            self.is_dirty = True

    def unwanted(self, ran: Collection[str], wanted: Collection[Spot]) -> list[Entry]:
        """Spots of strategies that ran, and that no strategy wants any more."""
        return [entry for spot, entry in self._entries.items() if spot not in wanted and entry.by in ran]


def _fault(entry: Entry) -> str | None:
    """Why an entry cannot be put back. What only another version of the agent can set is no fault."""
    if entry.directory.startswith("/") or not is_inside(entry.directory):
        return f"directory {entry.directory!r}: must be the name of a cgroup below the node's root, without '..'"
    if entry.process and not _PROCESS.fullmatch(entry.process):
        return f"process {entry.process!r}: must be NUMBER@START"
    knob = knob_of(entry)
    for place in (knob.v1, knob.v2) if knob else ():
        if place is not None and _reads(place, entry.found):
            return None
    return f"found {entry.found!r}: not a value of {entry.knob}" if knob else None


def _reads(place: Place, text: str) -> bool:
    try:
        place.form.read(text)
    except (ValueError, IndexError, ZeroDivisionError):
        return False
    return True


def knob_of(entry: Entry) -> Knob | None:
    """None for what only another version of the agent can set."""
    return knob_named(entry.knob)
