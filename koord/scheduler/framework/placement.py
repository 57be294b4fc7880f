"""A decision about one pod, as data."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from koord.api.machinery.struct import EMPTY


class Placement(msgspec.Struct, frozen=True):
    """A decision: where a pod goes, or that it goes nowhere now, with what speaks for it."""

    pod: str
    node: str | None
    scores: Mapping[str, int] = EMPTY
    total: int = 0
    rejections: Mapping[str, int] = EMPTY
    "Reasons, with the number of nodes that each rejected."
    why_not: Mapping[str, Mapping[str, int]] = EMPTY
    "The same by plugin."
    refusal: str = ""
    "Why the pod is rejected on every node, if it is."
    held_as: str = ""
    "The reason for the pod's condition, where more nodes could not help it either."
    short_of: str = ""
    "What its job is short of, where that is why."
    fit: int = 0
    "How many pods of its job would have a place, of those that it needs."

    @property
    def rejected_by(self) -> frozenset[str]:
        return frozenset(self.why_not)
