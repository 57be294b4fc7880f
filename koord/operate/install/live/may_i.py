"""All rights that the user lacks, checked with the API server before anything is changed."""

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
class RequiredRight:
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


def for_objects(keys: Iterable[Key], *verbs: str) -> list[RequiredRight]:
    """The rights for these verbs on these objects. Rights to create carry no object name."""
    return [
        RequiredRight(verb, kind.plural, kind.group, key.namespace, "" if verb == "create" else key.name)
        for key in keys
        for kind in (kind_of(key),)
        for verb in verbs
    ]


async def missing(cluster: Cluster, wanted: Iterable[RequiredRight]) -> list[RequiredRight]:
    """The wanted rights that the caller does not have."""
    by_kind: dict[RequiredRight, list[RequiredRight]] = {}
    for right in dict.fromkeys(wanted):
        whole = RequiredRight(right.verb, right.resource, right.group, right.namespace, "", right.subresource)
        by_kind.setdefault(whole, []).append(right)

    async def lacks(whole: RequiredRight) -> list[RequiredRight]:
        if await _allowed(cluster, whole):
            return []
        return [right for right in by_kind[whole] if right == whole or not await _allowed(cluster, right)]

    return sorted(right for lacking in await each_of(by_kind, lacks) for right in lacking)


async def _allowed(cluster: Cluster, wanted: RequiredRight) -> bool:
    review = await cluster.client.create(SELF_REVIEWS, {"spec": {"resourceAttributes": wanted.attributes()}})
    return review.status.allowed
