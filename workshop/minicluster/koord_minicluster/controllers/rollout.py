"""Rolling update: how big may each ReplicaSet of a Deployment be right now?

Two limits hold at every moment:  pods in all <= replicas + maxSurge,  available pods >= replicas - maxUnavailable.
A step grows the new ReplicaSet as far as the first allows, and shrinks the old ones as far as the second does: first
by pods that are of no use anyway, then by available ones. Sizes are of `spec`; a ReplicaSet that was told to shrink
keeps at most its new size available, whatever its status still says.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from koord.api.kubernetes.workloads import Deployment, ReplicaSet
from koord.api.text.whole_number import natural_number
from koord.api.workloads.replica_sets import MAX
from koord_minicluster.controllers.share import share

Sizes = dict[str, int]
"""ReplicaSet name to its new size; only those that change."""


@dataclass(frozen=True, slots=True)
class RolloutLimits:
    """How far a Deployment may stray from its size."""

    surge: int
    unavailable: int


def limits(deployment: Deployment) -> RolloutLimits:
    """Surge rounds up, unavailability down; where both come to nothing, one pod may be away, or nothing could move."""
    replicas = deployment.spec.replicas
    strategy = deployment.spec.strategy
    if strategy.type != "RollingUpdate":
        return RolloutLimits(0, 0)
    asked = strategy.rolling_update
    max_surge = asked.max_surge if asked and asked.max_surge is not None else "25%"
    max_unavailable = asked.max_unavailable if asked and asked.max_unavailable is not None else "25%"
    surge = share(max_surge, replicas, round_up=True)
    unavailable = share(max_unavailable, replicas, round_up=False)
    if surge == 0 and unavailable == 0:
        unavailable = 1
    return RolloutLimits(surge, min(unavailable, replicas))


def size(replica_sets: Iterable[ReplicaSet]) -> int:
    return sum(rs.spec.replicas for rs in replica_sets)


def available(rs: ReplicaSet) -> int:
    """How many available pods will be left when the ReplicaSet has done what it was told."""
    return min(rs.status.available_replicas, rs.spec.replicas)


def new_size(deployment: Deployment, new: int, others: Iterable[ReplicaSet]) -> int:
    """The size of the new ReplicaSet (now `new`), by the limit on all pods."""
    wanted = deployment.spec.replicas
    if deployment.spec.strategy.type != "RollingUpdate" or new >= wanted:
        return wanted
    room = wanted + limits(deployment).surge - size(others) - new
    return new + max(0, min(room, wanted - new))


def shrink_old(deployment: Deployment, new: ReplicaSet, old: Sequence[ReplicaSet]) -> Sizes:
    """How much smaller old ReplicaSets may become, by the limit on available pods."""
    at_least = deployment.spec.replicas - limits(deployment).unavailable
    unavailable_new = new.spec.replicas - available(new)
    may_go = size(old) + new.spec.replicas - at_least - unavailable_new
    if may_go <= 0:
        return {}
    by_age = sorted(old, key=_age)
    sizes = {rs.metadata.name: rs.spec.replicas for rs in by_age}
    for rs in by_age:
        useless = min(may_go, rs.spec.replicas - available(rs))
        sizes[rs.metadata.name] -= useless
        may_go -= useless
    may_go = sum(map(available, by_age)) + available(new) - at_least
    for rs in by_age:
        # Useless pods that are still in it go before available ones; to count them as available errs on the safe side.
        spare = min(max(0, may_go), sizes[rs.metadata.name])
        sizes[rs.metadata.name] -= spare
        may_go -= spare
    return {rs.metadata.name: n for rs in by_age if (n := sizes[rs.metadata.name]) != rs.spec.replicas}


def proportional(deployment: Deployment, active: Sequence[ReplicaSet]) -> Sizes:
    """Sizes after the Deployment was scaled in the middle of a rollout: each by its part, the biggest takes the rest.

    With equal sizes the newer grows first, the older shrinks first.
    """
    replicas = deployment.spec.replicas
    allowed = replicas + limits(deployment).surge if replicas > 0 else 0
    change = allowed - size(active)
    newest_first = sorted(active, key=_age, reverse=change > 0)
    ordered = sorted(newest_first, key=lambda rs: -rs.spec.replicas)
    sizes = {rs.metadata.name: rs.spec.replicas for rs in ordered}
    if change == 0:
        return sizes
    left = change
    for rs in ordered:
        part = _part(deployment, rs, allowed)
        part = min(part, left) if change > 0 else max(part, left)
        sizes[rs.metadata.name] += part
        left -= part
    if ordered:
        biggest = ordered[0].metadata.name
        sizes[biggest] = max(0, sizes[biggest] + left)
    return sizes


def _part(deployment: Deployment, rs: ReplicaSet, allowed: int) -> int:
    """By how much one ReplicaSet grows when all together become `allowed`; its annotation has what they were."""
    if deployment.spec.replicas == 0:
        return -rs.spec.replicas
    before = number(rs.metadata.annotations.get(MAX)) or deployment.status.replicas
    if not before:
        return 0
    scaled = rs.spec.replicas * allowed
    # Half is rounded away from zero.
    return (2 * scaled + before) // (2 * before) - rs.spec.replicas


def number(text: str | None) -> int | None:
    return natural_number(text) if text else None


def _age(rs: ReplicaSet) -> tuple[str, str]:
    return rs.metadata.creation_timestamp or "", rs.metadata.name
