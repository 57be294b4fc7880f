"""All quotas of a cluster: which tree each is in, which cannot be used and why, and whose pods are whose.

Quotas are attached from their tree's root downwards. So a quota whose parent does not exist, or whose parents form a
circle, is attached nowhere; neither is what hangs below it, and everything else goes on. Whatever the order in which
objects come, the result depends on the last version of each.

    koordinator-root-quota      stands for the root of the tree that has what no other tree has
    koordinator-default-quota   pods that no quota claims; outside of the sharing, what they use is not shared
    koordinator-system-quota    the same for pods that name it
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from koord.api.protocol import names
from koord.scheduler.plugins.quota.spec import QuotaSpec, listed, some
from koord.scheduler.plugins.quota.tree import Amounts, Bounds, Quota, Tree

OUTSIDE: Final = frozenset({names.QUOTA_DEFAULT, names.QUOTA_SYSTEM})
DEFAULT_TREE: Final = ""


class Forest:
    """`several`: quotas may be in trees of their own; otherwise the ids of trees say nothing."""

    def __init__(
        self,
        *,
        scales: bool = True,
        keeps: bool = False,
        several: bool = False,
        outside: Mapping[str, Bounds] | None = None,
    ) -> None:
        self._scales, self._keeps, self._several = scales, keeps, several
        self.trees: dict[str, Tree] = {DEFAULT_TREE: Tree(scales=scales, keeps=keeps)}
        self.quotas: dict[str, Quota] = {}
        "By name: all that have an object, and those that are always there."
        self.specs: dict[str, QuotaSpec] = {}
        "By name: of several objects of one name, the oldest counts."
        self._of_name: dict[str, dict[str, QuotaSpec]] = {}
        self._children: dict[str, set[str]] = {}
        self._tree_of: dict[str, Tree] = {}
        "By name, of quotas that are attached."
        self._claims: dict[str, dict[str, QuotaSpec]] = {}
        "By namespace, the quotas that list it."
        self._roots: dict[str, set[str]] = {}
        "By tree, the quotas that say they are its root."
        self._always = dict(outside or {})
        for name in OUTSIDE:
            self.quotas[name] = Quota(name, self._always.get(name, Bounds()))

    def put(self, spec: QuotaSpec) -> set[str]:
        """An object was added or has changed; the namespaces and names whose pods may belong to another quota now."""
        before = self._of_name.setdefault(spec.name, {}).get(spec.key)
        self._of_name[spec.name][spec.key] = spec
        return set() if before == spec else self._settle(spec.name)

    def remove(self, key: str, name: str) -> set[str]:
        """An object is gone; as `put`."""
        specs = self._of_name.get(name, {})
        if specs.pop(key, None) is None:
            return set()
        if not specs:
            del self._of_name[name]
        return self._settle(name)

    def tree_of(self, name: str) -> Tree | None:
        """The tree in which a quota is attached; None where it is in none."""
        return self._tree_of.get(name)

    def quota_of(self, label: str, namespace: str, *, default: bool = True) -> Quota | None:
        """Whose a pod is, by the name that its label says and its namespace. `default`: those that no quota claims are
        the default quota's, and namespaces count; otherwise only the label does."""
        if label:
            quota = self.quotas.get(label) or self.quotas.get(names.OLD_QUOTAS.get(label, label))
            if quota is not None or not default:
                return quota
            return self.quotas[names.QUOTA_DEFAULT]
        if not default:
            return None
        own = self.specs.get(namespace)
        if own is not None and own.namespace == namespace:
            return self.quotas[namespace]
        claimed = self._claimed_by(namespace)
        return self.quotas[names.QUOTA_DEFAULT if claimed is None else claimed.name]

    def is_usable(self, name: str) -> bool:
        return name in OUTSIDE or name in self._tree_of

    def why_not(self, name: str) -> str:
        """Why a quota cannot be used; empty where it can."""
        if self.is_usable(name):
            return ""
        spec = self.specs.get(name)
        if spec is None:
            return f"there is no ElasticQuota {name}"
        if spec.fault:
            return spec.fault
        if self._several and spec.tree and not self._roots.get(spec.tree):
            return f"the quota tree {spec.tree} has no root quota"
        way, seen = [name], {name}
        while (above := self.specs.get(spec.parent)) is not None and spec.parent != names.QUOTA_ROOT:
            way.append(above.name)
            if above.name in seen:
                return f"its parents form a circle: {' -> '.join(way)}"
            seen.add(above.name)
            if above.fault:
                return f"its parent {above.name} cannot be used: {above.fault}"
            if self._id(above) != self._id(spec):
                return f"its parent {above.name} is in another quota tree"
            spec = above
        return f"{'its' if spec.name == name else f'its parent {spec.name} cannot be used: its'} parent " + (
            f"{spec.parent} does not exist"
        )

    def complaints(self, key: str, name: str) -> list[str]:
        """What is wrong with an object, whether or not its quota can be used."""
        counts = self.specs.get(name)
        if counts is not None and counts.key != key:
            return [f"the ElasticQuota {counts.key} has the same name and is older, so that it counts instead"]
        complaints = [why] if (why := self.why_not(name)) else []
        if counts is None:
            return complaints
        if counts.fault and (below := self._below(name)):
            complaints.append(f"so its pods wait, and so do those of the quotas below it: {some(below)}")
        for namespace in counts.namespaces:
            winner = self._claimed_by(namespace)
            if winner is not None and winner.name != name:
                complaints.append(f"namespace {namespace} belongs to the older quota {winner.name}")
        above = self.specs.get(counts.parent)
        if above is not None and not above.fault and counts.parent != names.QUOTA_ROOT:
            high = {key: amount for key, amount in counts.bounds.min.items() if amount > above.bounds.min.get(key, 0)}
            if high:
                complaints.append(f"its min ({listed(high)}) is above that of its parent {above.name}")
        return complaints

    def _below(self, name: str) -> list[str]:
        """All quotas below one, attached or not."""
        below, todo = dict[str, None](), [name]
        while todo:
            children = [child for child in sorted(self._children.get(todo.pop(), ())) if child not in below]
            below.update(dict.fromkeys(children))
            todo += children
        return [child for child in below if child != name]

    def objects(self) -> Iterator[QuotaSpec]:
        """All existing quota objects, including those that do not count."""
        for specs in self._of_name.values():
            yield from specs.values()

    def others_have(self) -> Amounts:
        """What other trees took from the default one."""
        taken: Amounts = {}
        for roots in self._roots.values() if self._several else ():
            for name in roots:
                spec = self.specs[name]
                for key, amount in (spec.total or {}).items() if not spec.ignores_default else ():
                    taken[key] = taken.get(key, 0) + amount
        return taken

    def _id(self, spec: QuotaSpec) -> str:
        return spec.tree if self._several else DEFAULT_TREE

    def _claimed_by(self, namespace: str) -> QuotaSpec | None:
        claims = self._claims.get(namespace)
        return min(claims.values(), key=lambda spec: (spec.made, spec.name)) if claims else None

    def _settle(self, name: str) -> set[str]:
        specs = self._of_name.get(name)
        new = min(specs.values(), key=lambda spec: (spec.made, spec.key)) if specs else None
        old = self.specs.get(name)
        if new == old:
            return set()
        stale = {name}
        for spec in (old, new):
            if spec is not None:
                stale.update(spec.namespaces)
        if old is not None:
            self._forget(old)
        if new is not None:
            self._note(new)
        if name == names.QUOTA_ROOT:
            pass
        elif name in OUTSIDE:
            self.quotas[name].bounds = new.bounds if new is not None else self._always.get(name, Bounds())
        elif new is not None and old is not None and self._stays(old, new):
            self._tree_of[name].bind(self.quotas[name], new.bounds)
        else:
            self._move(name, new)
        for tree in {self._id(spec) for spec in (old, new) if spec is not None and spec.is_root} - {DEFAULT_TREE}:
            self._tree_changed(tree)
        return stale

    def _stays(self, old: QuotaSpec, new: QuotaSpec) -> bool:
        """Whether a quota is attached, and remains where it is."""
        return (
            old.name in self._tree_of and not new.fault and (old.parent, self._id(old)) == (new.parent, self._id(new))
        )

    def _note(self, spec: QuotaSpec) -> None:
        self.specs[spec.name] = spec
        self._children.setdefault(spec.parent, set()).add(spec.name)
        for namespace in spec.namespaces:
            self._claims.setdefault(namespace, {})[spec.name] = spec
        if spec.is_root and spec.tree and not spec.fault:
            self._roots.setdefault(spec.tree, set()).add(spec.name)

    def _forget(self, spec: QuotaSpec) -> None:
        del self.specs[spec.name]
        self._children[spec.parent].discard(spec.name)
        for namespace in spec.namespaces:
            del self._claims[namespace][spec.name]
        self._roots.get(spec.tree, set()).discard(spec.name)

    def _move(self, name: str, spec: QuotaSpec | None) -> None:
        quota = self.quotas.get(name)
        if quota is not None:
            self._detach(quota)
        if spec is None:
            self.quotas.pop(name, None)
            return
        if quota is None:
            quota = self.quotas[name] = Quota(name, spec.bounds)
        self._attach(name)

    def _attach(self, name: str) -> None:
        """A quota and what waits below it, as far as that is possible."""
        todo = [name]
        while todo:
            name = todo.pop()
            spec = self.specs.get(name)
            if spec is None or name in self._tree_of or name in OUTSIDE:
                continue
            id_ = self._id(spec)
            if spec.fault or (id_ and not self._roots.get(id_)):
                continue
            tree = self.trees.get(id_)
            if tree is None:
                tree = self.trees[id_] = Tree(scales=self._scales, keeps=self._keeps)
                self._set_total(id_)
            above = tree.root if spec.parent == names.QUOTA_ROOT else self.quotas.get(spec.parent)
            if above is None or (above is not tree.root and self._tree_of.get(spec.parent) is not tree):
                continue
            quota = self.quotas[name]
            quota.bounds = spec.bounds
            tree.attach(quota, above)
            self._tree_of[name] = tree
            todo += sorted(self._children.get(name, ()), reverse=True)

    def _detach(self, quota: Quota) -> None:
        tree = self._tree_of.get(quota.name)
        if tree is None:
            return
        for below in list(quota.below()):
            del self._tree_of[below.name]
        tree.detach(quota)

    def _tree_changed(self, id_: str) -> None:
        """The root quota of a tree came, went, or has another amount."""
        self._set_total(id_)
        members = [spec.name for spec in self.specs.values() if self._id(spec) == id_]
        if not self._roots.get(id_):
            for name in members:
                self._detach(self.quotas[name])
        else:
            for name in members:
                self._attach(name)

    def _set_total(self, id_: str) -> None:
        tree = self.trees.get(id_)
        if tree is None or id_ == DEFAULT_TREE:
            return
        total: Amounts = {}
        for name in self._roots.get(id_, ()):
            for key, amount in (self.specs[name].total or {}).items():
                total[key] = total.get(key, 0) + amount
        tree.has(total)
