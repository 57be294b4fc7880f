"""What happens next in a roll-out: it grows after a while, and stops as soon as services suffer more than is accepted.

A pure function of what is stored, what is seen on the nodes of the roll-out, and the time. A service suffers if it was
ready and is not, or if its node's agent says that batch pods slow it down. What counts is what began within the step.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from koord.manager.rollout.state import Rollout, Suffering

SETTLES_S: Final = 5.0
"""A pod that turns unready so soon after its start was never ready."""
MOST_NAMED: Final = 5


@dataclass(frozen=True, slots=True)
class PodHealth:
    """What a roll-out looks at of a pod on one of its nodes."""

    key: str
    uid: str
    node: str
    is_service: bool
    ready: bool
    turned_s: float = 0.0
    "When it turned ready or unready."
    started_s: float = 0.0
    leaving: bool = False
    "It is being deleted."
    evicted_s: float = 0.0
    "When it was evicted; 0 if it was not."


@dataclass(frozen=True, slots=True)
class SlowedService:
    workload: str
    node: str
    at_s: float


def suffering(rollout: Rollout, pods: Iterable[PodHealth], slowed: Iterable[SlowedService], evicted: int) -> Suffering:
    """What began within the step. `evicted` are evictions seen in it."""
    since_s = began_s(rollout)
    unready = [pod for pod in pods if _turned_unready(pod, since_s)]
    slow = [service for service in slowed if service.at_s >= since_s]
    where = {*(pod.node for pod in unready), *(service.node for service in slow)}
    return Suffering(
        tuple(sorted(pod.key for pod in unready)),
        tuple(sorted({service.workload for service in slow})),
        evicted,
        tuple(sorted(where)),
    )


def began_s(rollout: Rollout) -> float:
    """Times on objects are in whole seconds: what happened in the second in which the step began counts."""
    return math.floor(rollout.since_s)


def _turned_unready(pod: PodHealth, since_s: float) -> bool:
    if not pod.is_service or pod.ready or pod.leaving:
        return False
    return pod.turned_s >= since_s and pod.turned_s > pod.started_s + SETTLES_S


def next_of(rollout: Rollout, trouble: Suffering, now_s: float, *, lacking_s: float = 0.0) -> Rollout:
    """The roll-out as it goes on. The same object where nothing changes.

    `lacking_s`: when nodes of the step were last seen without the feature, or none was there to have it. A step lasts
    as long as asked for from then on: what nodes do not have cannot be seen to go well.
    """
    if rollout.state != "running":
        return rollout
    if rollout.since_s <= 0:
        # Written by hand: its first step begins when it is first looked at.
        return replace(rollout, since_s=now_s)
    why = _too_much(rollout, trouble)
    if why:
        back = trouble.nodes if rollout.on_stop == "back" else ()
        return replace(
            rollout,
            state="stopped",
            reason=why,
            stopped_s=now_s,
            found=trouble,
            taken_back=tuple(sorted({*rollout.taken_back, *back})),
        )
    # A clock that was set back must not keep a step for ever.
    since_s = min(rollout.since_s, now_s)
    if now_s - max(since_s, lacking_s) >= rollout.every_seconds:
        if rollout.step + 1 < len(rollout.steps):
            return replace(rollout, step=rollout.step + 1, since_s=now_s, found=Suffering())
        return replace(rollout, state="complete", found=trouble)
    if since_s != rollout.since_s or trouble != rollout.found:
        return replace(rollout, since_s=since_s, found=trouble)
    return rollout


def resumed(rollout: Rollout, now_s: float, *, again: bool) -> Rollout:
    """A stopped roll-out, continued: the step starts again. `again`: also on nodes that were taken back."""
    return replace(
        rollout,
        state="running",
        reason="",
        stopped_s=0.0,
        since_s=now_s,
        found=Suffering(),
        taken_back=() if again else rollout.taken_back,
    )


def stopped(rollout: Rollout, now_s: float, reason: str) -> Rollout:
    """Stopped by a user: nodes stay unchanged."""
    return replace(rollout, state="stopped", reason=reason, stopped_s=now_s)


def _too_much(rollout: Rollout, trouble: Suffering) -> str:
    limits = rollout.limits
    said = []
    if len(trouble.unready) > limits.unready:
        said.append(f"{_count(len(trouble.unready), 'service pod')} turned unready ({_some(trouble.unready)})")
    if len(trouble.slowed) > limits.slowed:
        said.append(f"{_count(len(trouble.slowed), 'service')} slowed down by batch pods ({_some(trouble.slowed)})")
    if trouble.evictions > limits.evictions:
        said.append(f"{_count(trouble.evictions, 'pod')} evicted, and {limits.evictions} are accepted in a step")
    return "; ".join(said)


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _some(names: tuple[str, ...]) -> str:
    return ", ".join(names[:MOST_NAMED]) + (" ..." if len(names) > MOST_NAMED else "")
