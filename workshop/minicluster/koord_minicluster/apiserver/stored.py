"""The form in which objects are kept: bytes that a GET answers, with what the server must know of them beside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from koord_minicluster.apiserver.bodies import typed
from koord_minicluster.apiserver.bodies.json_text import whole_numbers
from koord_minicluster.apiserver.resource import Obj, Resource
from koord_minicluster.apiserver.store import Collection, Index, Store

_encoder: Final = msgspec.json.Encoder()
_written: Final = bytearray()


def collection_of(store: Store, resource: Resource) -> Collection:
    """Where the objects of a resource are kept."""
    return store.collection(resource.collection, lambda value: index_of(resource, msgspec.json.decode(value)))


def index_of(resource: Resource, obj: Obj) -> Index:
    """What the store keeps of an object beside its bytes."""
    meta = obj["metadata"]
    fields = {"metadata.name": meta["name"]}
    if resource.namespaced:
        fields["metadata.namespace"] = meta["namespace"]
    fields.update(resource.strategy.fields(obj))
    owners = tuple(owner["uid"] for owner in meta.get("ownerReferences") or ())
    return Index(meta.get("labels") or {}, fields, meta["uid"], owners, bool(meta.get("deletionTimestamp")))


def decode(resource: Resource, value: bytes) -> Obj:
    """A stored object, in the version in which the resource shows it."""
    obj: Obj = msgspec.json.decode(value)
    if resource.convert is not None and obj["apiVersion"] != resource.api_version:
        obj = resource.convert(obj, resource.api_version)
    obj["apiVersion"] = resource.api_version
    return obj


def encode(resource: Resource, obj: Obj, rev: int = 0) -> bytes:
    """The bytes that are stored and answered. Kind and apiVersion come first, so that lists can cut them off."""
    meta = obj["metadata"]
    meta.pop("resourceVersion", None)
    if rev:
        meta["resourceVersion"] = str(rev)
    api_version = resource.storage_version or resource.api_version
    if resource.convert is not None and api_version != resource.api_version:
        obj = resource.convert(obj, api_version)
    rest = {key: value for key, value in obj.items() if key not in ("kind", "apiVersion", "metadata")}
    # Written in one place and copied to where it stays: there it would grow step by step.
    _encoder.encode_into({"kind": resource.kind, "apiVersion": api_version, "metadata": meta, **rest}, _written)
    encoded = bytes(_written)
    return whole_numbers(encoded) if resource.custom else encoded


def read_back(resource: Resource, obj: Obj, stored: Obj | None = None) -> bool:
    """Turns the object into the form it has after a round trip through the store; whether reading adds a value that
    was not stored.

    Parts shared with `stored` have that form already.
    """
    if resource.custom:
        return False
    if stored is None:
        typed.settle(resource.schema, obj)
    else:
        changed = {key: part for key, part in obj.items() if stored.get(key) is not part}
        typed.settle(resource.schema, changed)
        obj.update(changed)
    return resource.strategy.when_read is not None and resource.strategy.when_read(obj)


def same(new: Obj, old: Obj) -> bool:
    """Whether nothing but the book-keeping of field owners' times differs."""
    return same_but_metadata(new, old) and _without_times(new["metadata"]) == _without_times(old["metadata"])


def shares_all_but_metadata(new: Obj, old: Obj) -> bool:
    """Whether all else is not only equal, but the very same."""
    return len(new) == len(old) and all(old.get(key) is part for key, part in new.items() if key != "metadata")


def same_but_metadata(new: Obj, old: Obj) -> bool:
    return new.keys() == old.keys() and all(new[part] == old[part] for part in new if part != "metadata")


def _without_times(meta: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in meta.items() if key not in ("resourceVersion", "managedFields")}
    kept["managedFields"] = [
        {key: value for key, value in entry.items() if key != "time"} for entry in meta.get("managedFields") or ()
    ]
    return kept
