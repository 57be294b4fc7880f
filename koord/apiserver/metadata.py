"""The metadata of an object through its life: filled in at creation, carried over at updates, checked always."""

from __future__ import annotations

import random
import uuid
from collections.abc import Mapping
from typing import Any

from koord.apiserver import object_meta
from koord.apiserver.resource import Obj, Resource

_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
"No vowels, so that a random suffix is never a word."
_SUFFIX_LENGTH = 5
_LONGEST_GENERATED_BASE = 63 - _SUFFIX_LENGTH
_FROM_SERVER_ALONE = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink")

_random = random.SystemRandom()

validate_metadata = object_meta.validate_object_meta
validate_metadata_update = object_meta.validate_object_meta_update


def generate_name(base: str) -> str:
    return base[:_LONGEST_GENERATED_BASE] + "".join(_random.choices(_SUFFIX_LETTERS, k=_SUFFIX_LENGTH))


def clear_on_create(obj: Obj, resource: Resource, namespace: str) -> None:
    """Take away what a creator may not decide, and name the namespace: so admission sees a new object."""
    metadata = obj.setdefault("metadata", {})
    for key in _FROM_SERVER_ALONE:
        metadata.pop(key, None)
    if resource.namespaced:
        metadata["namespace"] = namespace
    else:
        metadata.pop("namespace", None)


def fill_on_create(obj: Obj, resource: Resource, namespace: str, now: str) -> None:
    """What the server alone decides about a new object, once it is admitted."""
    clear_on_create(obj, resource, namespace)
    metadata = obj["metadata"]
    if not metadata.get("name") and metadata.get("generateName"):
        metadata["name"] = generate_name(metadata["generateName"])
    metadata["uid"] = str(uuid.uuid4())
    metadata["creationTimestamp"] = now
    if resource.strategy.has_generation:
        metadata["generation"] = 1


def carry_over(new: Obj, old: Obj, resource: Resource) -> None:
    """What an update cannot change: it keeps the old values, whatever was sent."""
    was = old["metadata"]
    metadata = new.setdefault("metadata", {})
    for key in ("creationTimestamp", "selfLink"):
        _restore(metadata, was, key)
    if was.get("deletionTimestamp"):
        # What is being deleted stays so. Of anything else nobody may say it: that is for the checks to refuse.
        metadata["deletionTimestamp"] = was["deletionTimestamp"]
    for key in ("uid", "generateName", "deletionGracePeriodSeconds"):
        if not metadata.get(key):
            _restore(metadata, was, key)
    metadata["name"] = was["name"]
    if resource.namespaced:
        metadata["namespace"] = was["namespace"]
    _restore(metadata, was, "generation")


def bump_generation(new: Obj, old: Obj, resource: Resource) -> None:
    """Count a change of what the user wants: all but metadata, and but status where that is written apart."""
    if not resource.strategy.has_generation:
        return
    aside = {"metadata", "status"} if resource.strategy.has_status else {"metadata"}
    if {k: v for k, v in new.items() if k not in aside} != {k: v for k, v in old.items() if k not in aside}:
        new["metadata"]["generation"] = int(old["metadata"].get("generation", 0)) + 1


def _restore(metadata: dict[str, Any], was: Mapping[str, Any], key: str) -> None:
    if key in was:
        metadata[key] = was[key]
    else:
        metadata.pop(key, None)
