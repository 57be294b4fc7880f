"""Whether a pod that a component wants to evict is notified first, is waited for, or is evicted now.

    asks for no notice, does not run yet, or is finished  it is evicted now
    has no eviction notice yet                            it is notified: deadline = now + the notice it asks for
    is notified                                           it is evicted when it says it is ready, or at the deadline

Everything stands on the pod, so the answer is the same after a restart and for every process. Each component that
wants to evict a pod has an entry there. Its deadline never moves later, and the earliest deadline counts: an evictor
that comes second finds the notice given. An evictor that lets the pod stay removes its entry; with the last entry, the
notice is withdrawn. An entry that is an hour past its deadline is ignored: its author is gone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from msgspec.structs import replace

from koord.api.kubernetes.meta import ObjectMeta
from koord.api.kubernetes.pod import Pod
from koord.api.kubernetes.words import PodConditionType, PodPhase
from koord.api.protocol.annotations.notice import (
    EVICTION_ASKED_BY,
    EVICTION_DEADLINE,
    EVICTION_NOTICE,
    EVICTION_READY,
    LONGEST_S,
    AskedBy,
)
from koord.api.text.timestamp import from_seconds, parse_timestamp

STALE_S: Final = 3600.0
"""An entry this long past its deadline is ignored."""
WITHDRAWN: Final = "EvictionWithdrawn"
"""The reason of the DisruptionTarget condition of a pod that stays after all."""
MOST_SAID: Final = 256
Why: TypeAlias = Literal["no notice", "not running", "ready", "deadline"]


@dataclass(frozen=True, slots=True)
class Asker:
    """A component that wants to evict a pod, and why. Equal `by` and `reason` mean the same asker."""

    by: str
    reason: str
    "For programs: of the DisruptionTarget condition."
    message: str
    about: str = ""
    "The object for which the pod has to go, as namespace/name."


@dataclass(frozen=True, slots=True)
class Go:
    """The pod is evicted now."""

    why: Why


@dataclass(frozen=True, slots=True)
class Tell:
    """The pod is told, or told better: a strategic patch of its status. It goes at `until_s`, or when it is ready."""

    patch: Mapping[str, Any]
    until_s: float
    is_new: bool
    "Whether this is the first that it hears from this asker."


@dataclass(frozen=True, slots=True)
class Wait:
    until_s: float


Verdict: TypeAlias = Go | Tell | Wait


def concerns(meta: ObjectMeta) -> bool:
    """Whether a pod asks for notice at all: of all others, nothing need be read."""
    return EVICTION_NOTICE.key in meta.annotations


def is_told(meta: ObjectMeta) -> bool:
    """Whether a component has asked for the pod's eviction."""
    return EVICTION_ASKED_BY.key in meta.annotations


def decide(pod: Pod, asker: Asker, now_s: float, at_most_s: float = LONGEST_S) -> Verdict:
    """What happens to a pod that `asker` wants gone. `at_most_s`: the longest notice that it can give. One that it has
    given it keeps to."""
    meta = pod.metadata
    notice_s = EVICTION_NOTICE.read(meta)
    if notice_s is None:
        return Go("no notice")
    if meta.deletion_timestamp is not None or pod.status.phase is not PodPhase.RUNNING:
        return Go("not running")
    if is_ready(meta):
        return Go("ready")
    standing = asked_by(meta, now_s)
    if any(parse_timestamp(entry.deadline) <= now_s for entry in standing):
        return Go("deadline")
    own = next((entry for entry in standing if is_of(entry, asker)), None)
    if own is None and at_most_s <= 0:
        return Go("no notice")
    wanted = _entry(asker, own, now_s, min(notice_s, at_most_s))
    entries = _with(standing, wanted)
    if entries != EVICTION_ASKED_BY.read(meta) or not _says_so(pod):
        return Tell(_patch(pod, entries, _said(wanted, entries), now_s), _earliest_s(entries), own is None)
    return Wait(_earliest_s(entries))


def withdrawal(pod: Pod, asker: Asker, now_s: float) -> Mapping[str, Any] | None:
    """The patch that removes an asker's entry; None if it has none. The notice stays as long as others have an
    entry."""
    meta = pod.metadata
    written = EVICTION_ASKED_BY.read(meta)
    if not any(is_of(entry, asker) for entry in written) or meta.deletion_timestamp is not None:
        return None
    left = tuple(entry for entry in asked_by(meta, now_s) if not is_of(entry, asker))
    if left:
        return _patch(pod, left, _said(left[0], left), now_s)
    said = {"status": "False", "reason": WITHDRAWN, "message": f"{asker.by}: the pod can stay"}
    return _patch(pod, (), said, now_s)


def asked_by(meta: ObjectMeta, now_s: float) -> tuple[AskedBy, ...]:
    """The entries that still count."""
    entries = EVICTION_ASKED_BY.read(meta)
    return tuple(entry for entry in entries if now_s - parse_timestamp(entry.deadline) <= STALE_S)


def is_of(entry: AskedBy, asker: Asker) -> bool:
    return (entry.by, entry.reason) == (asker.by, asker.reason)


def is_ready(meta: ObjectMeta) -> bool:
    """Whether a pod says that it can go: at any time, or for the very deadline that it was told."""
    said = EVICTION_READY.read(meta)
    return said == "true" or bool(said and said == meta.annotations.get(EVICTION_DEADLINE.key))


def _entry(asker: Asker, own: AskedBy | None, now_s: float, notice_s: float) -> AskedBy:
    # Rounded up to a whole second, so that no pod gets less notice than it asks for.
    deadline_s = math.ceil(now_s + notice_s)
    if own is None:
        since, deadline = from_seconds(now_s), from_seconds(deadline_s)
        return AskedBy(asker.by, asker.reason, since, deadline, asker.message[:MOST_SAID], asker.about)
    if now_s < parse_timestamp(own.since):
        # The clock was set back: by its old deadline, the pod would be waited for too long.
        own = replace(own, since=from_seconds(now_s), deadline=min(own.deadline, from_seconds(deadline_s)))
    if own.about != asker.about:
        own = replace(own, about=asker.about, message=asker.message[:MOST_SAID])
    return own


def _with(entries: Sequence[AskedBy], wanted: AskedBy) -> tuple[AskedBy, ...]:
    same = (wanted.by, wanted.reason)
    if all((entry.by, entry.reason) != same for entry in entries):
        return (*entries, wanted)
    return tuple(wanted if (entry.by, entry.reason) == same else entry for entry in entries)


def _says_so(pod: Pod) -> bool:
    condition = pod.status.condition(PodConditionType.DISRUPTION_TARGET)
    return condition is not None and condition.status == "True"


def _said(entry: AskedBy, entries: Sequence[AskedBy]) -> dict[str, str]:
    then = f"it goes at {_earliest(entries)}, or once it has the annotation {EVICTION_READY.key}"
    return {"status": "True", "reason": entry.reason, "message": f"{entry.by}: {entry.message}; {then}"}


def _patch(pod: Pod, entries: tuple[AskedBy, ...], condition: Mapping[str, str], now_s: float) -> Mapping[str, Any]:
    """One write for the version that was read. If another writer was faster, the pod is read again."""
    texts: dict[str, str | None] = {
        EVICTION_ASKED_BY.key: EVICTION_ASKED_BY.render(entries) if entries else None,
        EVICTION_DEADLINE.key: _earliest(entries) if entries else None,
    }
    if not entries and EVICTION_READY.is_on(pod.metadata):
        texts[EVICTION_READY.key] = None
    head = {"uid": pod.metadata.uid, "resourceVersion": pod.metadata.resource_version, "annotations": texts}
    old = pod.status.condition(PodConditionType.DISRUPTION_TARGET)
    is_same = old is not None and old.status == condition["status"] and bool(old.last_transition_time)
    since = old.last_transition_time if old is not None and is_same else from_seconds(now_s)
    written = {"type": PodConditionType.DISRUPTION_TARGET, "lastTransitionTime": since, **condition}
    return {
        "metadata": {key: value for key, value in head.items() if value},
        "status": {"conditions": [written]},
    }


def _earliest(entries: Sequence[AskedBy]) -> str:
    return min(entries, key=lambda entry: parse_timestamp(entry.deadline)).deadline


def _earliest_s(entries: Sequence[AskedBy]) -> float:
    return parse_timestamp(_earliest(entries))
