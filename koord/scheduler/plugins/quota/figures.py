"""Quotas for people: one quota with its figures, and the way from a pod's quota to the root with what stands in it.

What would give a pod room is tried out on the tree, and taken back, before anybody hears of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Final

import msgspec

from koord.api.text.quantity import ResourceList, render
from koord.scheduler.framework.ask import Ask
from koord.scheduler.plugins.quota.check import Shortage, shortage, words
from koord.scheduler.plugins.quota.forest import OUTSIDE
from koord.scheduler.plugins.quota.quotas import Quotas, is_fixed
from koord.scheduler.plugins.quota.spec import written
from koord.scheduler.plugins.quota.status import own_status
from koord.scheduler.plugins.quota.tree import Bounds, Quota, Tree

MOST_BORROWERS: Final = 5


class QuotaFigures(msgspec.Struct, frozen=True, rename="camel"):
    """One quota. Printed whole: readers may count on every key."""

    name: str
    parent: str
    tree: str
    request: ResourceList
    child_request: ResourceList
    used: ResourceList
    runtime: ResourceList
    min: ResourceList
    max: ResourceList
    shared_weight: ResourceList
    allow_lent_resource: bool
    non_preemptible_request: ResourceList
    non_preemptible_used: ResourceList
    allocated: ResourceList
    guaranteed: ResourceList
    unusable: str = ""
    "Why the scheduler cannot use it."


class Borrower(msgspec.Struct, frozen=True, rename="camel"):
    """A quota that uses more than it is guaranteed."""

    quota: str
    beside: str
    "The quota on the way that it shares with."
    resource: str
    used: str
    guaranteed: str
    borrowed: str


class QuotaPath(msgspec.Struct, frozen=True, rename="camel"):
    """A pod's quota and all above it."""

    quota: str
    path: tuple[QuotaFigures, ...]
    "The pod's own quota first."
    short: str
    "What there is no room for; empty where there is."
    borrowers: tuple[Borrower, ...] = ()
    frees: tuple[str, ...] = ()
    "What would give the pod room, each by itself."


def figures(quotas: Quotas, quota: Quota) -> QuotaFigures:
    spec, status, bounds = quotas.forest.specs.get(quota.name), own_status(quotas, quota), quota.bounds
    return QuotaFigures(
        name=quota.name,
        parent="" if spec is None or quota.name in OUTSIDE else spec.parent,
        tree="" if spec is None else spec.tree,
        request=written(status.request),
        child_request=written(status.child_request),
        used=written(status.used),
        runtime=written(quotas.runtime(quota)),
        min=written(bounds.min),
        max=written(bounds.max),
        shared_weight=written(bounds.weight),
        allow_lent_resource=bounds.lends,
        non_preemptible_request=written(status.fixed_request),
        non_preemptible_used=written(status.fixed_used),
        allocated=written(status.allocated),
        guaranteed=written(status.guaranteed),
        unusable=quotas.forest.why_not(quota.name),
    )


def figures_named(quotas: Quotas, name: str) -> QuotaFigures | None:
    """One quota by its name; None where there is none."""
    quota = quotas.forest.quotas.get(name)
    return None if quota is None else figures(quotas, quota)


def path_of(quotas: Quotas, ask: Ask) -> QuotaPath | None:
    """The path from a pod's quota to the root; None if no ElasticQuota object applies to the pod."""
    quota = quotas.quota_of(ask)
    if quota is None or (quota.name in OUTSIDE and quota.name not in quotas.forest.specs):
        return None
    asked, fixed = quotas.asked(ask), is_fixed(ask.pod)
    way = tuple(figures(quotas, above) for above in (quota.path() if quota.parent is not None else [quota]))
    short = shortage(quotas, quota, asked, fixed=fixed)
    if short is None:
        return QuotaPath(quota.name, way, "")
    why = words(quotas, quota, asked, short)
    tree = quotas.forest.tree_of(quota.name)
    if tree is None or not short.resource:
        return QuotaPath(quota.name, way, why)
    fits = lambda: shortage(quotas, quota, asked, fixed=fixed) is None  # noqa: E731
    borrowers = sorted(_borrowers(tree, quota, short), key=lambda borrower: (-borrower[2], borrower[1].name))[
        :MOST_BORROWERS
    ]
    frees = tuple(_frees(quotas, tree, quota, asked, short, _rivals(quota, short), fits))
    return QuotaPath(
        quota.name, way, why, tuple(_borrower(tree, *borrower, short.resource) for borrower in borrowers), frees
    )


def _borrowers(tree: Tree, quota: Quota, short: Shortage) -> Iterator[tuple[Quota, Quota, int]]:
    """Siblings of quotas on the path that use more than they are guaranteed, and how much more."""
    if short.what == "guarantee":
        return
    for above in quota.path():
        assert above.parent is not None
        for other in above.parent.children.values():
            more = other.used.get(short.resource, 0) - tree.least_of(other, short.resource)
            if other is not above and more > 0 and short.resource in other.bounds.max:
                yield above, other, more


def _rivals(quota: Quota, short: Shortage) -> list[Quota]:
    """Quotas of pods that share with a quota on the way and request something, the most first."""
    if short.what == "guarantee":
        return []
    key = short.resource
    rivals = [
        other
        for above in quota.path()
        if above.parent is not None
        for other in above.parent.children.values()
        if other is not above and not other.children and other.own.request.get(key, 0) > 0
    ]
    return sorted(rivals, key=lambda other: (-other.own.request[key], other.name))[:MOST_BORROWERS]


def _borrower(tree: Tree, beside: Quota, other: Quota, more: int, key: str) -> Borrower:
    used, least = other.used.get(key, 0), tree.least_of(other, key)
    return Borrower(other.name, beside.name, key, render(key, used), render(key, least), render(key, more))


def _frees(
    quotas: Quotas,
    tree: Tree,
    quota: Quota,
    asked: Mapping[str, int],
    short: Shortage,
    rivals: list[Quota],
    fits: Callable[[], bool],
) -> Iterator[str]:
    key, at, bounds = short.resource, short.quota, short.quota.bounds
    used = quotas.fixed_used(at) if short.what == "guarantee" else quotas.used(at)
    needed = used.get(key, 0) + asked.get(key, 0)
    held = "pods that must not be preempted" if short.what == "guarantee" else "pods"
    limit = bounds.min.get(key, 0) if short.what == "guarantee" else quotas.limit(at).get(key, 0)
    gone = needed - limit
    if at is quota and _without(tree, quota, key, gone, fits, fixed=short.what == "guarantee"):
        yield f"{held} of quota {at.name} that request {key} {render(key, gone)} end"
    for other in rivals:
        if least := _least_less(tree, other, key, fits):
            yield f"quota {other.name} requests {key} {render(key, least)} less than it does"
    if short.what != "guarantee" and bounds.max.get(key, 0) < needed:
        if _with(tree, at, replace(bounds, max={**bounds.max, key: needed}), fits):
            yield f"spec.max.{key} of quota {at.name} is raised from {render(key, bounds.max[key])} to at least " + (
                render(key, needed)
            )
    elif bounds.min.get(key, 0) < needed and _with(tree, at, replace(bounds, min={**bounds.min, key: needed}), fits):
        before = render(key, bounds.min.get(key, 0))
        yield f"spec.min.{key} of quota {at.name} is raised from {before} to {render(key, needed)}"


def _with(tree: Tree, quota: Quota, bounds: Bounds, fits: Callable[[], bool]) -> bool:
    before = quota.bounds
    tree.bind(quota, bounds)
    try:
        return fits()
    finally:
        tree.bind(quota, before)


def _without(tree: Tree, quota: Quota, key: str, amount: int, fits: Callable[[], bool], *, fixed: bool) -> bool:
    if amount > quota.own.used.get(key, 0):
        return False
    for used in (False, True):
        tree.add(quota, {key: amount}, -1, used=used, fixed=fixed)
    try:
        return fits()
    finally:
        for used in (False, True):
            tree.add(quota, {key: amount}, +1, used=used, fixed=fixed)


def _least_less(tree: Tree, other: Quota, key: str, fits: Callable[[], bool]) -> int:
    """How much less another quota would have to request; 0 where nothing that it does would help."""

    def helps(amount: int) -> bool:
        tree.add(other, {key: amount}, -1, used=False, fixed=False)
        try:
            return fits()
        finally:
            tree.add(other, {key: amount}, +1, used=False, fixed=False)

    high = other.own.request.get(key, 0)
    if not high or not helps(high):
        return 0
    low = 0
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if helps(middle) else (middle, high)
    return high
