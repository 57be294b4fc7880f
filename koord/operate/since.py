"""How far back: `7d`, `12h`, `90m`, `30s`."""

from __future__ import annotations

import re
from typing import Final

from koord.api.text.whole_number import whole_number

UNITS: Final = {"w": 7 * 86400.0, "d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0}
LONGEST_S: Final = 366 * 86400.0
_PART: Final = re.compile(r"([0-9]+)([wdhms])")


def parse(text: str) -> float:
    """In seconds. Raises ValueError."""
    if not re.fullmatch(rf"({_PART.pattern})+", text):
        raise ValueError(f"{text!r}: must be numbers with w, d, h, m or s, as in 7d or 1h30m")
    seconds = sum(whole_number(number) * UNITS[unit] for number, unit in _PART.findall(text))
    if not 0 < seconds <= LONGEST_S:
        raise ValueError(f"{text!r}: must be more than nothing and at most {said(LONGEST_S)}")
    return seconds


def said(seconds: float) -> str:
    """In the two largest units, rounded down."""
    left, parts = int(seconds), []
    for unit in ("d", "h", "m", "s"):
        number, left = divmod(left, int(UNITS[unit]))
        if number:
            parts.append(f"{number}{unit}")
    return "".join(parts[:2]) or "0s"
