"""The owners of an object's fields, as metadata.managedFields lists them.

An owner is a manager's name, how it wrote (Update or Apply), through which subresource and, for updates, in which
apiVersion. Each has one entry: a set of fields and the time of its last change.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from koord_minicluster.apiserver.patch import fields
from koord_minicluster.apiserver.patch.fields import Set

MOST_UPDATERS: Final = 10
ANCIENT: Final = "ancient-changes"


class Owner(NamedTuple):
    """Identity of an owner: entries with the same owner are merged."""

    manager: str
    operation: str
    api_version: str
    "Empty for appliers: they keep their entry when they change versions."
    subresource: str

    def shown(self) -> str:
        """As messages about conflicts name it."""
        text = fields.show_value(self.manager)
        if self.subresource:
            text += f" with subresource {fields.show_value(self.subresource)}"
        return f"{text} using {self.api_version}" if self.operation == "Update" else text

    def identifier(self) -> bytes:
        """What a real server sorts owners by where nothing else tells them apart."""
        parts = (
            ("manager", self.manager),
            ("operation", self.operation),
            ("apiVersion", self.api_version),
            ("subresource", self.subresource),
        )
        return msgspec.json.encode({key: value for key, value in parts if value})


class Owned(msgspec.Struct, frozen=True):
    """What an owner has."""

    fields: Set
    api_version: str
    time: str | None = None


Owners = dict[Owner, Owned]


class MalformedOwners(ValueError):
    """These managedFields cannot be read."""


def owner_of(manager: str, operation: str, api_version: str, subresource: str) -> Owner:
    return Owner(manager or "unknown", operation, api_version if operation == "Update" else "", subresource)


def decode(entries: object, *, trusted: bool = False) -> Owners:
    """The owners in managedFields. What the server wrote itself is trusted to be in canonical form."""
    result: Owners = {}
    if not isinstance(entries, list):
        return result
    for index, entry in enumerate(entries):
        operation, api_version = entry.get("operation", ""), entry.get("apiVersion", "")
        if operation not in ("Apply", "Update"):
            raise MalformedOwners("operation must be `Apply` or `Update`")
        if not api_version:
            raise MalformedOwners("apiVersion must not be empty")
        if entry.get("fieldsType") != "FieldsV1":
            kind = entry.get("fieldsType") or ""
            text = f"invalid fieldsType {fields.show_value(kind)}" if kind else "missing fieldsType"
            raise MalformedOwners(f"{text} in managed fields entry {index}")
        owned = entry.get("fieldsV1") or {}
        owner = Owner(
            entry.get("manager", ""),
            operation,
            api_version if operation == "Update" else "",
            entry.get("subresource", ""),
        )
        result[owner] = Owned(owned if trusted else fields.parse(owned), api_version, entry.get("time"))
    return result


def encode(owners: Mapping[Owner, Owned]) -> list[dict[str, Any]]:
    """managedFields for these owners: appliers first, then by time and name."""
    result = []
    for owner, owned in sorted(owners.items(), key=_place):
        entry: dict[str, Any] = {}
        if owner.manager:
            entry["manager"] = owner.manager
        entry["operation"] = owner.operation
        entry["apiVersion"] = owned.api_version
        if owned.time is not None:
            entry["time"] = owned.time
        entry["fieldsType"] = "FieldsV1"
        entry["fieldsV1"] = owned.fields
        if owner.subresource:
            entry["subresource"] = owner.subresource
        result.append(entry)
    return result


def _place(item: tuple[Owner, Owned]) -> tuple[str, str, str, str, str]:
    owner, owned = item
    return (owner.operation, owned.time or "", owner.manager, owned.api_version, owner.subresource)


def capped(owners: Owners) -> Owners:
    """At most ten updaters: the oldest are joined into one entry for each apiVersion."""
    updaters = [owner for owner in owners if owner.operation == "Update"]
    if len(updaters) <= MOST_UPDATERS:
        return owners
    result = dict(owners)
    updaters.sort(key=lambda owner: (owners[owner].time or "", owner.identifier()))
    first: dict[str, Owner] = {}
    left = len(updaters)
    for owner in updaters:
        if left <= MOST_UPDATERS:
            break
        owned = owners[owner]
        version = owned.api_version
        if version not in first:
            first[version] = owner
            continue
        bucket = Owner(ANCIENT, "Update", version, "")
        if bucket not in result:
            result[bucket] = result.pop(first[version])
        joined = fields.union(owned.fields, result[bucket].fields)
        result[bucket] = Owned(joined, version, owned.time)
        if owner != bucket:
            del result[owner]
        left -= 1
    return result


def is_reset(entries: object) -> bool:
    """Whether a writer asks for managedFields to be emptied: a list that is empty, or holds one empty entry."""
    if not isinstance(entries, list):
        return False
    return not entries or (len(entries) == 1 and not any((entries[0] or {}).values()))
