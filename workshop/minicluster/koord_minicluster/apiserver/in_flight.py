"""How many requests are worked on at once: beyond a bound they are turned away with 429, to come again.

Requests that write and those that read have a bound each, so that readers cannot keep writers out. Watches, logs
that are followed and streams last as long as their client wants and are not counted. Health and metrics are always
answered.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from koord_minicluster.apiserver.request_info import RequestInfo
from koord_minicluster.apiserver.status import StatusError

Slot = Literal["mutating", "readOnly", ""]

RETRY_AFTER_S = 1
_READS = ("get", "list")
LASTING = ("log", "exec", "attach", "portforward")
"""Subresources whose answers last."""


@dataclass(frozen=True, slots=True)
class Bounds:
    mutating: int = 1000
    read_only: int = 2000


class InFlight:
    """Counts requests. `enter` gives the slot that `leave` takes back."""

    def __init__(self, bounds: Bounds | None = None) -> None:
        bounds = bounds or Bounds()
        self._most: dict[Slot, int] = {"mutating": bounds.mutating, "readOnly": bounds.read_only}
        self._now: dict[Slot, int] = {"mutating": 0, "readOnly": 0}
        self.entered = 0
        "All requests so far."

    def enter(self, info: RequestInfo) -> Slot:
        slot = _slot(info)
        self.entered += 1
        if slot:
            if self._now[slot] >= self._most[slot]:
                raise StatusError(
                    429,
                    "TooManyRequests",
                    "Too many requests, please try again later.",
                    retry_after_s=RETRY_AFTER_S,
                )
            self._now[slot] += 1
        return slot

    def leave(self, slot: Slot) -> None:
        if slot:
            self._now[slot] -= 1

    def counts(self) -> dict[str, int]:
        return {"mutating": self._now["mutating"], "readOnly": self._now["readOnly"]}


def _slot(info: RequestInfo) -> Slot:
    if not info.is_resource or info.verb == "watch" or info.subresource in LASTING:
        return ""
    return "readOnly" if info.verb in _READS else "mutating"
