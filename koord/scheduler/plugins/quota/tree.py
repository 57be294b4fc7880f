"""A tree of quotas: requests and use add up from pods to the root, and shares are worked out on the way down.

    child_request   what its pods and its children ask for, children no more than their max
    request         the same; no less than min where the quota does not lend
    limit_request   the request as its parent sees it: no more than max
    used            what its pods and its children's pods use
    runtime         its share of what its parent has (see `share`): the bound of its use

A change costs the path to the root. Shares are computed on demand, only for the siblings on that path, and not even for
those while all of them get what they request. The results are always those of a new tree with the same quotas and
pods.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from koord.scheduler.plugins.quota.share import Claim, scaled, shares

Amounts: TypeAlias = dict[str, int]
"""By resource: milli-cores of cpu, plain units of everything else."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a quota's object says that sharing looks at."""

    min: Mapping[str, int] = field(default_factory=dict)
    max: Mapping[str, int] = field(default_factory=dict)
    weight: Mapping[str, int] = field(default_factory=dict)
    lends: bool = True


@dataclass(slots=True)
class Sums:
    """What some pods ask for and use."""

    request: Amounts = field(default_factory=dict)
    used: Amounts = field(default_factory=dict)
    fixed_request: Amounts = field(default_factory=dict)
    "Of pods that must not be preempted."
    fixed_used: Amounts = field(default_factory=dict)

    def parts(self) -> tuple[Amounts, Amounts, Amounts, Amounts]:
        return self.request, self.used, self.fixed_request, self.fixed_used


class Quota:
    """One quota of a tree."""

    def __init__(self, name: str, bounds: Bounds) -> None:
        self.name, self.bounds = name, bounds
        self.parent: Quota | None = None
        self.children: dict[str, Quota] = {}
        self.own = Sums()
        "Of its own pods, of all resources."
        self.child_request: Amounts = {}
        self.limit_request: Amounts = {}
        self.used: Amounts = {}
        self.fixed_request: Amounts = {}
        self.fixed_used: Amounts = {}
        self.allocated: Amounts = {}
        "With the guarantee of usage: what its pods use and its children are guaranteed."
        self.demand: Amounts = {}
        "What it gets where its parent has enough for all."
        self.demands: Amounts = {}
        "Of its children, together."
        self.mins: Amounts = {}
        self.unweighted: Amounts = {}
        "How many children want more than their guarantee, and have no weight."
        self.least: Amounts = {}
        "What it is guaranteed, before scaling."
        self._runtime: Amounts = {}
        self._seen = -1
        self.contended: dict[str, tuple[int, dict[str, int]]] = {}
        "By resource: of how much, and what each child gets of it, where there is not enough for all."

    def request(self, *, keeps: bool = False) -> Amounts:
        """What it asks for. `keeps`: what is used is guaranteed, and nothing is lent."""
        if self.bounds.lends and not keeps:
            return dict(self.child_request)
        keys = dict.fromkeys((*self.child_request, *self.bounds.min))
        return {key: max(self.child_request.get(key, 0), self.bounds.min.get(key, 0)) for key in keys}

    def path(self) -> Iterator[Quota]:
        """Itself and all above it but the root."""
        quota = self
        while quota.parent is not None:
            yield quota
            quota = quota.parent

    def below(self) -> Iterator[Quota]:
        """Itself and all below it."""
        stack = [self]
        while stack:
            quota = stack.pop()
            yield quota
            stack += quota.children.values()


class Tree:
    """`scales`: guarantees shrink with the cluster. `keeps`: what is used is guaranteed, and nothing is lent."""

    def __init__(self, *, scales: bool = True, keeps: bool = False) -> None:
        self._scales, self._keeps = scales, keeps
        self.root = Quota("", Bounds(lends=False))
        self.version = 0
        "Another one whenever a share may be another."
        self._total: Amounts = {}

    @property
    def total(self) -> Mapping[str, int]:
        """What there is to share."""
        return self._total

    def has(self, total: Mapping[str, int]) -> None:
        """Sets the total to share."""
        if total != self._total:
            self._total = dict(total)
            self.version += 1

    def attach(self, quota: Quota, parent: Quota) -> None:
        """A quota without children comes into the tree, with the sums of its own pods."""
        quota.parent = parent
        parent.children[quota.name] = quota
        self._join(quota, quota.bounds)

    def detach(self, quota: Quota) -> None:
        """A quota leaves, and all below it with it: they form no tree any more."""
        parent = quota.parent
        assert parent is not None
        self._leave(quota)
        del parent.children[quota.name]
        parent.contended.clear()
        for below in list(quota.below()):
            below.parent, below.children = None, {}
            below.child_request, below.limit_request, below.used = {}, {}, {}
            below.fixed_request, below.fixed_used, below.allocated = {}, {}, {}
            below.demand, below.demands, below.mins, below.unweighted, below.least = {}, {}, {}, {}, {}
            below.contended, below._seen = {}, -1
        self.version += 1

    def bind(self, quota: Quota, bounds: Bounds) -> None:
        """The bounds of a quota in the tree change; its children and pods stay."""
        if bounds != quota.bounds:
            self._leave(quota)
            self._join(quota, bounds)

    def add(self, quota: Quota, amounts: Mapping[str, int], sign: int, *, used: bool, fixed: bool) -> None:
        """Pods of a quota ask for more or less, or (`used`) use it. It need not be in a tree."""
        own = quota.own
        for part in _parts(own, used=used, fixed=fixed):
            for key, amount in amounts.items():
                part[key] = part.get(key, 0) + sign * amount
        if quota.parent is None:
            return
        counted = {key: sign * amount for key, amount in amounts.items() if key in quota.bounds.max}
        if used:
            self._use(quota, counted, fixed=fixed)
        else:
            self._ask(quota, counted, fixed=fixed)

    def runtime(self, quota: Quota) -> Amounts:
        """The share of a quota in the tree. A resource that is not in it is not bounded."""
        if quota._seen == self.version:
            return quota._runtime
        parent = quota.parent
        if parent is None:
            return self._total
        has = self.runtime(parent)
        runtime: Amounts = {}
        for key in quota.bounds.max:
            if parent.parent is None:
                runtime[key] = self._of(quota, parent, key, has.get(key, 0))
            elif key in has:
                runtime[key] = self._of(quota, parent, key, has[key])
        quota._runtime, quota._seen = runtime, self.version
        return runtime

    def least_of(self, quota: Quota, key: str) -> int:
        """What a quota is guaranteed of a resource, scaled where its parent has too little."""
        parent = quota.parent
        assert parent is not None
        return self._least(quota, parent, key, self.runtime(parent).get(key, 0))

    def _of(self, quota: Quota, parent: Quota, key: str, total: int) -> int:
        if (
            parent.demands.get(key, 0) <= total
            and not parent.unweighted.get(key)
            and (self._keeps or not self._scales or parent.mins.get(key, 0) <= total)
        ):
            return quota.demand.get(key, 0)
        shared = parent.contended.get(key)
        if shared is None or shared[0] != total:
            shared = parent.contended[key] = total, self._shared(parent, key, total)
        return shared[1][quota.name]

    def _shared(self, parent: Quota, key: str, total: int) -> dict[str, int]:
        claims = [
            Claim(
                child.name,
                child.limit_request.get(key, 0),
                self._least(child, parent, key, total),
                child.bounds.weight.get(key, 0),
                child.bounds.lends and not self._keeps,
            )
            for child in parent.children.values()
            if key in child.bounds.max
        ]
        given = shares(total, claims)
        return {claim.name: amount for claim, amount in zip(claims, given, strict=True)}

    def _least(self, quota: Quota, parent: Quota, key: str, total: int) -> int:
        least = quota.least.get(key, 0)
        if self._keeps or not self._scales:
            return least
        return scaled(total, least, parent.mins.get(key, 0))

    def _join(self, quota: Quota, bounds: Bounds) -> None:
        """A quota and what is below it count again, with these bounds."""
        quota.bounds = bounds
        own, children = quota.own, quota.children.values()
        quota.child_request = masked(own.request, bounds.max)
        used, fixed_request = masked(own.used, bounds.max), masked(own.fixed_request, bounds.max)
        fixed_used = masked(own.fixed_used, bounds.max)
        quota.allocated = dict(used)
        for child in children:
            _add(quota.child_request, child.limit_request)
            _add(used, child.used)
            _add(fixed_request, child.fixed_request)
            _add(fixed_used, child.fixed_used)
            _add(quota.allocated, child.least)
        quota.least, quota.limit_request, quota.used, quota.fixed_request, quota.fixed_used = {}, {}, {}, {}, {}
        parent = quota.parent
        assert parent is not None
        for key in bounds.max:
            quota.least[key] = self._guaranteed(quota, key)
            parent.mins[key] = parent.mins.get(key, 0) + quota.least[key]
            quota.limit_request[key] = self._limited(quota, key)
            self._count_demand(quota, parent, key, +1)
        if self._keeps:
            self._allocate(parent, quota.least)
        self._ask_above(quota, quota.limit_request)
        for above in (*quota.path(), self.root):
            _add(above.used, used)
            _add(above.fixed_request, fixed_request)
            _add(above.fixed_used, fixed_used)
        parent.contended.clear()
        self.version += 1

    def _leave(self, quota: Quota) -> None:
        """Nothing of a quota counts above it any more."""
        parent = quota.parent
        assert parent is not None
        self._ask_above(quota, {key: -amount for key, amount in quota.limit_request.items()})
        for key in quota.bounds.max:
            self._count_demand(quota, parent, key, -1)
            parent.mins[key] -= quota.least[key]
        if self._keeps:
            self._allocate(parent, {key: -amount for key, amount in quota.least.items()})
        for above in (*parent.path(), self.root) if parent is not self.root else (self.root,):
            _add(above.used, quota.used, -1)
            _add(above.fixed_request, quota.fixed_request, -1)
            _add(above.fixed_used, quota.fixed_used, -1)

    def _ask(self, quota: Quota, changes: Mapping[str, int], *, fixed: bool) -> None:
        for key, change in changes.items():
            if change:
                quota.child_request[key] = quota.child_request.get(key, 0) + change
                self._settle(quota, key)
        if fixed:
            for above in (*quota.path(), self.root):
                _add(above.fixed_request, changes)

    def _settle(self, quota: Quota, key: str) -> None:
        """What a quota asks for of a resource has changed, and so may what all above it do."""
        while (parent := quota.parent) is not None and key in quota.bounds.max:
            before, after = quota.limit_request[key], self._limited(quota, key)
            change = after - before
            if not change:
                return
            self._count_demand(quota, parent, key, -1)
            quota.limit_request[key] = after
            self._count_demand(quota, parent, key, +1)
            parent.contended.pop(key, None)
            self.version += 1
            parent.child_request[key] = parent.child_request.get(key, 0) + change
            quota = parent

    def _ask_above(self, quota: Quota, changes: Mapping[str, int]) -> None:
        parent = quota.parent
        assert parent is not None
        for key, change in changes.items():
            if change:
                parent.child_request[key] = parent.child_request.get(key, 0) + change
                self._settle(parent, key)

    def _limited(self, quota: Quota, key: str) -> int:
        """What a quota asks for of a resource, as its parent sees it."""
        bounds = quota.bounds
        request = max(quota.child_request.get(key, 0), 0)
        if not bounds.lends or self._keeps:
            request = max(request, bounds.min.get(key, 0))
        return min(request, bounds.max[key])

    def _count_demand(self, quota: Quota, parent: Quota, key: str, sign: int) -> None:
        """What the parent must have so that no child gets less than it requests."""
        request, least = quota.limit_request.get(key, 0), quota.least[key]
        lends = quota.bounds.lends and not self._keeps
        quota.demand[key] = request if lends else max(request, least)
        parent.demands[key] = parent.demands.get(key, 0) + sign * quota.demand[key]
        if request > least and not quota.bounds.weight.get(key, 0):
            parent.unweighted[key] = parent.unweighted.get(key, 0) + sign

    def _use(self, quota: Quota, changes: Mapping[str, int], *, fixed: bool) -> None:
        above: Quota | None = quota
        while above is not None:
            _add(above.used, changes)
            if fixed:
                _add(above.fixed_used, changes)
            above = above.parent
        if self._keeps:
            self._allocate(quota, changes)

    def _guaranteed(self, quota: Quota, key: str) -> int:
        least = quota.bounds.min.get(key, 0)
        return max(quota.allocated.get(key, 0), least) if self._keeps else least

    def _allocate(self, quota: Quota, changes: Mapping[str, int]) -> None:
        """With the guarantee of usage: more is used below a quota, and guaranteed to it."""
        for key, change in changes.items():
            above: Quota = quota
            while change and (parent := above.parent) is not None:
                above.allocated[key] = above.allocated.get(key, 0) + change
                if key not in above.bounds.max:
                    break
                self._count_demand(above, parent, key, -1)
                before, above.least[key] = above.least[key], self._guaranteed(above, key)
                self._count_demand(above, parent, key, +1)
                change = above.least[key] - before
                parent.mins[key] += change
                parent.contended.pop(key, None)
                self.version += 1
                above = parent


def _parts(sums: Sums, *, used: bool, fixed: bool) -> tuple[Amounts, ...]:
    if used:
        return (sums.used, sums.fixed_used) if fixed else (sums.used,)
    return (sums.request, sums.fixed_request) if fixed else (sums.request,)


def masked(amounts: Mapping[str, int], keys: Mapping[str, int]) -> Amounts:
    """Of some amounts, those of the resources that are named."""
    return {key: amount for key, amount in amounts.items() if key in keys}


def _add(into: Amounts, amounts: Mapping[str, int], sign: int = 1) -> None:
    for key, amount in amounts.items():
        into[key] = into.get(key, 0) + sign * amount
