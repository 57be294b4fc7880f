"""What a batch pod counts for: what it uses, as far as that is known.

A pod in its first 3 minutes counts for its request; then for what it used in that minute. Afterwards use above its
figure becomes its figure, and use below it lowers it by a tenth of the difference a minute. While batch is held back
nothing falls: the use of a pod that is held back says nothing about what it wants. For the same reason a pod whose
first 3 minutes end then counts for its use divided by the share that batch got, at most for its request.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from koord.agent.lending.minute import PodMinute

YOUNG_S: Final = 180.0
KEPT: Final = 0.9
HELD_BACK: Final = 0.98
"""Batch that got no more of what it wanted was held back."""


class CountedPod(NamedTuple):
    milli: float
    is_young: bool
    "Whether it counts for its request still."


def counted(before: CountedPod | None, pod: PodMinute, got: float) -> CountedPod:
    """After one minute more, in which batch got that share of what it wanted."""
    if pod.age_s < YOUNG_S:
        return CountedPod(pod.request_milli, is_young=True)
    is_held_back = got <= HELD_BACK
    if before is None or before.is_young:
        return CountedPod(_first(pod, got) if is_held_back else pod.used_milli, is_young=False)
    if pod.used_milli >= before.milli or is_held_back:
        return CountedPod(max(before.milli, pod.used_milli), is_young=False)
    return CountedPod(KEPT * before.milli + (1 - KEPT) * pod.used_milli, is_young=False)


def _first(pod: PodMinute, got: float) -> float:
    wanted = pod.used_milli / got if got > 0 else pod.request_milli
    return max(min(wanted, pod.request_milli), pod.used_milli)


def counted_total(counted: Mapping[str, CountedPod]) -> float:
    return sum(pod.milli for pod in counted.values())
