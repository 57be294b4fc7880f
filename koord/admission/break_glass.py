"""Break-glass: admission is taken off a cluster by hand, and stays off until somebody says otherwise.

The word stands on the two webhook configurations, whose webhooks are emptied in the same write. So it works with the
manager down, and a manager that comes back reads it there and registers nothing. Taking the word away is all that it
takes to have the webhooks back: the manager fills them in when it next looks.
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
    """The patch that takes admission off. Who finds it off already leaves since when and why."""
    since = said(annotations) or f"since {from_seconds(now_s)}" + (f": {reason}" if reason else "")
    return {"metadata": {"annotations": {names.OWN_ANNOTATION_BREAK_GLASS: since}}, "webhooks": []}


def closed(annotations: Mapping[str, str]) -> Mapping[str, Any] | None:
    """The patch that takes the word away; None where nobody said it."""
    if said(annotations) is None:
        return None
    return {"metadata": {"annotations": {names.OWN_ANNOTATION_BREAK_GLASS: None}}}
