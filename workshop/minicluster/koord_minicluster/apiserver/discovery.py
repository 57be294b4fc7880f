"""What is served, for clients that ask: /api, /apis, /apis/GROUP, /apis/GROUP/VERSION, plain or aggregated.

kubectl asks for the aggregated form first (one document for all groups, with an ETag); older clients ask group by
group. Both are made from the registry and kept until it changes.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from koord_minicluster.apiserver.registry import Registry
from koord_minicluster.apiserver.resource import Resource

Document = dict[str, Any]

AGGREGATED_TYPES: Final = {
    "v2": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
    "v2beta1": "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList",
}
_CHANGE: Final = ("get", "patch", "update")
_SUBRESOURCES: Final[Mapping[str, tuple[str, str, str, tuple[str, ...]]]] = {
    "binding": ("", "", "Binding", ("create",)),
    "eviction": ("policy", "v1", "Eviction", ("create",)),
    "attach": ("", "", "PodAttachOptions", ("create", "get")),
    "exec": ("", "", "PodExecOptions", ("create", "get")),
    "finalize": ("", "", "", ("update",)),
    "log": ("", "", "", ("get",)),
    "portforward": ("", "", "PodPortForwardOptions", ("create", "get")),
    "proxy": ("", "", "{kind}ProxyOptions", ("create", "delete", "get", "patch", "update")),
    "scale": ("autoscaling", "v1", "Scale", _CHANGE),
    "token": ("authentication.k8s.io", "v1", "TokenRequest", ("create",)),
}
"""Group, version and kind where they are not the resource's own, and verbs; others are changed as `status` is."""

_STORED_AS: Final = {
    "CustomResourceDefinition": "apiextensions.k8s.io/v1beta1",
    "VolumeAttributesClass": "storage.k8s.io/v1beta1",
}
"""Kinds that the real server stores in a version that it does not serve, and says so in the hash."""

_VERSION: Final = re.compile(r"v([1-9][0-9]*)(?:(alpha|beta)([1-9][0-9]*))?")
_CUSTOM_VERBS: Final = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")


class Discovery:
    """The documents, each made once for every state of the registry."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._generation = -1
        self._groups: dict[str, dict[str, list[Resource]]] = {}
        self._made: dict[tuple[str, ...], tuple[bytes, str]] = {}

    def core_versions(self, server_address: str) -> Document:
        """/api."""
        return {
            "kind": "APIVersions",
            "versions": ["v1"],
            "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": server_address}],
        }

    def group_list(self) -> Document:
        """/apis."""
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [self._group(name) for name in self._names()]}

    def group(self, name: str) -> Document | None:
        """/apis/GROUP, or None where it is not served."""
        if not name or name not in self._known():
            return None
        return {"kind": "APIGroup", "apiVersion": "v1", **self._group(name)}

    def has_group(self, name: str) -> bool:
        return name in self._known()

    def resource_list(self, group: str, version: str) -> Document | None:
        """/api/v1 and /apis/GROUP/VERSION, or None where it is not served."""
        resources = self._known().get(group, {}).get(version)
        if resources is None:
            return None
        entries: list[Document] = []
        for resource in sorted(resources, key=lambda resource: resource.plural):
            entries.append(_entry(resource))
            entries += [_subresource_entry(resource, name) for name in sorted(resource.subresources)]
        group_version = f"{group}/{version}" if group else version
        # The core group's list has always been without an apiVersion.
        head = {"kind": "APIResourceList", "apiVersion": "v1"} if group else {"kind": "APIResourceList"}
        return {**head, "groupVersion": group_version, "resources": entries}

    def aggregated(self, *, core: bool, version: str = "v2") -> tuple[bytes, str]:
        """/api or /apis in one document, and its ETag."""
        names = [""] if core else self._names()
        made = self._made.get(("core" if core else "groups", version))
        if made is None:
            document = {
                "kind": "APIGroupDiscoveryList",
                "apiVersion": f"apidiscovery.k8s.io/{version}",
                "metadata": {},
                "items": [self._aggregated_group(name) for name in names],
            }
            body = msgspec.json.encode(document)
            made = (body, f'"{hashlib.sha512(body).hexdigest().upper()}"')
            self._made["core" if core else "groups", version] = made
        return made

    def _known(self) -> dict[str, dict[str, list[Resource]]]:
        if self._generation != self._registry.generation:
            self._generation = self._registry.generation
            self._made.clear()
            groups: dict[str, dict[str, list[Resource]]] = {}
            for resource in self._registry:
                groups.setdefault(resource.group, {}).setdefault(resource.version, []).append(resource)
            self._groups = groups
        return self._groups

    def _names(self) -> list[str]:
        """The groups as clients resolve short names by them: metrics last, as its kinds sound like others'."""
        return sorted((name for name in self._known() if name), key=lambda name: name == "metrics.k8s.io")

    def _group(self, name: str) -> Document:
        versions = [
            {"groupVersion": f"{name}/{version}", "version": version} for version in by_priority(self._known()[name])
        ]
        return {"name": name, "versions": versions, "preferredVersion": versions[0]}

    def _aggregated_group(self, name: str) -> Document:
        versions = self._known()[name]
        return {
            "metadata": {"name": name} if name else {},
            "versions": [
                {
                    "version": version,
                    "resources": [
                        _aggregated_entry(resource)
                        for resource in sorted(versions[version], key=lambda resource: resource.plural)
                    ],
                    "freshness": "Current",
                }
                for version in by_priority(versions)
            ],
        }


def by_priority(versions: Iterable[str]) -> list[str]:
    """Versions as clients prefer them: v2, v1, v1beta2, v1beta1, v1alpha1, then others by name."""

    def key(version: str) -> tuple[int, int, int, str]:
        match = _VERSION.fullmatch(version)
        if match is None:
            return (3, 0, 0, version)
        stage = {None: 0, "beta": 1, "alpha": 2}[match[2]]
        return (stage, -int(match[1]), -int(match[3] or 0), "")

    return sorted(versions, key=key)


def wants_aggregated(accept: str) -> str:
    """The version of the aggregated form that an Accept header prefers to plain discovery, or ""."""
    for part in accept.split(","):
        kind, *rest = (piece.strip() for piece in part.split(";"))
        parameters = dict(piece.split("=", 1) for piece in rest if "=" in piece)
        if kind not in ("application/json", "*/*", "application/*"):
            continue
        if parameters.get("as") == "APIGroupDiscoveryList":
            if parameters.get("g") == "apidiscovery.k8s.io" and parameters.get("v") in AGGREGATED_TYPES:
                return parameters["v"]
            continue
        if "as" not in parameters:
            return ""
    return ""


def _verbs(resource: Resource) -> list[str]:
    return list(_CUSTOM_VERBS if resource.custom else resource.verbs)


def _entry(resource: Resource) -> Document:
    entry: Document = {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": _verbs(resource),
    }
    return entry | _naming(resource) | _storage(resource)


def _storage(resource: Resource) -> Document:
    """A hash of the form in which objects are stored; kinds that are not stored have none."""
    if "watch" not in resource.verbs:
        return {}
    stored = resource.storage_version or _STORED_AS.get(resource.kind) or resource.api_version
    text = f"{stored if '/' in stored else '/' + stored}/{resource.kind}"
    return {"storageVersionHash": base64.b64encode(hashlib.sha256(text.encode()).digest()[:8]).decode()}


def _naming(resource: Resource) -> Document:
    naming = {"shortNames": list(resource.short_names), "categories": list(resource.categories)}
    return {key: value for key, value in naming.items() if value}


def subresource_verbs(name: str) -> tuple[str, ...]:
    return _SUBRESOURCES.get(name, ("", "", "", _CHANGE))[3]


def _subresource(resource: Resource, name: str) -> tuple[str, str, str, tuple[str, ...]]:
    group, version, kind, verbs = _SUBRESOURCES.get(name, ("", "", "", _CHANGE))
    return group, version, kind.format(kind=resource.kind) or resource.kind, verbs


def _subresource_entry(resource: Resource, name: str) -> Document:
    group, version, kind, verbs = _subresource(resource, name)
    entry: Document = {"name": f"{resource.plural}/{name}", "singularName": "", "namespaced": resource.namespaced}
    if group:
        entry |= {"group": group, "version": version}
    return {**entry, "kind": kind, "verbs": list(verbs)}


def _aggregated_entry(resource: Resource) -> Document:
    own = (resource.group, resource.version) if resource.custom else ("", "")
    entry: Document = {
        "resource": resource.plural,
        "responseKind": {"group": own[0], "version": own[1], "kind": resource.kind},
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": _verbs(resource),
        **_naming(resource),
    }
    subresources = []
    for name in sorted(resource.subresources):
        group, version, kind, verbs = _subresource(resource, name)
        response = {"group": group or own[0], "version": version or own[1], "kind": kind}
        subresources.append({"subresource": name, "responseKind": response, "verbs": list(verbs)})
    if subresources:
        entry["subresources"] = subresources
    return entry
