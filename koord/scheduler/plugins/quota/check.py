"""Whether a pod is within its quota: what it uses with the pod must be within its share, and so above it on demand.

used + request <= runtime           of the pod's quota, for every resource that both speak of
fixed used + request <= min         besides, for a pod that must not be preempted
used + request <= runtime           of each quota above, for what the pod requests, where parents are checked
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple, TypeAlias

from koord.api.text.quantity import INT64_MAX, render
from koord.scheduler.plugins.quota.forest import OUTSIDE
from koord.scheduler.plugins.quota.promised_amounts import NOT_HELD, PromisedAmounts
from koord.scheduler.plugins.quota.quotas import Quotas
from koord.scheduler.plugins.quota.tree import Quota

UNBOUNDED: Final = INT64_MAX // 5
"""A max of this amount or more is no bound."""
INSUFFICIENT: Final = "Insufficient quotas"

What: TypeAlias = Literal["share", "guarantee", "parent", "unusable"]


class Shortage(NamedTuple):
    """Which quota has no room for a pod, and of what."""

    quota: Quota
    what: What
    resource: str = ""


def shortage(
    quotas: Quotas, quota: Quota, asked: Mapping[str, int], *, fixed: bool, held: PromisedAmounts = NOT_HELD
) -> Shortage | None:
    """What a pod of a quota is short of; None where it may be placed. `held`: what is kept for others."""
    most = quota.bounds.max
    if is_unbounded(quota):
        return None
    if quota.parent is None and quota.name not in OUTSIDE:
        return Shortage(quota, "unusable")
    limit, used = quotas.limit(quota), held.used(quota, quotas.used(quota))
    for key, bound in limit.items():
        if used.get(key, 0) + (asked.get(key, 0) if key in most else 0) > bound:
            return Shortage(quota, "share", key)
    if fixed:
        taken, least = held.fixed_used(quota, quotas.fixed_used(quota)), quota.bounds.min
        for key, bound in least.items():
            if taken.get(key, 0) + (asked.get(key, 0) if key in most else 0) > bound:
                return Shortage(quota, "guarantee", key)
    rules = quotas.rules
    if rules is not None and rules.checks_parents:
        above = quota.parent
        while above is not None and above.parent is not None:
            limit, used = quotas.limit(above), held.used(above, above.used)
            for key, amount in asked.items():
                if key in limit and key in most and used.get(key, 0) + amount > limit[key]:
                    return Shortage(above, "parent", key)
            above = above.parent
    return None


def is_beyond_nodes(
    quotas: Quotas, asked: Mapping[str, int], short: Shortage, held: PromisedAmounts = NOT_HELD
) -> bool:
    """Whether more nodes would not make room either. Shares grow with the cluster; what a quota may have at most, and
    what pods that must not be preempted may have of it, do not."""
    if short.what in ("unusable", "guarantee"):
        return True
    quota, key = short.quota, short.resource
    most = quota.bounds.max.get(key)
    used = held.used(quota, quota.used if short.what == "parent" else quotas.used(quota))
    return most is not None and used.get(key, 0) + asked.get(key, 0) > most


def is_unbounded(quota: Quota) -> bool:
    """Whether a quota is outside of the sharing, and nothing bounds it."""
    if quota.name not in OUTSIDE:
        return False
    for amount in quota.bounds.max.values():  # noqa: SIM110 - a generator costs each pod more than all of the rest
        if amount < UNBOUNDED:
            return False
    return True


def words(quotas: Quotas, quota: Quota, asked: Mapping[str, int], short: Shortage) -> str:
    """For users: which quota, how much it may use and uses, and what the pod asks for."""
    if short.what == "unusable":
        return f"quota {quota.name} cannot be used: {quotas.forest.why_not(quota.name)}"
    key = short.resource
    wanted = render(key, asked.get(key, 0))
    if short.what == "guarantee":
        held, bound = quotas.fixed_used(short.quota).get(key, 0), short.quota.bounds.min.get(key, 0)
        return (
            f"{INSUFFICIENT}: pods that must not be preempted may use the min of quota {short.quota.name}, "
            f"{key} {render(key, bound)}, and use {render(key, held)}; the pod asks for {wanted}"
        )
    used, bound = quotas.used(short.quota).get(key, 0), quotas.limit(short.quota)[key]
    where = f"quota {short.quota.name}" + (f", above {quota.name}," if short.what == "parent" else "")
    return (
        f"{INSUFFICIENT}: {where} may use {key} {render(key, bound)} and uses {render(key, used)}; "
        f"the pod asks for {wanted}"
    )


def room(quotas: Quotas, quota: Quota) -> dict[str, int] | None:
    """What is left of a quota's share and of its guarantee; None where it cannot be used."""
    if not quotas.forest.is_usable(quota.name):
        return None
    used, held = quotas.used(quota), quotas.fixed_used(quota)
    left = {key: bound - used.get(key, 0) for key, bound in quotas.limit(quota).items()}
    return left | {f"min {key}": bound - held.get(key, 0) for key, bound in quota.bounds.min.items()}
