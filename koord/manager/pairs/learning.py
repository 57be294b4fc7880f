"""Which pairs of workloads are known to disturb each other, and how strongly: learnt from blames, forgotten with time.

    weight(t) = weight when seen x 2^-((t - last seen) / 3 days);  below 5 the pair is forgotten
    named     weight + 20% of what is missing to 100, at most every five minutes
    helped    weight + 30% of what is missing to 100
    cleared   half the weight

A blame counts if it is newer than the last one that counted. So a report may be heard any number of times, and a
manager that restarts learns nothing twice. There are at most 500 pairs, and at most 50 of one namespace: no tenant
can crowd others out.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2s
from heapq import heapify, heappop, heappush
from re import compile as pattern
from typing import Final

from msgspec.structs import replace

from koord.api.protocol.crd.interference_pair import (
    InterferencePair,
    InterferencePairSpec,
    InterferencePairStatus,
    PairedWorkload,
)
from koord.api.protocol.slowed_by import Blame, Verdict
from koord.api.text.timestamp import TimestampError, from_seconds, parse_timestamp

HALF_LIFE_S: Final = 3 * 86400.0
FORGOTTEN_BELOW: Final = 5
NAMED_GAIN: Final = 0.2
HELPED_GAIN: Final = 0.3
NAMED_AGAIN_S: Final = 300.0
OLDEST_S: Final = 3600.0
"""An older blame says nothing: it was heard long ago, or a clock is wrong."""
AHEAD_S: Final = 60.0
"""By which a node's clock may be ahead."""
MOST_PAIRS: Final = 500
MOST_OF_A_NAMESPACE: Final = 50
WRITTEN_STEP: Final = 5
"""Points that a weight must have lost to be written again for that alone."""

_PLAIN: Final = pattern(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_NAME_PART: Final = 60

Key = tuple[PairedWorkload, PairedWorkload]
"""Victim and culprit."""
Known = Mapping[Key, InterferencePairStatus]


@dataclass(frozen=True, slots=True)
class Heard:
    """A blame, and the node whose agent reported it."""

    node: str
    blame: Blame


@dataclass(frozen=True, slots=True)
class Learnt:
    """What to write."""

    put: Mapping[Key, InterferencePairStatus] = field(default_factory=dict)
    "Pairs that are new or have changed."
    gone: tuple[Key, ...] = ()


def learn(stored: Known, heard: Iterable[Heard], now_s: float) -> Learnt:
    """`known`: the pairs that are stored."""
    pairs = dict(stored)
    changed: set[Key] = set()
    for heard_blame in sorted(heard, key=lambda one: (one.blame.at_s, one.node)):
        blame = heard_blame.blame
        key = blame.victim, blame.culprit
        status = pairs.get(key)
        if (status is not None and is_kept_by_hand(status)) or not now_s - OLDEST_S <= blame.at_s <= now_s + AHEAD_S:
            continue
        after = judged(status, heard_blame)
        if after is not None:
            pairs[key] = after
            changed.add(key)
    current = {key: _as_of(status, now_s) for key, status in pairs.items()}
    kept = _bounded({key: status_of_pair for key, status_of_pair in current.items() if _counts(status_of_pair)})
    put = {
        key: status_of_pair
        for key, status_of_pair in kept.items()
        if key in changed or _has_faded(stored[key], status_of_pair)
    }
    return Learnt(put, tuple(sorted((key for key in stored if key not in kept), key=str)))


def judged(status: InterferencePairStatus | None, heard: Heard) -> InterferencePairStatus | None:
    """What is known of a pair after a blame; None where the blame tells nothing new."""
    blame = heard.blame
    before = status or InterferencePairStatus()
    last_s = seconds(before.last_seen)
    is_first = last_s is None
    if last_s is not None and blame.at_s < last_s + (NAMED_AGAIN_S if blame.verdict is Verdict.NAMED else 1e-3):
        return None
    weight = weight_at(before, blame.at_s)
    match blame.verdict:
        case Verdict.NAMED:
            weight += NAMED_GAIN * (100 - weight)
        case Verdict.HELPED:
            weight += HELPED_GAIN * (100 - weight)
        case Verdict.CLEARED:
            if is_first:
                return None
            weight /= 2
    counts = blame.verdict is not Verdict.CLEARED
    return InterferencePairStatus(
        weight=round(weight),
        weight_when_seen=round(weight),
        # Naming a neighbour and being right about it are one time.
        seen=before.seen + (blame.verdict is Verdict.NAMED or (counts and is_first)),
        first_seen=before.first_seen or blame.at,
        last_seen=blame.at,
        node=heard.node,
        signal=blame.signal or before.signal,
    )


def weight_at(status: InterferencePairStatus, now_s: float) -> float:
    last_s = seconds(status.last_seen)
    if last_s is None:
        return float(status.weight)
    halvings = max(now_s - last_s, 0.0) / HALF_LIFE_S
    return float(status.weight_when_seen * math.exp2(-halvings))


def is_kept_by_hand(status: InterferencePairStatus) -> bool:
    """Whether a user made the pair, without a time: it stays unchanged."""
    return status.last_seen is None


def known_of(objects: Iterable[InterferencePair]) -> dict[Key, tuple[InterferencePair, InterferencePairStatus]]:
    """By pair. Of several objects about one pair, the first by name counts."""
    pairs: dict[Key, tuple[InterferencePair, InterferencePairStatus]] = {}
    for obj in sorted(objects, key=lambda one: one.metadata.name):
        pairs.setdefault((obj.spec.victim, obj.spec.culprit), (obj, obj.status))
    return pairs


def object_of(key: Key, status: InterferencePairStatus, name: str = "") -> InterferencePair:
    pair = InterferencePair(spec=InterferencePairSpec(*key), status=status)
    return replace(pair, metadata=replace(pair.metadata, name=name or name_of(key)))


def name_of(key: Key) -> str:
    """The same for the same pair, and no other's; with the workloads' names as far as they may be part of a name."""
    digest = blake2s("\n".join(map(repr, key)).encode(), digest_size=5).hexdigest()
    parts = [workload.name[:_NAME_PART].strip("-.").replace(".", "-") for workload in key]
    return "-".join([*(part for part in parts if _PLAIN.fullmatch(part)), digest])


def seconds(time: str | None) -> float | None:
    try:
        return parse_timestamp(time) if time else None
    except TimestampError:
        return None


def _as_of(status: InterferencePairStatus, now_s: float) -> InterferencePairStatus:
    if is_kept_by_hand(status):
        return status
    last_s = seconds(status.last_seen)
    if last_s is None or last_s > now_s + OLDEST_S:
        # What was seen in a far future would never fade. A clock that is set back a little is waited for.
        status = replace(status, last_seen=from_seconds(now_s), weight_when_seen=status.weight)
    return replace(status, weight=round(weight_at(status, now_s)))


def _counts(status: InterferencePairStatus) -> bool:
    return is_kept_by_hand(status) or status.weight >= FORGOTTEN_BELOW


def _has_faded(stored: InterferencePairStatus, wanted: InterferencePairStatus) -> bool:
    is_moved = (stored.last_seen, stored.weight_when_seen) != (wanted.last_seen, wanted.weight_when_seen)
    return is_moved or abs(stored.weight - wanted.weight) >= WRITTEN_STEP


def _bounded(pairs: Known) -> dict[Key, InterferencePairStatus]:
    """As many as may be, shared out fairly: the strongest pair of every two namespaces, then the second of each, and so
    on; at every turn, namespaces that have few come first. So a namespace with a thousand noisy workloads takes nothing
    from others, even from those that it disturbs. Pairs that users made stay."""
    kept = {key: status_of_pair for key, status_of_pair in pairs.items() if is_kept_by_hand(status_of_pair)}
    turns: Counter[tuple[str, str]] = Counter()
    waiting = []
    for key in sorted(pairs.keys() - kept.keys(), key=lambda key: (-pairs[key].weight, str(key))):
        between = key[0].namespace, key[1].namespace
        waiting.append((turns[between], 0, -pairs[key].weight, str(key), key))
        turns[between] += 1
    heapify(waiting)
    number: Counter[str] = Counter()
    while waiting and len(kept) < MOST_PAIRS:
        turn, had, weight, text, key = heappop(waiting)
        has = max(number[workload.namespace] for workload in key)
        if has > had:
            heappush(waiting, (turn, has, weight, text, key))
        elif has < MOST_OF_A_NAMESPACE:
            kept[key] = pairs[key]
            number.update({workload.namespace for workload in key})
    return kept
