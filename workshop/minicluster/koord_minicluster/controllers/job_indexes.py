"""Sets of completion indexes as a Job's status writes them: `0-2,5` is 0, 1, 2 and 5."""

from __future__ import annotations

from collections.abc import Iterable

from koord.api.text.whole_number import natural_number


def parse(text: str, completions: int) -> frozenset[int]:
    """The indexes below `completions`. Parsing stops at the first invalid part, which another writer added."""
    indexes: set[int] = set()
    for part in text.split(",") if text else ():
        first, _, last = part.partition("-")
        begins, ends = natural_number(first), natural_number(last or first)
        if begins is None or ends is None:
            break
        indexes.update(range(begins, min(ends + 1, completions)))
    return frozenset(indexes)


def text(indexes: Iterable[int]) -> str:
    """Three or more in a row are written as a range, two side by side as `1,2`."""
    parts: list[str] = []
    ordered = sorted(set(indexes))
    start = 0
    for i in range(1, len(ordered) + 1):
        if i < len(ordered) and ordered[i] == ordered[i - 1] + 1:
            continue
        first, last = ordered[start], ordered[i - 1]
        match last - first:
            case 0:
                parts.append(str(first))
            case 1:
                parts += [str(first), str(last)]
            case _:
                parts.append(f"{first}-{last}")
        start = i
    return ",".join(parts)
