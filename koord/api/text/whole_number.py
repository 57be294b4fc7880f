"""Integers in texts that others wrote, however many digits they have."""

from __future__ import annotations

from typing import Final

BEYOND: Final = 1 << 64
"""What stands for any integer that is larger than 64 bits hold: nothing here counts so far."""
_MOST_DIGITS: Final = 20


def whole_number(text: str) -> int:
    """The integer that a text of digits, with or without a sign, says: `BEYOND` or its negative where it is larger.

    Python reads no more than some thousand digits, and takes longer than in proportion to them.
    """
    negative, digits = text.startswith("-"), text.lstrip("+-").lstrip("0")
    magnitude = min(int(digits or "0"), BEYOND) if len(digits) <= _MOST_DIGITS else BEYOND
    return -magnitude if negative else magnitude
