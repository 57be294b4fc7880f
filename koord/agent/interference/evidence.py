"""The evidence log: for each container a small ring of what was found about it, in a file that stays small.

An entry has the time, the pod that suffered, the signal with its value, the suspects with figures, and the action.
The oldest entry of a ring goes first; of rings, the one that was written to longest ago. So neither a container that
suffers all day nor a node that has had many containers fills anything. Entries stay in the order in which they were
added: a clock that is set back puts no end before its beginning.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from koord.agent.interference.episode import BEGINS
from koord.api.machinery.codec import UNREADABLE

RING: Final = 32
"""Entries of one container; with the longest that there are, not more than 32 KiB."""
CONTAINERS: Final = 512
LISTED: Final = 5
"""Suspects of an entry."""


class SuspectFigures(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    pod: str
    score: float
    rise: float
    correlation: float
    direct: float | None = None
    use: float = 0.0


class Evidence(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    at: str
    step: str
    pod: str
    "The victim, as namespace/name."
    uid: str
    container: str
    signal: str
    value: float
    usual: float
    message: str
    "The episode so far, as a sentence."
    suspects: tuple[SuspectFigures, ...] = ()
    suspect: str = ""
    "The neighbour that the step is about."
    began: str = ""
    "When the episode did."
    what: str = ""
    "The part of the message that says what was found and done."


class EvidenceLog:
    def __init__(self, entries: Iterable[Evidence] = ()) -> None:
        self._rings: OrderedDict[tuple[str, str], deque[tuple[int, Evidence]]] = OrderedDict()
        self._added = 0
        for entry in entries:
            self.add(entry)

    def add(self, entry: Evidence) -> None:
        key = (entry.uid, entry.container)
        ring = self._rings.get(key)
        if ring is None:
            ring = self._rings[key] = deque(maxlen=RING)
        self._added += 1
        ring.append((self._added, entry))
        self._rings.move_to_end(key)
        while len(self._rings) > CONTAINERS:
            self._rings.popitem(last=False)

    def of(self, pod: str) -> list[Evidence]:
        """Of all containers of a pod, by `namespace/name`, oldest first; and the whole episodes of others in which it
        is the suspect: what it was held back for has an end, too."""
        episodes: list[list[tuple[int, Evidence]]] = []
        last: dict[str, list[tuple[int, Evidence]]] = {}
        for number, entry in self._numbered():
            if entry.step in BEGINS or entry.uid not in last:
                last[entry.uid] = []
                episodes.append(last[entry.uid])
            last[entry.uid].append((number, entry))
        own = [episode for episode in episodes if any(pod in (entry.pod, entry.suspect) for _, entry in episode)]
        return [entry for _, entry in sorted((one for episode in own for one in episode), key=lambda one: one[0])]

    def __iter__(self) -> Iterator[Evidence]:
        """In the order in which they were added."""
        return (entry for _, entry in self._numbered())

    def keep_last(self, count: int) -> None:
        """Of all containers together."""
        last = self._numbered()[-count:] if count > 0 else []
        self._rings.clear()
        for _, entry in last:
            self.add(entry)

    def _numbered(self) -> list[tuple[int, Evidence]]:
        return sorted(
            (numbered for ring in self._rings.values() for numbered in ring), key=lambda numbered: numbered[0]
        )

    def __len__(self) -> int:
        return sum(len(ring) for ring in self._rings.values())


def line(entry: Evidence) -> bytes:
    return msgspec.json.encode(entry) + b"\n"


def read(text: bytes) -> list[Evidence]:
    """Of a file; a line that was cut off, or is not an entry, is skipped."""
    entries = []
    for entry_line in text.splitlines():
        try:
            entries.append(msgspec.json.decode(entry_line, type=Evidence))
        except UNREADABLE:
            continue
    return entries
