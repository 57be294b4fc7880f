"""The quotas that exist, as admission asks about them: by name, by parent, and by namespace."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from koord.api.protocol import names
from koord.api.protocol.annotations import quota as protocol
from koord.api.protocol.annotations.value import AnnotationError
from koord.api.protocol.crd.elastic_quota import ElasticQuota

BUILT_IN = frozenset({names.QUOTA_ROOT, names.QUOTA_SYSTEM, names.QUOTA_DEFAULT})


@dataclass(slots=True)
class QuotaTopology:
    """Kept up to date by `put` and `remove`: one change costs what it changes."""

    _by_key: dict[str, ElasticQuota] = field(default_factory=dict)
    _of_name: dict[str, set[str]] = field(default_factory=dict)
    _below: dict[str, set[str]] = field(default_factory=dict)
    _of_namespace: dict[str, set[str]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self._by_key)

    @staticmethod
    def of(quotas: Iterable[ElasticQuota]) -> QuotaTopology:
        topology = QuotaTopology()
        for quota in quotas:
            topology.put(quota)
        return topology

    def put(self, quota: ElasticQuota) -> None:
        key, name = quota.metadata.key, quota.metadata.name
        self.remove(key)
        self._by_key[key] = quota
        self._of_name.setdefault(name, set()).add(key)
        self._below.setdefault(protocol.parent_of(quota.metadata), set()).add(key)
        for namespace in namespaces_of(quota):
            self._of_namespace.setdefault(namespace, set()).add(key)

    def remove(self, key: str) -> None:
        quota = self._by_key.pop(key, None)
        if quota is None:
            return
        self._of_name[quota.metadata.name].discard(key)
        self._below[protocol.parent_of(quota.metadata)].discard(key)
        for namespace in namespaces_of(quota):
            self._of_namespace[namespace].discard(key)

    def named(self, name: str) -> list[ElasticQuota]:
        """All of one name: more than one only where they were stored without admission."""
        return [self._by_key[key] for key in sorted(self._of_name.get(name, ()))]

    def get(self, name: str) -> ElasticQuota | None:
        quotas = self.named(name)
        return min(
            quotas, key=lambda quota: (quota.metadata.creation_timestamp or "", quota.metadata.key), default=None
        )

    def children(self, name: str) -> Iterator[ElasticQuota]:
        for key in sorted(self._below.get(name, ())):
            yield self._by_key[key]

    def listing(self, namespace: str) -> Iterator[ElasticQuota]:
        """Quotas that list a namespace."""
        for key in sorted(self._of_namespace.get(namespace, ())):
            yield self._by_key[key]

    def name_for(self, label: str, namespace: str, *, default: bool) -> str:
        """The quota of a pod, by its label and namespace; empty where it is in none. `default`: those that no quota
        claims are in the default quota, and namespaces count."""
        if label:
            if self._of_name.get(label):
                return label
            current = names.OLD_QUOTAS.get(label, label)
            return current if self._of_name.get(current) else (names.QUOTA_DEFAULT if default else label)
        if not default:
            return ""
        if f"{namespace}/{namespace}" in self._by_key:
            return namespace
        listing = list(self.listing(namespace))
        first = min(
            listing, key=lambda quota: (quota.metadata.creation_timestamp or "", quota.metadata.name), default=None
        )
        return names.QUOTA_DEFAULT if first is None else first.metadata.name


def namespaces_of(quota: ElasticQuota) -> tuple[str, ...]:
    try:
        return protocol.namespaces_of(quota.metadata)
    except AnnotationError:
        return ()
