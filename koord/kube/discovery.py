"""What a server serves: its version, and the kinds it knows with their verbs and names.

`discover` asks for everything in two calls (aggregated discovery, Kubernetes 1.27 and later) and falls back to one call
per group and version. A group whose own server is down is named in `missing` and does not hide the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Final

from koord.api.kinds import Kind
from koord.api.kubernetes.meta import ObjectMeta
from koord.api.machinery.codec import decode
from koord.api.machinery.struct import Struct
from koord.api.text.whole_number import natural_number
from koord.kube.errors import ApiError, Forbidden, NotFound, Unauthorized

PLAIN: Final = "application/json"
AGGREGATED: Final = ",".join(
    [
        *(f"application/json;g=apidiscovery.k8s.io;v={v};as=APIGroupDiscoveryList" for v in ("v2", "v2beta1")),
        PLAIN,
    ]
)
MAX_PARALLEL_CALLS: Final = 8

Fetch = Callable[[str, str], Awaitable[bytes]]
"""(path, accept) -> body."""


class Unstructured(Struct):
    """An object; only its metadata is typed. Its bytes come from `get_bytes` and `list_pages`."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()


class ServerVersion(Struct):
    major: str = ""
    minor: str = ""
    git_version: str = ""
    platform: str = ""

    @property
    def numbers(self) -> tuple[int, int]:
        """(1, 35), whatever a vendor writes behind the digits."""
        return _leading_int(self.major), _leading_int(self.minor)


@dataclass(frozen=True, slots=True)
class ApiResource:
    """One kind in one version."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool
    singular: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()

    def as_kind(self) -> Kind[Unstructured]:
        return Kind(self.group, self.version, self.kind, self.plural, self.namespaced, Unstructured)


@dataclass(frozen=True, slots=True)
class Resources:
    """All of them. Groups come in the server's order, the preferred version of each first."""

    all: tuple[ApiResource, ...]
    missing: tuple[str, ...] = ()
    "Groups (`group/version`) that the server could not describe at this time."

    def find(self, group: str, kind: str, version: str = "") -> ApiResource | None:
        """The kind in the version asked for, else in the one that the server prefers."""
        return next(
            (r for r in self.all if r.group == group and r.kind == kind and (not version or r.version == version)), None
        )

    def named(self, word: str) -> ApiResource | None:
        """What a person means by `po`, `pods`, `Pod` or `reservations.scheduling.koordinator.sh`."""
        name, _, group = word.lower().partition(".")
        for resource in self.all:
            if group and not _same_group(group, resource):
                continue
            if name in (resource.plural, resource.singular or resource.kind.lower(), *resource.short_names):
                return resource
        return None


async def discover(fetch: Fetch) -> Resources:
    """Everything that the server serves."""
    core, groups = await asyncio.gather(_root(fetch, "/api"), _root(fetch, "/apis"))
    return Resources((*core.all, *groups.all), (*core.missing, *groups.missing))


async def server_version(fetch: Fetch) -> ServerVersion:
    return decode(ServerVersion, await fetch("/version", PLAIN))


class _Kind(Struct):
    kind: str = ""


class _Subresource(Struct):
    subresource: str = ""


class _Resource(Struct):
    resource: str = ""
    response_kind: _Kind | None = None
    scope: str = ""
    singular_resource: str = ""
    verbs: tuple[str, ...] = ()
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[_Subresource, ...] = ()


class _Version(Struct):
    version: str = ""
    freshness: str = ""
    resources: tuple[_Resource, ...] = ()


class _Group(Struct):
    metadata: ObjectMeta = ObjectMeta()
    versions: tuple[_Version, ...] = ()


class _GroupVersion(Struct):
    group_version: str = ""
    version: str = ""


class _ListedGroup(Struct):
    name: str = ""
    versions: tuple[_GroupVersion, ...] = ()
    preferred_version: _GroupVersion = _GroupVersion()


class _Root(Struct):
    """A root's answer: APIGroupDiscoveryList has items, APIGroupList groups, APIVersions versions."""

    kind: str = ""
    items: tuple[_Group, ...] = ()
    groups: tuple[_ListedGroup, ...] = ()
    versions: tuple[str, ...] = ()


class _ListedResource(Struct):
    name: str = ""
    singular_name: str = ""
    namespaced: bool = False
    kind: str = ""
    verbs: tuple[str, ...] = ()
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()


class _ResourceList(Struct):
    resources: tuple[_ListedResource, ...] = ()


async def _root(fetch: Fetch, path: str) -> Resources:
    try:
        root = decode(_Root, await _root_document(fetch, path))
    except NotFound:
        return Resources(())
    if root.kind == "APIGroupDiscoveryList":
        return Resources(
            tuple(resource for group in root.items for resource in _aggregated(group)),
            tuple(
                f"{group.metadata.name}/{version.version}"
                for group in root.items
                for version in group.versions
                if version.freshness == "Stale"
            ),
        )
    return await _one_by_one(fetch, path, root)


async def _root_document(fetch: Fetch, path: str) -> bytes:
    """What the server says at a root: everything at once, or where it refuses that, the names of groups alone."""
    try:
        return await fetch(path, AGGREGATED)
    except (NotFound, Unauthorized, Forbidden):
        raise
    except ApiError as error:
        if not error.code:
            raise
        return await fetch(path, PLAIN)


def _aggregated(group: _Group) -> Iterable[ApiResource]:
    for version in group.versions:
        for resource in version.resources:
            yield ApiResource(
                group.metadata.name,
                version.version,
                resource.response_kind.kind if resource.response_kind else "",
                resource.resource,
                resource.scope == "Namespaced",
                resource.singular_resource,
                resource.short_names,
                resource.categories,
                resource.verbs,
                tuple(sub.subresource for sub in resource.subresources),
            )


async def _one_by_one(fetch: Fetch, path: str, root: _Root) -> Resources:
    wanted = [("", version) for version in root.versions]
    for group in root.groups:
        versions = [version.version for version in group.versions]
        # Stable: the preferred version first, the others in the server's order.
        wanted += [(group.name, v) for v in sorted(versions, key=lambda v: v != group.preferred_version.version)]
    slots = asyncio.Semaphore(MAX_PARALLEL_CALLS)

    async def describe(group: str, version: str) -> list[ApiResource] | None:
        async with slots:
            try:
                body = await fetch(f"{path}/{group}/{version}" if group else f"{path}/{version}", PLAIN)
            except ApiError as error:
                if error.code in (401, 403):
                    raise
                return None
        return list(_listed(group, version, decode(_ResourceList, body)))

    described = await asyncio.gather(*(describe(group, version) for group, version in wanted))
    return Resources(
        tuple(resource for part in described if part for resource in part),
        tuple(f"{group}/{version}" for (group, version), part in zip(wanted, described, strict=True) if part is None),
    )


def _listed(group: str, version: str, listed: _ResourceList) -> Iterable[ApiResource]:
    subresources: dict[str, list[str]] = {}
    for resource in listed.resources:
        plural, _, subresource = resource.name.partition("/")
        if subresource:
            subresources.setdefault(plural, []).append(subresource)
    for resource in listed.resources:
        if "/" not in resource.name:
            yield ApiResource(
                group,
                version,
                resource.kind,
                resource.name,
                resource.namespaced,
                resource.singular_name,
                resource.short_names,
                resource.categories,
                resource.verbs,
                tuple(subresources.get(resource.name, ())),
            )


def _same_group(wanted: str, resource: ApiResource) -> bool:
    """`deployments.apps`, or with the version as kubectl takes it: `deployments.v1.apps`."""
    return wanted in (resource.group, f"{resource.version}.{resource.group}".rstrip("."))


def _leading_int(text: str) -> int:
    return natural_number(text[: next((i for i, c in enumerate(text) if not c.isdigit()), len(text))]) or 0
