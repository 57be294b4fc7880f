"""How often others are made to go for one pod in vain.

Room that preemption made is kept for the pod as far as it is an amount. What pods are spread by, sought or shunned for
is not: whoever is made in a victim's place may be in the way again. Without an end to it, pods would be ended and made
again for ever. So after some such times nobody has to go for that pod, for a while.
"""

from __future__ import annotations

from typing import Final

MOST: Final = 5
REST_S: Final = 3600.0
MESSAGE: Final = (
    f"preemption: not tried again for now, since {MOST} times others took the place of those who had to go."
)


class Patience:
    """By pod, how often room was made for it. Its place, or its end, forgets that."""

    def __init__(self) -> None:
        self._made: dict[str, tuple[int, float]] = {}

    def room_was_made(self, key: str, now_s: float) -> None:
        number, _ = self._made.get(key, (0, now_s))
        self._made[key] = number + 1, now_s

    def forget(self, key: str) -> None:
        self._made.pop(key, None)

    def is_over(self, key: str, now_s: float) -> bool:
        """Whether nobody else should have to go for this pod."""
        number, last_s = self._made.get(key, (0, now_s))
        if number >= MOST and now_s - last_s >= REST_S:
            self.forget(key)
            return False
        return number >= MOST
