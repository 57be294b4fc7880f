"""Which resources are served right now: the built-in ones and those of established CustomResourceDefinitions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from koord_minicluster.apiserver.resource import Resource

Gvr = tuple[str, str, str]


class Registry:
    """Resources by group, version and plural. `generation` changes with the set, so that documents can be cached."""

    def __init__(self, resources: Iterable[Resource] = ()) -> None:
        self._by_gvr: dict[Gvr, Resource] = {}
        self.generation = 0
        for resource in resources:
            self.add(resource)

    def __iter__(self) -> Iterator[Resource]:
        return iter(self._by_gvr.values())

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        return self._by_gvr.get((group, version, plural))

    def find_kind(self, group: str, version: str, kind: str) -> Resource | None:
        return next((r for r in self if (r.group, r.version, r.kind) == (group, version, kind)), None)

    def serves(self, group: str, version: str) -> bool:
        return any(g == group and v == version for g, v, _ in self._by_gvr)

    def has_built_in(self, group: str) -> bool:
        """Whether a group is one of the server's own, not one that definitions made."""
        return any(resource.group == group and not resource.custom for resource in self)

    def add(self, resource: Resource) -> None:
        self._by_gvr[resource.group, resource.version, resource.plural] = resource
        self.generation += 1

    def remove(self, group: str, version: str, plural: str) -> None:
        if self._by_gvr.pop((group, version, plural), None) is not None:
            self.generation += 1
