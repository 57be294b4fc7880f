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
class MoveRequest:
    """A requested move."""

    name: str
    created_s: float
    pod: Pod | None
    "None if the pod is gone: then nothing is held back."
    rules: Rules
    "The rules of its profile."
    behind: str = ""
    "Another job about the same pod, which comes first."


@dataclass(frozen=True, slots=True)
class Ruling:
    request: MoveRequest
    outcome: Literal["passes", "waits", "forbidden"]
    why: str = ""


def arbitrate(
    requests: Sequence[MoveRequest], workloads: Workloads, moves: Moves, shield: Shield | None = None
) -> list[Ruling]:
    """Rule on all requests, in their order. A move that passes counts against the later ones: `moves` grows."""
    rulings, shield = list[Ruling](), shield or Shield()
    for request in in_order(requests, moves):
        with shield.about("rule on its move", PODS, None if request.pod is None else request.pod.metadata):
            rulings.append(_ruling(request, workloads, moves))
    return rulings


def _ruling(request: MoveRequest, workloads: Workloads, moves: Moves) -> Ruling:
    pod, rules = request.pod, request.rules
    if pod is None:
        return Ruling(request, "passes")
    if request.behind:
        return Ruling(request, "waits", f"PodMigrationJob {request.behind} is about the same pod, and comes first")
    why = never(pod, rules, workloads)
    if why is not None:
        return Ruling(request, "forbidden", why)
    why = not_yet(pod, rules, workloads, moves)
    if why is None:
        moves.add(pod)
    return Ruling(request, "passes" if why is None else "waits", why or "")


def in_order(requests: Sequence[MoveRequest], moves: Moves) -> list[MoveRequest]:
    """Requests of profiles that do not sort keep their order."""

    def rank(request: MoveRequest) -> tuple[object, ...]:
        pod, rules = request.pod, request.rules
        if pod is None:
            return ()
        return (*(own(pod) for own in rules.ranks), *((*importance(pod), -created_s(pod)) if rules.sorts else ()))

    sorts = any(request.rules.sorts for request in requests)
    by_age = sorted(requests, key=lambda request: (-int(request.created_s), request.name)) if sorts else requests
    by_pod = sorted(by_age, key=rank)
    together = _together(by_pod)

    def moving(request: MoveRequest) -> int:
        job = _job_of(request.pod)
        return 0 if job is None else len(moves.by_owner.get(job, ()))

    return sorted(together, key=moving, reverse=True)


def _together(requests: Sequence[MoveRequest]) -> list[MoveRequest]:
    """Moves of one Job next to the first of them."""
    by_job: dict[str, list[MoveRequest]] = {}
    for request in requests:
        by_job.setdefault(_job_of(request.pod) or f"move {request.name}", []).append(request)
    return [request for of_job in by_job.values() for request in of_job]


def _job_of(pod: Pod | None) -> str | None:
    owner = None if pod is None else pod.metadata.controller
    return owner.uid if owner is not None and owner.kind == "Job" else None
