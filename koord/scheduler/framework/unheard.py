"""What objects were told to say and have not been heard to say yet, for plugins that write the status of objects.

A word that is on its way may still change an object after it was heard to say the right thing, and a word may be lost:
the object was gone for a moment, or somebody else wrote over it. So nobody may trust that what was sent is said. A
word that is not heard within a few seconds is forgotten, and whoever sent it looks at the object again.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, Generic, TypeVar

HEARD_WITHIN_S: Final = 5.0

W = TypeVar("W")


class Unheard(Generic[W]):
    """The last word to each object, by its key."""

    def __init__(self) -> None:
        self._words: OrderedDict[str, tuple[str, W, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._words)

    def last(self, key: str, uid: str) -> W | None:
        """What an object was told and has not been heard to say; None where there is nothing, or it is another one."""
        found = self._words.get(key)
        return None if found is None or found[0] != uid else found[1]

    def sent(self, key: str, uid: str, word: W, now_s: float) -> None:
        self._words[key] = uid, word, now_s
        self._words.move_to_end(key)

    def heard(self, key: str) -> None:
        """It says so, or it is gone."""
        self._words.pop(key, None)

    def take_lost(self, now_s: float) -> list[str]:
        """Objects that should have been heard to say it by this time: nothing is on its way to them any more."""
        lost = []
        while (first := next(iter(self._words.items()), None)) is not None and now_s >= first[1][2] + HEARD_WITHIN_S:
            lost.append(first[0])
            del self._words[first[0]]
        return lost

    def next_s(self) -> float | None:
        """When to ask for lost words again."""
        first = next(iter(self._words.values()), None)
        return None if first is None else first[2] + HEARD_WITHIN_S
