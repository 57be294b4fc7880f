"""What was there before the agent wrote, so that it can be put back.

An entry is made before the first write to a spot, and kept on disk: an agent that was killed, and another that comes
after it, know what to undo. What a strategy no longer wants is put back as it was found. Where the spot no longer
shows what the agent wrote, somebody else has taken over, and it is left to them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

import msgspec

from koord.agent.executor.write import Spot, Write
from koord.agent.host.knobs import KNOBS, Knob

_BY_NAME = {knob.name: knob for knob in KNOBS}


class Entry(msgspec.Struct, frozen=True):
    knob: str
    directory: str
    by: str
    found: str
    "In the kernel's own words."
    wrote: tuple[str, ...]
    "What the spot may show of ours: an agent killed between two writes left one or the other."

    @property
    def spot(self) -> Spot:
        return Spot(self.knob, self.directory)


class LedgerError(ValueError):
    """A ledger on disk that cannot be read."""


class Ledger:
    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self._entries = {entry.spot: entry for entry in entries}
        self.is_dirty = False
        "Whether it differs from what is on disk."

    @classmethod
    def parse(cls, text: bytes) -> Ledger:
        try:
            return cls(msgspec.json.decode(text, type=list[Entry]))
        except msgspec.MsgspecError as error:
            raise LedgerError(f"the record of what the agent changed is damaged: {error}") from error

    def text(self) -> bytes:
        return msgspec.json.encode(list(self._entries.values()))

    def __iter__(self) -> Iterator[Entry]:
        return iter(list(self._entries.values()))

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, spot: Spot) -> bool:
        return spot in self._entries

    def get(self, spot: Spot) -> Entry | None:
        return self._entries.get(spot)

    def intend(self, write: Write, found: str, on_the_way: Iterable[str]) -> None:
        """Before the spot is written: what it holds is remembered once, and all that it may show soon."""
        before = self._entries.get(write.spot)
        first = found if before is None else before.found
        wrote = dict.fromkeys([*(before.wrote if before else ()), *on_the_way])
        self._entries[write.spot] = Entry(write.knob.name, write.directory, write.by, first, tuple(wrote))
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


def knob_of(entry: Entry) -> Knob | None:
    """None for what only another version of the agent can set."""
    return _BY_NAME.get(entry.knob)
