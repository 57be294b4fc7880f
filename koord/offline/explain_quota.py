"""`koord explain quota/NAME`: a quota with its parents and children, what it borrowed or leaves to others, the pods
that use it, the pods that wait for it and why, and what would help the first of these."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from koord.api.kubernetes.resources import pod_requests
from koord.api.machinery.faults import BadInput
from koord.api.protocol import names
from koord.api.text.manifest import Manifests
from koord.api.text.quantity import ResourceList, render
from koord.offline.driver import Driver
from koord.offline.world import World, world_of
from koord.scheduler import explain as scheduler
from koord.scheduler.framework.ask import Ask
from koord.scheduler.plugins.quota.figures import Borrower, QuotaFigures, figures, path_of
from koord.scheduler.plugins.quota.forest import OUTSIDE
from koord.scheduler.plugins.quota.quotas import Quotas
from koord.scheduler.plugins.quota.tree import Quota, Tree
from koord.scheduler.profiles import Profiles

MOST_ASKED: Final = 5
"""The number of pending pods that are explained."""


class NoSuchQuota(BadInput):
    """The quota does not exist. The message names quotas with similar names."""


class QuotaPod(msgspec.Struct, frozen=True, rename="camel"):
    """A pod of the quota, or of one below it."""

    pod: str
    quota: str
    node: str
    "Empty while it waits."
    requests: ResourceList
    "Of what the quota bounds."
    why: str = ""
    "Why it waits, of the first that do."


class QuotaExplained(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The explanation of a quota. All keys are always printed."""

    name: str
    namespace: str
    path: tuple[QuotaFigures, ...]
    "The quota itself first, then all above it."
    below: tuple[QuotaFigures, ...]
    borrowed: ResourceList
    "What it uses beyond what it is guaranteed."
    lends: ResourceList
    "What it is guaranteed, does not use, and leaves to those beside it."
    borrowers: tuple[Borrower, ...]
    "Sibling quotas that use more than they are guaranteed."
    used_by: tuple[QuotaPod, ...]
    waiting: tuple[QuotaPod, ...]
    "In the order in which they came."
    frees: tuple[str, ...]
    "What would give the first one that lacks quota its room, each by itself."
    problem: str = ""
    "Why the scheduler cannot use it."


class QuotaAnswer(msgspec.Struct, frozen=True):
    explained: QuotaExplained
    ignored: Mapping[str, int]
    warnings: tuple[str, ...]


def explain_quota(manifests: Manifests, profiles: Profiles, name: str, *, now_s: float, seed: int = 0) -> QuotaAnswer:
    """Raises `Invalid` where manifests are faulty, `NoSuchQuota`."""
    world = world_of(manifests, profiles, now_s=now_s, seed=seed, rounds=1)
    Driver(world.core).wait(world.waiting)
    quotas = world.cluster.noting.get(Quotas.name)
    if not isinstance(quotas, Quotas):
        raise NoSuchQuota("the scheduler's configuration has no plugin for quotas (ElasticQuota)")
    quotas.refresh()
    quota = quotas.forest.quotas.get(names.OLD_QUOTAS.get(name, name))
    if quota is None:
        spec = quotas.forest.specs.get(name)
        if spec is not None:
            raise NoSuchQuota(f"quota {name} cannot be used: {quotas.forest.why_not(name)}")
        near = difflib.get_close_matches(name, [*quotas.forest.specs, *quotas.forest.quotas], n=3)
        hint = f"; there is {', '.join(dict.fromkeys(near))}" if near else ""
        raise NoSuchQuota(f"there is no quota {name}{hint}")
    return QuotaAnswer(_explained(world, quotas, quota), world.ignored, (*profiles.warnings, *world.warnings))


def _explained(world: World, quotas: Quotas, quota: Quota) -> QuotaExplained:
    spec, tree = quotas.forest.specs.get(quota.name), quotas.forest.tree_of(quota.name)
    own = {below.name for below in _with_below(quota)}
    asks = [ask for ask in world.waiting if (of := quotas.quota_of(ask)) is not None and of.name in own]
    asks.sort(key=lambda ask: (ask.meta.creation_timestamp or "", ask.key))
    waiting, frees = _waiting(world, quotas, quota, asks)
    return QuotaExplained(
        name=quota.name,
        namespace="" if spec is None else spec.namespace,
        path=tuple(figures(quotas, above) for above in (quota.path() if quota.parent is not None else [quota])),
        below=tuple(figures(quotas, below) for below in _with_below(quota) if below is not quota),
        borrowed={} if tree is None else _over(tree, quota),
        lends={} if tree is None else _spare(tree, quota),
        borrowers=() if tree is None else tuple(_borrowers(tree, quota)),
        used_by=tuple(_users(world, quotas, quota, own)),
        waiting=waiting,
        frees=frees,
        problem=quotas.forest.why_not(quota.name) if quota.name not in OUTSIDE else "",
    )


def _with_below(quota: Quota) -> Iterator[Quota]:
    yield quota
    for name in sorted(quota.children):
        yield from _with_below(quota.children[name])


def _over(tree: Tree, quota: Quota) -> ResourceList:
    more = {key: quota.used.get(key, 0) - tree.least_of(quota, key) for key in quota.bounds.max}
    return {key: render(key, amount) for key, amount in sorted(more.items()) if amount > 0}


def _spare(tree: Tree, quota: Quota) -> ResourceList:
    if not quota.bounds.lends or quota.parent is None or len(quota.parent.children) < 2:
        return {}
    left = {key: tree.least_of(quota, key) - quota.used.get(key, 0) for key in quota.bounds.max}
    return {key: render(key, amount) for key, amount in sorted(left.items()) if amount > 0}


def _borrowers(tree: Tree, quota: Quota) -> Iterator[Borrower]:
    """Beside it and beside all above it, those that borrowed most first."""
    borrowers: list[tuple[int, Borrower]] = []
    for above in quota.path():
        beside = {} if above.parent is None else above.parent.children
        for other in beside.values():
            for key in other.bounds.max:
                used, least = other.used.get(key, 0), tree.least_of(other, key)
                if other is not above and used > least:
                    said = (render(key, amount) for amount in (used, least, used - least))
                    borrowers.append((used - least, Borrower(other.name, above.name, key, *said)))
    yield from (
        borrower for _, borrower in sorted(borrowers, key=lambda pair: (pair[1].resource, -pair[0], pair[1].quota))
    )


def _users(world: World, quotas: Quotas, quota: Quota, own: set[str]) -> Iterator[QuotaPod]:
    users = []
    for key, node in world.running.items():
        pod = world.pods.get(key)
        if pod is None or pod.is_finished:
            continue
        of = quotas.bucket(pod.metadata.labels, pod.metadata.namespace).quota
        if of is not None and of.name in own:
            requests = pod_requests(pod, capped=True)
            users.append((requests, QuotaPod(key, of.name, node, _bounded(quota, requests))))
    cpu = names.RESOURCE_CPU
    yield from (pod for _, pod in sorted(users, key=lambda pair: (-pair[0].get(cpu, 0), pair[1].pod)))


def _waiting(
    world: World, quotas: Quotas, quota: Quota, asks: list[Ask]
) -> tuple[tuple[QuotaPod, ...], tuple[str, ...]]:
    pods: list[QuotaPod] = []
    frees: tuple[str, ...] = ()
    for at, ask in enumerate(asks):
        why = ""
        if at < MOST_ASKED:
            path_told = path_of(quotas, ask)
            short = "" if path_told is None else path_told.short
            frees = frees or (() if path_told is None else path_told.frees)
            why = short or _elsewhere(world, ask)
        of = quotas.quota_of(ask)
        own = "" if of is None else of.name
        pods.append(QuotaPod(ask.key, own, "", _bounded(quota, quotas.asked(ask)), why))
    return tuple(pods), frees


def _elsewhere(world: World, ask: Ask) -> str:
    """What else keeps a pod waiting that its quota has room for."""
    engine = world.engine_of(ask) or next(iter(world.core.engines.values()))
    try:
        explanation = scheduler.explain(engine, ask)
    except BadInput as error:
        return str(error)
    return f"its quota has room; {explanation.message}"


def _bounded(quota: Quota, requests: Mapping[str, int]) -> ResourceList:
    """The requests for resources that the quota limits; all, if it has no max."""
    keys = quota.bounds.max or requests
    return {key: render(key, requests[key]) for key in sorted(keys) if requests.get(key)}
