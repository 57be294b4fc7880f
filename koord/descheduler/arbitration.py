"""Arbitration: of the moves that are asked for, which may begin now, and in which order.

Least important pods first; among equals the youngest pod, then the newest request. Moves of one batch Job stay
together, so that it is disturbed once and not again and again; Jobs that already have pods on the move come before
others. Then each is let through, must wait for others, or is refused for good.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from koord.api.kinds import PODS
from koord.api.kubernetes.pod import Pod
from koord.api.machinery.shield import Shield
from koord.descheduler.evictable import never, not_yet
from koord.descheduler.importance import created_s, importance
from koord.descheduler.moves import Moves
from koord.descheduler.rules import Rules
from koord.descheduler.workloads import Workloads


@dataclass(frozen=True, slots=True)
class Asked:
    """A move that is asked for."""

    name: str
    created_s: float
    pod: Pod | None
    "None where it is gone: then there is nothing to hold back."
    rules: Rules
    "Of the profile that it belongs to."
    behind: str = ""
    "Another job about the same pod, which comes first."


@dataclass(frozen=True, slots=True)
class Ruling:
    asked: Asked
    outcome: Literal["passes", "waits", "forbidden"]
    why: str = ""


def arbitrate(asked: Sequence[Asked], workloads: Workloads, moves: Moves, shield: Shield | None = None) -> list[Ruling]:
    """Rule on all of them, in their order. Who passes counts against those after it: `moves` grows."""
    rulings, shield = list[Ruling](), shield or Shield()
    for each in in_order(asked, moves):
        with shield.about("rule on its move", PODS, None if each.pod is None else each.pod.metadata):
            rulings.append(_ruling(each, workloads, moves))
    return rulings


def _ruling(asked: Asked, workloads: Workloads, moves: Moves) -> Ruling:
    pod, rules = asked.pod, asked.rules
    if pod is None:
        return Ruling(asked, "passes")
    if asked.behind:
        return Ruling(asked, "waits", f"PodMigrationJob {asked.behind} is about the same pod, and comes first")
    why = never(pod, rules, workloads)
    if why is not None:
        return Ruling(asked, "forbidden", why)
    why = not_yet(pod, rules, workloads, moves)
    if why is None:
        moves.add(pod)
    return Ruling(asked, "passes" if why is None else "waits", why or "")


def in_order(asked: Sequence[Asked], moves: Moves) -> list[Asked]:
    """Profiles that do not sort leave their own as they were asked for."""

    def rank(each: Asked) -> tuple[object, ...]:
        pod, rules = each.pod, each.rules
        if pod is None:
            return ()
        return (*(own(pod) for own in rules.ranks), *((*importance(pod), -created_s(pod)) if rules.sorts else ()))

    sorts = any(each.rules.sorts for each in asked)
    by_age = sorted(asked, key=lambda each: (-int(each.created_s), each.name)) if sorts else asked
    by_pod = sorted(by_age, key=rank)
    together = _together(by_pod)

    def moving(each: Asked) -> int:
        job = _job_of(each.pod)
        return 0 if job is None else len(moves.by_owner.get(job, ()))

    return sorted(together, key=moving, reverse=True)


def _together(asked: Sequence[Asked]) -> list[Asked]:
    """Moves of one Job next to the first of them."""
    found: dict[str, list[Asked]] = {}
    for each in asked:
        found.setdefault(_job_of(each.pod) or f"move {each.name}", []).append(each)
    return [each for group in found.values() for each in group]


def _job_of(pod: Pod | None) -> str | None:
    owner = None if pod is None else pod.metadata.controller
    return owner.uid if owner is not None and owner.kind == "Job" else None
