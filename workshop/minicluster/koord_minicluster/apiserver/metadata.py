"""The metadata of an object through its life: filled in at creation, carried over at updates, checked always.

The checks speak the real server's words, and say a fault as often as it does: it looks at the metadata of a changed
object as those of any object and of any change, and most kinds look again, as their `MetadataChecks` tell.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from koord.api.text import formats
from koord_minicluster.apiserver.remembering import remembering
from koord_minicluster.apiserver.resource import Obj, Resource
from koord_minicluster.apiserver.status import Cause, forbidden, invalid, required, too_long

NameFaults = Callable[[str], Iterable[str]]

_SUFFIX_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
"No vowels, so that a random suffix is never a word."
_SUFFIX_LENGTH: Final = 5
_LONGEST_GENERATED_BASE: Final = 63 - _SUFFIX_LENGTH
_FROM_SERVER_ALONE: Final = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink")
_FIXED: Final = ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")
_ANNOTATIONS_LIMIT_BYTES: Final = 256 << 10
_STANDARD_FINALIZERS: Final = ("kubernetes", "orphan", "foregroundDeletion")

_UIDS_AT_ONCE: Final = 64

_spare_digits: list[str] = []
"Random, of uids to come: the kernel takes as long for one as for many."


def generate_name(base: str) -> str:
    return base[:_LONGEST_GENERATED_BASE] + "".join(secrets.choice(_SUFFIX_LETTERS) for _ in range(_SUFFIX_LENGTH))


def new_uid() -> str:
    """A random UUID, without the object that the standard library makes of it first."""
    if not _spare_digits:
        fresh = os.urandom(16 * _UIDS_AT_ONCE).hex()
        _spare_digits.extend(fresh[at : at + 32] for at in range(0, len(fresh), 32))
    digits = _spare_digits.pop()
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"


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
    metadata["uid"] = new_uid()
    metadata["creationTimestamp"] = now
    if resource.strategy.has_generation:
        metadata["generation"] = 1


def carry_over(new: Obj, old: Obj, resource: Resource) -> None:
    """Restores the old values of fields that an update cannot change."""
    was = old["metadata"]
    metadata = new.setdefault("metadata", {})
    for key in ("creationTimestamp", "selfLink"):
        _restore(metadata, was, key)
    if was.get("deletionTimestamp"):
        # An object that is being deleted stays so. Validation refuses the timestamp on any other object.
        metadata["deletionTimestamp"] = was["deletionTimestamp"]
    for key in ("uid", "deletionGracePeriodSeconds"):
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


def faults_of_object(obj: Obj, resource: Resource) -> list[Cause]:
    """By the rules of the object's kind."""
    checks = resource.strategy.metadata_checks
    own = resource.strategy.name_fault
    check: NameFaults = formats.dns_subdomain if own is None else lambda name: (fault,) if (fault := own(name)) else ()
    faults = faults_by(obj.get("metadata") or {}, check, namespaced=resource.namespaced, with_base=checks.of_generated)
    if checks.of_finalizers:
        _plain_finalizers(faults, obj["metadata"].get("finalizers") or ())
    return faults


def faults_of_any_object(obj: Obj, resource: Resource) -> list[Cause]:
    """By the rules that hold for all kinds: any name that fits into a path will do."""
    return faults_by(obj.get("metadata") or {}, formats.path_segment, namespaced=resource.namespaced)


def faults_of_any_change(new: Obj, old: Obj, resource: Resource) -> list[Cause]:
    """By the rules that hold for all kinds."""
    return [*faults_of_any_object(new, resource), *_as_change(new["metadata"], old["metadata"])]


def faults_of_change(new: Obj, old: Obj, resource: Resource, *, of_status: bool = False) -> list[Cause]:
    """By the rules of the object's kind, if it has any for changes."""
    checks = resource.strategy.metadata_checks
    if not (checks.of_status_change if of_status else checks.of_change):
        return []
    faults = _as_change(new["metadata"], old["metadata"])
    if checks.of_finalizers:
        _plain_finalizers(faults, new["metadata"].get("finalizers") or ())
    return faults


def faults_of_embedded(meta: Mapping[str, Any]) -> list[Cause]:
    """Of the metadata of an object inside another: any name that fits into a path will do, or none."""
    faults: list[Cause] = []
    for key in ("generateName", "name"):
        if value := meta.get(key):
            faults += [invalid(f"metadata.{key}", value, text) for text in formats.path_segment(value)]
    if namespace := meta.get("namespace"):
        faults += [invalid("metadata.namespace", namespace, text) for text in formats.dns_label(namespace)]
    _content(faults, meta)
    for name in meta.get("finalizers") or ():
        faults += [invalid("metadata.finalizers", name, text) for text in formats.label_key(name)]
    return faults


def faults_by(
    meta: Mapping[str, Any], check: NameFaults, *, namespaced: bool = False, with_base: bool = True
) -> list[Cause]:
    """Of the metadata of an object, by a rule for its name."""
    faults: list[Cause] = []
    name, base = meta.get("name") or "", meta.get("generateName") or ""
    if base and with_base:
        # A name is generated by adding to the base, so its last dash is not the name's last character. The real server
        # masks the character before it as well.
        whole = f"{base[:-2]}a" if len(base) > 1 and base.endswith("-") else base
        faults += [invalid("metadata.generateName", base, text) for text in check(whole)]
    if not name:
        faults.append(required("metadata.name", "name or generateName is required"))
    else:
        faults += [invalid("metadata.name", name, text) for text in check(name)]
    if namespaced and (namespace := meta.get("namespace")):
        faults += [invalid("metadata.namespace", namespace, text) for text in formats.dns_label(namespace)]
    _content(faults, meta)
    finalizers = meta.get("finalizers") or ()
    for finalizer in finalizers:
        faults += [invalid("metadata.finalizers", finalizer, text) for text in formats.label_key(finalizer)]
    if "orphan" in finalizers and "foregroundDeletion" in finalizers:
        text = "finalizer orphan and foregroundDeletion cannot be both set"
        faults.append(invalid("metadata.finalizers", list(finalizers), text))
    return faults


def _as_change(meta: Mapping[str, Any], was: Mapping[str, Any]) -> list[Cause]:
    faults: list[Cause] = []
    if was.get("deletionTimestamp"):
        added = sorted(set(meta.get("finalizers") or ()) - set(was.get("finalizers") or ()))
        if added:
            listed = ", ".join(f'"{finalizer}"' for finalizer in added)
            text = "no new finalizers can be added if the object is being deleted, found new finalizers "
            faults.append(forbidden("metadata.finalizers", f"{text}[]string{{{listed}}}"))
    for key in _FIXED:
        if meta.get(key) != was.get(key):
            faults.append(invalid(f"metadata.{key}", meta.get(key), "field is immutable"))
    _content(faults, meta)
    return faults


def _content(faults: list[Cause], meta: Mapping[str, Any]) -> None:
    if labels := meta.get("labels"):
        _labels(faults, labels, "metadata.labels")
    if annotations := meta.get("annotations"):
        _annotation_keys(faults, list(annotations), "metadata.annotations")
        # A character is up to four bytes; only near the limit are they worth counting.
        characters = sum(map(len, annotations)) + sum(map(len, annotations.values()))
        if characters * 4 > _ANNOTATIONS_LIMIT_BYTES and _bytes_of(annotations) > _ANNOTATIONS_LIMIT_BYTES:
            faults.append(too_long("metadata.annotations", _ANNOTATIONS_LIMIT_BYTES))
    if owners := meta.get("ownerReferences"):
        _owners(faults, owners, "metadata.ownerReferences")


@remembering
def _labels(faults: list[Cause], labels: Mapping[str, str], path: str) -> None:
    for key, value in labels.items():
        faults += [invalid(path, key, text) for text in formats.label_key(key)]
        faults += [invalid(path, value, text) for text in formats.label_value(value)]


@remembering
def _annotation_keys(faults: list[Cause], keys: Sequence[str], path: str) -> None:
    for key in keys:
        faults += [invalid(path, key, text) for text in formats.label_key(key.lower())]


def _bytes_of(texts: Mapping[str, str]) -> int:
    return sum(len(key.encode()) + len(value.encode()) for key, value in texts.items())


@remembering
def _owners(faults: list[Cause], owners: Sequence[Mapping[str, Any]], path: str) -> None:
    controller = ""
    for owner in owners:
        version = owner.get("apiVersion", "")
        if not version.rpartition("/")[2]:
            faults.append(invalid(f"{path}.apiVersion", version, "version must not be empty"))
        for key in ("kind", "name", "uid"):
            if not owner.get(key):
                faults.append(invalid(f"{path}.{key}", owner.get(key, ""), "must not be empty"))
        if (version, owner.get("kind")) == ("v1", "Event"):
            faults.append(invalid(path, dict(owner), "/v1, Kind=Event is disallowed from being an owner"))
        if owner.get("controller"):
            this = f"{owner.get('kind', '')}/{owner.get('name', '')}"
            if controller:
                text = (
                    'Only one reference can have Controller set to true. Found "true" in references for '
                    f"{controller} and {this}"
                )
                faults.append(invalid(path, list(owners), text))
            else:
                controller = this


def _plain_finalizers(faults: list[Cause], finalizers: Sequence[str]) -> None:
    for i, name in enumerate(finalizers):
        if "/" not in name and name not in _STANDARD_FINALIZERS:
            text = "name is neither a standard finalizer name nor is it fully qualified"
            faults.append(invalid(f"metadata.finalizers[{i}]", name, text))
