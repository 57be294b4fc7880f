"""The two forms of an event: core/v1, in which it is stored, and events.k8s.io/v1. They differ in names only."""

from __future__ import annotations

from typing import Final

from koord_minicluster.apiserver.resource import Obj

CORE: Final = "v1"
EVENTS: Final = "events.k8s.io/v1"
_TO_EVENTS: Final = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
_TO_CORE: Final = {new: old for old, new in _TO_EVENTS.items()}
_OPTIONAL: Final = {EVENTS: frozenset({"note", "reportingController", "reportingInstance"}), CORE: frozenset[str]()}
_ALWAYS_IN_CORE: Final = ("reportingComponent", "reportingInstance")


def convert(event: Obj, api_version: str) -> Obj:
    """An event in the asked form."""
    if event.get("apiVersion") == api_version:
        return event
    names = _TO_EVENTS if api_version == EVENTS else _TO_CORE
    optional = _OPTIONAL[api_version]
    renamed = {names.get(key, key): value for key, value in event.items()}
    converted = {key: value for key, value in renamed.items() if value or key not in optional}
    if api_version == CORE:
        for key in _ALWAYS_IN_CORE:
            converted.setdefault(key, "")
    return {**converted, "apiVersion": api_version}
