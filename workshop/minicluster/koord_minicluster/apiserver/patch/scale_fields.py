"""Field ownership through the scale subresource: owning a Scale's replicas is owning the replicas of what it scales.

A write to a scale is tracked on the Scale object with the owners translated to it, and what comes out is translated
back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from koord_minicluster.apiserver.patch import fields, managers
from koord_minicluster.apiserver.patch.fields import Path
from koord_minicluster.apiserver.patch.managers import Owned, Owner, Owners

SCALE_VERSION: Final = "autoscaling/v1"
_REPLICAS: Final[Path] = ("f:spec", "f:replicas")

Entries = list[dict[str, Any]]
Mappings = Mapping[str, Path]
"""Where the replicas are in each apiVersion of the scaled kind; an empty path where it cannot be scaled."""


def mappings_of(api_versions: Mapping[str, str]) -> Mappings:
    """From JSON paths (`.spec.replicas`) by apiVersion."""
    return {
        version: tuple(map(fields.field, path.strip(".").split("."))) if path else ()
        for version, path in api_versions.items()
    }


def to_scale(entries: Entries | None, mappings: Mappings) -> Entries:
    """The owners of a Scale: the owners of the scaled object's replicas field."""
    result: Owners = {}
    for owner, owned in managers.decode(entries, trusted=True).items():
        path = mappings.get(owned.api_version)
        if path and fields.contains(owned.fields, path):
            version = SCALE_VERSION if owner.operation == "Update" else ""
            result[Owner(owner.manager, owner.operation, version, owner.subresource)] = Owned(
                fields.from_paths(_REPLICAS), SCALE_VERSION, owned.time
            )
    return managers.encode(result)


def from_scale(entries: Entries | None, scale_entries: Entries | None, api_version: str, mappings: Mappings) -> Entries:
    """The owners of what is scaled, after a write to its Scale left that one with `scale_entries`."""
    scaled = managers.decode(scale_entries, trusted=True)
    result: Owners = {}
    for owner, owned in managers.decode(entries, trusted=True).items():
        path = mappings.get(owned.api_version)
        if path is None:
            continue
        if not path or not fields.contains(owned.fields, path):
            result[owner] = owned
            continue
        version = SCALE_VERSION if owner.operation == "Update" else ""
        if scaled.pop(owner._replace(api_version=version), None) is not None:
            result[owner] = owned
        elif left := fields.difference(owned.fields, fields.from_paths(path)):
            result[owner] = Owned(left, owned.api_version, owned.time)
    for owner, owned in scaled.items():
        if fields.contains(owned.fields, _REPLICAS):
            version = api_version if owner.operation == "Update" else ""
            # A new owner through the scale has no time, on the real server too.
            result[owner._replace(api_version=version)] = Owned(fields.from_paths(mappings[api_version]), api_version)
    return managers.encode(result)
