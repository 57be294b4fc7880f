"""Crane's detection: two counters for each rule of a NodeQOS.

A value above the watermark counts up *triggered* and clears *restored*; one at or below it counts up *restored*. The
rule is triggered from `avoidance_threshold` values on, and stays so until `restore_threshold` values in a row were not
above the watermark.

With 2 and 2: above, above -> triggered; below -> still; above -> triggered at once; below, below -> restored.
"""

from __future__ import annotations

from typing import Literal, NamedTuple


class Counters(NamedTuple):
    triggered: int = 0
    restored: int = 0


def detect(
    before: Counters, *, is_above: bool, avoidance_threshold: int = 1, restore_threshold: int = 1
) -> tuple[Counters, Literal["", "Triggered", "Restored"]]:
    """The counters after one more value, and what that value brought about."""
    triggered, restored = before
    if is_above:
        triggered += 1
        return Counters(triggered, 0), "Triggered" if triggered >= avoidance_threshold else ""
    restored += 1
    if triggered >= avoidance_threshold and restored >= restore_threshold:
        return Counters(0, restored), "Restored"
    return Counters(triggered, restored), ""
