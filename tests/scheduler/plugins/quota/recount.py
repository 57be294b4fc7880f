"""Quotas from scratch: what a tree says, worked out plainly from its quotas and pods, for comparison."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from koord.scheduler.plugins.quota.share import Claim, scaled, shares
from koord.scheduler.plugins.quota.tree import Amounts, Bounds, Quota, Tree


@dataclass
class Said:
    """One quota: its parent, bounds and pods."""

    parent: str
    bounds: Bounds
    request: dict[str, int] = field(default_factory=dict)
    used: dict[str, int] = field(default_factory=dict)


@dataclass
class QuotaFigures:
    request: Amounts
    limit_request: Amounts
    used: Amounts
    runtime: Amounts
    least: Amounts


def recount(
    total: Mapping[str, int], all_: Mapping[str, Said], *, scales: bool, keeps: bool
) -> dict[str, QuotaFigures]:
    found: dict[str, QuotaFigures] = {}
    children: dict[str, list[str]] = {}
    for name, said in all_.items():
        children.setdefault(said.parent, []).append(name)

    def up(name: str) -> None:
        said, bounds = all_[name], all_[name].bounds
        request = {key: said.request.get(key, 0) for key in bounds.max}
        used = {key: said.used.get(key, 0) for key in bounds.max}
        allocated = dict(used)
        for child in children.get(name, ()):
            up(child)
            for key, amount in found[child].limit_request.items():
                request[key] = request.get(key, 0) + amount
            for key, amount in found[child].used.items():
                used[key] = used.get(key, 0) + amount
            for key, amount in found[child].least.items():
                allocated[key] = allocated.get(key, 0) + amount
        if not bounds.lends or keeps:
            limit = {key: max(request.get(key, 0), bounds.min.get(key, 0)) for key in bounds.max}
        else:
            limit = {key: request.get(key, 0) for key in bounds.max}
        limit = {key: min(amount, bounds.max[key]) for key, amount in limit.items()}
        least = {key: bounds.min.get(key, 0) for key in bounds.max}
        if keeps:
            least = {key: max(amount, allocated.get(key, 0)) for key, amount in least.items()}
        found[name] = QuotaFigures(request, limit, used, {}, least)

    def down(parent: str, has: Mapping[str, int], *, is_root: bool) -> None:
        below = children.get(parent, [])
        keys = {key for name in below for key in all_[name].bounds.max}
        for key in keys:
            if not is_root and key not in has:
                continue
            total_here = has.get(key, 0)
            sharing = [name for name in below if key in all_[name].bounds.max]
            mins = sum(found[name].least[key] for name in sharing)
            claims = []
            for name in sharing:
                least = found[name].least[key]
                if scales and not keeps:
                    least = scaled(total_here, least, mins)
                lends = all_[name].bounds.lends and not keeps
                weight = all_[name].bounds.weight.get(key, 0)
                claims.append(Claim(name, found[name].limit_request[key], least, weight, lends))
            for claim, given in zip(claims, shares(total_here, claims), strict=True):
                found[claim.name].runtime[key] = given
        for name in below:
            down(name, found[name].runtime, is_root=False)

    for name in children.get("", ()):
        up(name)
    down("", total, is_root=True)
    return found


def built(total: Mapping[str, int], all_: Mapping[str, Said], *, scales: bool = True, keeps: bool = False) -> Built:
    built = Built(Tree(scales=scales, keeps=keeps))
    built.tree.has(total)
    for name, said in all_.items():
        built.put(name, said)
    return built


@dataclass
class Built:
    """A tree with its quotas by name."""

    tree: Tree
    quotas: dict[str, Quota] = field(default_factory=dict)

    def put(self, name: str, said: Said) -> None:
        quota = self.quotas[name] = Quota(name, said.bounds)
        self.tree.add(quota, said.request, +1, used=False, fixed=False)
        self.tree.attach(quota, self.quotas[said.parent] if said.parent else self.tree.root)
        self.tree.add(quota, said.used, +1, used=True, fixed=False)

    def runtimes(self, key: str) -> dict[str, int | None]:
        return {name: self.tree.runtime(quota).get(key) for name, quota in self.quotas.items()}
