"""How long the cluster took to recover from each kind of fault: a table of counts and quantiles."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import msgspec

from koord_chaos.faults.kinds import KINDS


class Recovery(msgspec.Struct, frozen=True):
    """One fault that was injected and healed."""

    kind: str
    target: str
    seconds: float | None
    "From healing until its target was ready; None if that never came."


class Row(msgspec.Struct, frozen=True):
    kind: str
    times: int
    p50_s: float
    p99_s: float
    never: int


def rows(recoveries: Iterable[Recovery]) -> list[Row]:
    """By kind, in the order of the list of kinds."""
    by_kind: dict[str, list[float | None]] = {}
    for recovery in recoveries:
        by_kind.setdefault(recovery.kind, []).append(recovery.seconds)
    result = []
    for kind in KINDS:
        if (all_seconds := by_kind.get(kind.name)) is not None:
            seconds = sorted(value for value in all_seconds if value is not None)
            never = len(all_seconds) - len(seconds)
            result.append(Row(kind.name, len(all_seconds), quantile(seconds, 0.5), quantile(seconds, 0.99), never))
    return result


def quantile(ordered: Sequence[float], share: float) -> float:
    """The smallest value that at least this share does not exceed."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else math.nan
