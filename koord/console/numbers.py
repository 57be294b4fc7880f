"""Numbers and times in sentences, as people read them: 2 to 4 digits, units, no false precision."""

from __future__ import annotations

import re
from functools import lru_cache

from koord.api.text.counted import counted

__all__ = ("bytes_text", "cores", "counted", "duration", "natural", "percent", "share")

GIB = 1 << 30
_DIGITS = re.compile(r"([0-9]+)")


@lru_cache(maxsize=1 << 14)
def natural(name: str) -> tuple[tuple[str, int], ...]:
    """Sorts names as people count: n2 before n10."""
    parts = _DIGITS.split(name)
    return tuple((text, int(digits)) for text, digits in zip(parts[::2], [*parts[1::2], "0"], strict=True))


def cores(milli: int) -> str:
    """`6.0`, `430`, `1,042`."""
    value = milli / 1000
    return f"{value:,.1f}" if abs(value) < 100 and milli % 1000 else f"{round(value):,}"


def bytes_text(amount: int) -> str:
    value = amount / GIB
    return f"{value:,.1f} GiB" if abs(value) < 100 else f"{round(value):,} GiB"


def percent(permille: int) -> str:
    return f"{round(permille / 10)}%"


def share(part: int, whole: int) -> int:
    """Thousandths; 0 of nothing."""
    return round(1000 * part / whole) if whole else 0


def duration(seconds: float) -> str:
    """`12 s`, `6 min 12 s`, `3 h 5 min`, `4 days`."""
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        minutes, rest = divmod(whole, 60)
        return f"{minutes} min" + (f" {rest} s" if rest and minutes < 10 else "")
    if whole < 2 * 86400:
        hours, rest = divmod(whole // 60, 60)
        return f"{hours} h" + (f" {rest} min" if rest else "")
    return f"{whole // 86400} days"
