"""Checks that remember what they found flawless, and pass over it the next time.

Objects of one template have most of their parts in common, and one object is checked more than once. To write a part
as JSON costs a fraction of looking at it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

import msgspec

from koord_minicluster.apiserver.status import Cause

MOST_PARTS: Final = 1024
"Of each check."
MOST_BYTES: Final = 2048
"Of a part that is remembered."

P = TypeVar("P")


def remembering(check: Callable[[list[Cause], P, str], None]) -> Callable[[list[Cause], P, str], None]:
    """The same check, of a part at a path. It must look at nothing but the part."""
    flawless: set[bytes] = set()
    encode = msgspec.json.Encoder().encode

    def checked(faults: list[Cause], part: P, path: str) -> None:
        text = encode(part)
        if text in flawless:
            return
        before = len(faults)
        check(faults, part, path)
        if len(faults) == before and len(text) <= MOST_BYTES:
            if len(flawless) >= MOST_PARTS:
                flawless.clear()
            flawless.add(text)

    return checked
