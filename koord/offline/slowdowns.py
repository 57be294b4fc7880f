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
    found: dict[str, list[str]] = {POD_SLOWED: [], NOISY_POD: []}
    last: dict[tuple[str, str, str], int] = {}
    "Where the episode stands that goes on: of a pod that suffers, or of each of those that a noisy one disturbs."
    for event in sorted(own, key=lambda each: each.event_time or each.deprecated_last_timestamp or ""):
        if event.reason not in found:
            continue
        told = found[event.reason]
        victim = event.related.uid if event.reason == NOISY_POD and event.related is not None else ""
        of = event.reason, event.regarding.uid, victim
        if event.action in BEGINS or of not in last:
            last[of] = len(told)
            told.append(event.note)
        else:
            told[last[of]] = event.note
    return tuple(dict.fromkeys(each for told in found.values() for each in told))
