"""Statuses that were written and not seen on their objects yet, for plugins that write the status of objects.

A write that is on its way may still change an object after it was seen with the right status, and a write may be lost:
the object was gone for a moment, or another client wrote over it. So a plugin must not trust that a written status is
there. A status that is not seen within a few seconds is forgotten, and the plugin looks at the object again.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, Generic, TypeVar

SEEN_WITHIN_S: Final = 5.0

W = TypeVar("W")


class PendingStatuses(Generic[W]):
    """The last status written to each object, by its key."""

    def __init__(self) -> None:
        self._statuses: OrderedDict[str, tuple[str, W, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._statuses)

    def last(self, key: str, uid: str) -> W | None:
        """The status that was written and not seen yet; None if there is none, or the object is another one."""
        status = self._statuses.get(key)
        return None if status is None or status[0] != uid else status[1]

    def sent(self, key: str, uid: str, status: W, now_s: float) -> None:
        self._statuses[key] = uid, status, now_s
        self._statuses.move_to_end(key)

    def heard(self, key: str) -> None:
        """The object has the status, or it is gone."""
        self._statuses.pop(key, None)

    def take_lost(self, now_s: float) -> list[str]:
        """Objects whose status should have been seen by this time: no write is on its way to them any more."""
        lost = []
        while (first := next(iter(self._statuses.items()), None)) is not None and now_s >= first[1][2] + SEEN_WITHIN_S:
            lost.append(first[0])
            del self._statuses[first[0]]
        return lost

    def next_s(self) -> float | None:
        """When to ask for lost writes again."""
        first = next(iter(self._statuses.values()), None)
        return None if first is None else first[2] + SEEN_WITHIN_S
