"""Which rights somebody lacks, all at once: the API server is asked before anything is done."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from koord.api.kinds import Kind
from koord.api.machinery.struct import Struct
from koord.operate.install.kinds import kind_of
from koord.operate.install.live.cluster import Cluster, each_of
from koord.operate.install.manifest import Key


class _Status(Struct):
    allowed: bool = False


class _Review(Struct):
    status: _Status = _Status()


SELF_REVIEWS: Final[Kind[_Review]] = Kind(
    "authorization.k8s.io", "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", False, _Review
)


@dataclass(frozen=True, slots=True, order=True)
class Wanted:
    """A right that is needed."""

    verb: str
    resource: str
    group: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    def __str__(self) -> str:
        whole = f"{self.resource}.{self.group}" if self.group else self.resource
        whole = f"{whole}/{self.subresource}" if self.subresource else whole
        named = f" {self.name}" if self.name else ""
        return f"{self.verb} {whole}{named}" + (f" in namespace {self.namespace}" if self.namespace else "")

    def attributes(self) -> dict[str, str]:
        return {
            "verb": self.verb,
            "resource": self.resource,
            "group": self.group,
            "namespace": self.namespace,
            "name": self.name,
            "subresource": self.subresource,
        }


def for_objects(keys: Iterable[Key], *verbs: str) -> list[Wanted]:
    """To do this to these objects. One right for each kind and place where a name makes no difference."""
    return [
        Wanted(verb, kind.plural, kind.group, key.namespace, "" if verb == "create" else key.name)
        for key in keys
        for kind in (kind_of(key),)
        for verb in verbs
    ]


async def missing(cluster: Cluster, wanted: Iterable[Wanted]) -> list[Wanted]:
    """Those that the caller does not have."""
    by_kind: dict[Wanted, list[Wanted]] = {}
    for each in dict.fromkeys(wanted):
        whole = Wanted(each.verb, each.resource, each.group, each.namespace, "", each.subresource)
        by_kind.setdefault(whole, []).append(each)

    async def lacks(whole: Wanted) -> list[Wanted]:
        if await _allowed(cluster, whole):
            return []
        return [each for each in by_kind[whole] if each == whole or not await _allowed(cluster, each)]

    return sorted(each for found in await each_of(by_kind, lacks) for each in found)


async def _allowed(cluster: Cluster, wanted: Wanted) -> bool:
    review = await cluster.client.create(SELF_REVIEWS, {"spec": {"resourceAttributes": wanted.attributes()}})
    return review.status.allowed
