"""What the cluster still knows of a pod that is gone: its events, the oldest first."""

from __future__ import annotations

from collections.abc import Iterable

from koord.api.kubernetes.core import Event


def happened(key: str, events: Iterable[Event]) -> tuple[str, ...]:
    """One line for each event about a pod: when, why, and what was said. `events`: also those about others."""
    lines = []
    for event in events:
        regarding = event.regarding
        if regarding.kind == "Pod" and f"{regarding.namespace}/{regarding.name}" == key:
            lines.append(f"{_last_seen(event) or 'at an unknown time'}  {event.reason}: {event.note}")
    return tuple(sorted(lines))


def _last_seen(event: Event) -> str:
    """To the second."""
    repeated = event.series.last_observed_time if event.series is not None else None
    seen = repeated or event.event_time or event.deprecated_last_timestamp or ""
    return f"{seen.partition('.')[0]}Z" if "." in seen else seen
