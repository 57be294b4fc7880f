"""Integers in texts that others wrote, however many digits they have, and in whichever script.

Python's `int` refuses more than some thousand digits, takes longer than in proportion to them, and reads digits of all
scripts; `str.isdigit` accepts characters that `int` refuses. Every text of a stranger is read here.
"""

from __future__ import annotations

from typing import Final

BEYOND: Final = 1 << 64
"""What stands for any integer that is larger than 64 bits hold: nothing here counts so far."""
INT32_MOST: Final = (1 << 31) - 1
INT64_MOST: Final = (1 << 63) - 1
_MOST_DIGITS: Final = 20


def whole_number(text: str) -> int:
    """The integer that a text of digits, with or without a sign, says: `BEYOND` or its negative where it is larger."""
    negative, digits = text.startswith("-"), text.lstrip("+-").lstrip("0")
    magnitude = min(int(digits or "0"), BEYOND) if len(digits) <= _MOST_DIGITS else BEYOND
    return -magnitude if negative else magnitude


def natural_number(text: str, most: int = INT64_MOST) -> int | None:
    """The number that a text of nothing but digits says; None for any other text, and for more than `most`."""
    if not (text.isascii() and text.isdigit()):
        return None
    number = whole_number(text)
    return number if number <= most else None
