"""Whether a failed call is tried again, and after how long.

The wait doubles from `base_s` to `cap_s`, spread by up to half by a hash of (key, attempt): calls do not march in
step, and the same call waits the same time when replayed. A server's `Retry-After` is honoured as a minimum.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Final

REFUSED_UNDONE: Final = frozenset({429})
"""Codes with which a server says that it did not even begin: any verb may be sent again."""

TRANSIENT: Final = frozenset({500, 502, 503, 504})
"""Codes that may pass. Without a Retry-After only calls that change nothing are sent again."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and how patiently one call is tried."""

    attempts: int = 6
    base_s: float = 0.1
    cap_s: float = 10.0
    retry_after_cap_s: float = 60.0
    "A server that asks for a longer wait than this gets none: its error is raised at once."

    def delay_s(self, attempt: int, key: str, retry_after_s: float | None = None) -> float:
        """The wait after the failed attempt number `attempt` (from 1)."""
        return max(backoff_s(attempt, key, base_s=self.base_s, cap_s=self.cap_s), retry_after_s or 0.0)

    def again(self, attempt: int, code: int, *, safe: bool, retry_after_s: float | None) -> bool:
        """Whether an answer with this code is worth another attempt. `safe`: the call changes nothing."""
        if attempt >= self.attempts or (retry_after_s or 0.0) > self.retry_after_cap_s:
            return False
        return code in REFUSED_UNDONE or (code in TRANSIENT and (safe or retry_after_s is not None))


def backoff_s(attempt: int, key: str, *, base_s: float, cap_s: float) -> float:
    """Exponential wait before attempt `attempt + 1`, between half and all of the doubled base."""
    full = min(cap_s, base_s * 2.0 ** min(attempt - 1, 60))
    return full * (0.5 + 0.5 * fraction(f"{key}#{attempt}"))


def fraction(key: str) -> float:
    """A number in [0, 1) that depends on `key` alone."""
    return int.from_bytes(hashlib.blake2b(key.encode(), digest_size=7).digest(), "big") / 2**56


def retry_after_s(header: str | None, now_s: float) -> float | None:
    """What a Retry-After header asks for: seconds, or a date. None where it is absent or means nothing."""
    if not header:
        return None
    text = header.strip()
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - now_s)
    except (ValueError, TypeError, OverflowError):
        return None
