"""What one RBAC rule allows, and whether rules cover other rules.

A rule is a product: any of its verbs, on any of its resources in any of its groups, restricted to names if it has any;
or any of its verbs on its URLs. `*` stands for all, `pods/log` for a subresource, `*/scale` for that subresource of
everything, and a URL may end in `*`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from koord.api.kubernetes.access import Access

ALL: Final = "*"


@dataclass(frozen=True, slots=True)
class RbacRule:
    verbs: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()

    def allows(self, access: Access) -> bool:
        verbs = self.verbs
        if access.verb not in verbs and ALL not in verbs:
            return False
        if not access.resource:
            return any(url_covers(url, access.path) for url in self.urls)
        if access.group not in self.groups and ALL not in self.groups:
            return False
        if self.names and access.name not in self.names:
            return False
        return self._has_resource(access.resource, access.subresource)

    def _has_resource(self, resource: str, subresource: str) -> bool:
        resources = self.resources
        if not subresource:
            return resource in resources or ALL in resources
        return f"{resource}/{subresource}" in resources or ALL in resources or f"*/{subresource}" in resources

    def covers(self, atom: RbacRule) -> bool:
        """Whether this rule allows all that `atom` does, which has one verb, resource and so on."""
        return (
            _has_all(self.verbs, atom.verbs)
            and _has_all(self.groups, atom.groups)
            and all(self._has_resource(*_split(resource)) or resource in self.resources for resource in atom.resources)
            and (not self.names or (bool(atom.names) and set(atom.names) <= set(self.names)))
            and all(any(url_covers(mine, url) for mine in self.urls) for url in atom.urls)
        )

    def atoms(self) -> Iterator[RbacRule]:
        """The same as rules of one verb and one thing each."""
        for group in self.groups:
            for resource in self.resources:
                for verb in self.verbs:
                    if not self.names:
                        yield RbacRule((verb,), (group,), (resource,))
                    for name in self.names:
                        yield RbacRule((verb,), (group,), (resource,), (name,))
        for url in self.urls:
            for verb in self.verbs:
                yield RbacRule((verb,), urls=(url,))

    def __str__(self) -> str:
        """As refusals show it: `{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}`."""
        parts = (
            ("APIGroups", self.groups),
            ("Resources", self.resources),
            ("NonResourceURLs", self.urls),
            ("ResourceNames", self.names),
            ("Verbs", self.verbs),
        )
        return "{" + ", ".join(f"{label}:{quoted(values)}" for label, values in parts if values) + "}"


def parse_rules(rules: Iterable[Mapping[str, Any]] | None) -> tuple[RbacRule, ...]:
    """The `rules` of a Role or ClusterRole."""
    return tuple(
        RbacRule(
            _strings(rule, "verbs"),
            _strings(rule, "apiGroups"),
            _strings(rule, "resources"),
            _strings(rule, "resourceNames"),
            _strings(rule, "nonResourceURLs"),
        )
        for rule in rules or ()
    )


def missing(held: Iterable[RbacRule], wanted: Iterable[RbacRule]) -> list[RbacRule]:
    """What of `wanted` the rules `held` do not cover: atoms, joined by verb where they differ in nothing else."""
    held = tuple(held)
    joined: dict[tuple[object, ...], RbacRule] = {}
    for rule in wanted:
        for atom in rule.atoms():
            if any(mine.covers(atom) for mine in held):
                continue
            if atom.urls:
                joined[atom.urls, atom.verbs] = atom
                continue
            key = (atom.groups, atom.resources, atom.names)
            before = joined.get(key)
            verbs = (*before.verbs, *atom.verbs) if before else atom.verbs
            joined[key] = RbacRule(verbs, atom.groups, atom.resources, atom.names)
    return list(joined.values())


def url_covers(mine: str, wanted: str) -> bool:
    return mine == wanted or (mine.endswith(ALL) and wanted.startswith(mine.rstrip(ALL)))


def quoted(values: Iterable[str]) -> str:
    """A list of strings as Go's %q prints it."""
    return "[" + " ".join('"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"' for value in values) + "]"


def _strings(rule: Mapping[str, Any], key: str) -> tuple[str, ...]:
    return tuple(rule.get(key) or ())


def _has_all(mine: tuple[str, ...], wanted: tuple[str, ...]) -> bool:
    return ALL in mine or set(wanted) <= set(mine)


def _split(resource: str) -> tuple[str, str]:
    plain, _, subresource = resource.partition("/")
    return plain, subresource
