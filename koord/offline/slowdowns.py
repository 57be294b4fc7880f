"""What slowed a pod down, or which pods it slowed down: the sentences in the events of its node's agent.

Used by `koord explain POD`. Each step of an episode is an event with the episode so far; the last one has all of it.
"""

from __future__ import annotations

from collections.abc import Iterable

from koord.agent.interference.episode import BEGINS, NOISY_POD, POD_SLOWED
from koord.api.kubernetes.core import Event


def slowdowns_of(key: str, events: Iterable[Event]) -> tuple[str, ...]:
    """One sentence for each episode, the oldest first. `events`: those about the pod, and possibly others."""
    own = [event for event in events if f"{event.regarding.namespace}/{event.regarding.name}" == key]
    by_reason: dict[str, list[str]] = {POD_SLOWED: [], NOISY_POD: []}
    last: dict[tuple[str, str, str], int] = {}
    "Where the episode stands that goes on: of a pod that suffers, or of each of those that a noisy one disturbs."
    for event in sorted(own, key=lambda event: event.event_time or event.deprecated_last_timestamp or ""):
        if event.reason not in by_reason:
            continue
        sentences = by_reason[event.reason]
        victim = event.related.uid if event.reason == NOISY_POD and event.related is not None else ""
        of = event.reason, event.regarding.uid, victim
        if event.action in BEGINS or of not in last:
            last[of] = len(sentences)
            sentences.append(event.note)
        else:
            sentences[last[of]] = event.note
    return tuple(dict.fromkeys(sentence for sentences in by_reason.values() for sentence in sentences))
