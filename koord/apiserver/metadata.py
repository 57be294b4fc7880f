"""The metadata of an object through its life: filled in at creation, carried over at updates, checked always."""

from __future__ import annotations

import random
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from koord.api.naming import dns_subdomain_fault, label_key_fault, label_value_fault
from koord.apiserver.resource import Obj, Resource
from koord.apiserver.status import Cause, forbidden, invalid, required, too_long

_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
"No vowels, so that a random suffix is never a word."
_SUFFIX_LENGTH = 5
_LONGEST_GENERATED_BASE = 63 - _SUFFIX_LENGTH
_ANNOTATIONS_LIMIT_BYTES = 256 << 10
_FROM_SERVER_ALONE = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink")

_random = random.SystemRandom()


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
    else:
        metadata.pop("generation", None)


def carry_over(new: Obj, old: Obj, resource: Resource) -> None:
    """What an update cannot change: it keeps the old values, whatever was sent."""
    was = old["metadata"]
    metadata = new.setdefault("metadata", {})
    for key in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"):
        _restore(metadata, was, key)
    for key in ("uid", "creationTimestamp", "generateName"):
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


def validate_metadata(obj: Obj, resource: Resource) -> list[Cause]:
    metadata = obj.get("metadata", {})
    causes: list[Cause] = []
    name, base = metadata.get("name", ""), metadata.get("generateName", "")
    name_fault = resource.strategy.name_fault or dns_subdomain_fault
    if base and (fault := name_fault(base.rstrip("-") or base)):
        causes.append(invalid("metadata.generateName", base, fault))
    if not name:
        causes.append(required("metadata.name", "name or generateName is required"))
    elif fault := name_fault(name):
        causes.append(invalid("metadata.name", name, fault))
    causes += _validate_labels(metadata.get("labels") or {}, "metadata.labels")
    causes += _validate_annotations(metadata.get("annotations") or {}, "metadata.annotations")
    causes += _validate_owners(metadata.get("ownerReferences") or ())
    causes += _validate_finalizers(metadata.get("finalizers") or ())
    return causes


def validate_metadata_update(new: Obj, old: Obj) -> list[Cause]:
    metadata, was = new["metadata"], old["metadata"]
    causes = [
        invalid(f"metadata.{key}", metadata.get(key, ""), "field is immutable")
        for key in ("uid", "creationTimestamp")
        if metadata.get(key) != was.get(key)
    ]
    if was.get("deletionTimestamp"):
        added = [f for f in metadata.get("finalizers") or () if f not in (was.get("finalizers") or ())]
        if added:
            listed = ", ".join(f'"{each}"' for each in added)
            causes.append(
                forbidden(
                    "metadata.finalizers",
                    "no new finalizers can be added if the object is being deleted, "
                    f"found new finalizers []string{{{listed}}}",
                )
            )
    return causes


def _validate_labels(labels: Mapping[str, str], path: str) -> list[Cause]:
    causes = []
    for key, value in labels.items():
        if fault := label_key_fault(key):
            causes.append(invalid(path, key, fault))
        if fault := label_value_fault(value):
            causes.append(invalid(path, value, fault))
    return causes


def _validate_annotations(annotations: Mapping[str, str], path: str) -> list[Cause]:
    # Only keys are constrained, and they may differ from label keys in case.
    causes = [invalid(path, key, fault) for key in annotations if (fault := label_key_fault(key.lower()))]
    if sum(len(k.encode()) + len(v.encode()) for k, v in annotations.items()) > _ANNOTATIONS_LIMIT_BYTES:
        causes.append(too_long(path, _ANNOTATIONS_LIMIT_BYTES))
    return causes


def _validate_owners(owners: Sequence[Mapping[str, Any]]) -> list[Cause]:
    causes: list[Cause] = []
    controllers = []
    for i, owner in enumerate(owners):
        path = f"metadata.ownerReferences[{i}]"
        group, _, version = owner.get("apiVersion", "").rpartition("/")
        if not version:
            causes.append(invalid(f"{path}.apiVersion", owner.get("apiVersion", ""), "version must not be empty"))
        for key in ("kind", "name", "uid"):
            if not owner.get(key):
                causes.append(invalid(f"{path}.{key}", owner.get(key, ""), f"{key} must not be empty"))
        if (group, owner.get("kind")) in (("", "Event"),):
            causes.append(
                invalid(path, owner, f"{owner.get('apiVersion')}, Kind=Event is disallowed from being an owner")
            )
        if owner.get("controller"):
            controllers.append(owner.get("name", ""))
    if len(controllers) > 1:
        causes.append(
            invalid(
                "metadata.ownerReferences",
                list(owners),
                "Only one reference can have Controller set to true. Found "
                f'"true" in references for {controllers[0]} and {controllers[1]}',
            )
        )
    return causes


def _validate_finalizers(finalizers: Sequence[str]) -> list[Cause]:
    causes = []
    for name in finalizers:
        if fault := label_key_fault(name):
            causes.append(invalid("metadata.finalizers", name, fault))
    if "orphan" in finalizers and "foregroundDeletion" in finalizers:
        causes.append(
            invalid(
                "metadata.finalizers", list(finalizers), "finalizer orphan and foregroundDeletion cannot be both set"
            )
        )
    return causes
