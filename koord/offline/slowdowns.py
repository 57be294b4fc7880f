"""What slowed a pod down, or whom it slowed down: the sentences that the agent of its node told as events.

Asked by `koord explain POD`. Each step of an episode is an event with the episode so far; the last one says all of it.
"""

from __future__ import annotations

from collections.abc import Iterable

from koord.agent.interference.episode import BEGINS, NOISY_POD, POD_SLOWED
from koord.api.kubernetes.core import Event


def slowdowns_of(key: str, events: Iterable[Event]) -> tuple[str, ...]:
    """One sentence for each episode, the oldest first. `events`: those about the pod, and possibly others."""
    own = [each for each in events if f"{each.regarding.namespace}/{each.regarding.name}" == key]
    told: list[str] = []
    for reason in (POD_SLOWED, NOISY_POD):
        episodes: list[str] = []
        of_reason = [each for each in own if each.reason == reason]
        for event in sorted(of_reason, key=lambda each: each.event_time or each.deprecated_last_timestamp or ""):
            if event.action in BEGINS or not episodes:
                episodes.append(event.note)
            else:
                episodes[-1] = event.note
        told += episodes
    return tuple(dict.fromkeys(told))
