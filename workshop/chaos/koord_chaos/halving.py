"""Finds the parts of a failing list that matter: of a story, or of rounds of faults."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


async def halves(whole: Sequence[T], fails: Callable[[Sequence[T]], Awaitable[bool]]) -> list[T]:
    """A short list that still fails: drops parts of the list, halves first, as long as the rest fails."""
    kept, size = list(whole), max(1, len(whole) // 2)
    while True:
        dropped, start = False, 0
        while start < len(kept) and len(kept) > 1:
            rest = kept[:start] + kept[start + size :]
            if rest and await fails(rest):
                kept, dropped = rest, True
            else:
                start += size
        if size == 1 and not dropped:
            return kept
        size = max(1, size // 2)
