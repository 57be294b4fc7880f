"""How often pods are preempted in vain for one pod.

Amounts that preemption freed are kept for the pod. Topology spread, affinity and anti-affinity are not: the pod that
replaces a victim may be in the way again. Without a limit, pods would be preempted and replaced for ever. So after
`MOST` attempts in vain no more pods are preempted for that pod, for `REST_S`.
"""

from __future__ import annotations

from typing import Final

MOST: Final = 5
REST_S: Final = 3600.0
MESSAGE: Final = (
    f"preemption: not tried again for now, since other pods took the places of the preempted ones {MOST} times."
)


class Patience:
    """By pod, how often room was made for it. Forgotten once the pod is placed or gone."""

    def __init__(self) -> None:
        self._made: dict[str, tuple[int, float]] = {}

    def room_was_made(self, key: str, now_s: float) -> None:
        number, _ = self._made.get(key, (0, now_s))
        self._made[key] = number + 1, now_s

    def forget(self, key: str) -> None:
        self._made.pop(key, None)

    def is_over(self, key: str, now_s: float) -> bool:
        """Whether no more pods should be preempted for this pod."""
        number, last_s = self._made.get(key, (0, now_s))
        if number >= MOST and now_s - last_s >= REST_S:
            self.forget(key)
            return False
        return number >= MOST
