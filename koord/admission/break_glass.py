"""Break-glass: an administrator takes admission off a cluster, and it stays off until it is put back.

The mark is on the two webhook configurations, whose webhooks are removed in the same write. So it works with the
manager down, and a manager that comes back reads it there and registers nothing. To get the webhooks back, remove the
mark: the manager registers them at its next check.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from koord.api.protocol import names
from koord.api.text.timestamp import from_seconds


def said(annotations: Mapping[str, str] | None) -> str | None:
    """Since when admission is off, and why; None where it is on."""
    return (annotations or {}).get(names.OWN_ANNOTATION_BREAK_GLASS)


def opened(annotations: Mapping[str, str], now_s: float, reason: str) -> Mapping[str, Any]:
    """The patch that takes admission off. If it is off already, the time and the reason stay."""
    since = said(annotations) or f"since {from_seconds(now_s)}" + (f": {reason}" if reason else "")
    return {"metadata": {"annotations": {names.OWN_ANNOTATION_BREAK_GLASS: since}}, "webhooks": []}


def closed(annotations: Mapping[str, str]) -> Mapping[str, Any] | None:
    """The patch that removes the mark; None if there is none."""
    if said(annotations) is None:
        return None
    return {"metadata": {"annotations": {names.OWN_ANNOTATION_BREAK_GLASS: None}}}
