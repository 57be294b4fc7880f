"""Ownership: a controller adopts orphans that its selector matches, and releases objects it no longer matches.

An object has at most one managing owner. A controller that is being deleted adopts nothing, and an object that is being
deleted is not adopted. `uid` in a patch's metadata makes it fail for another object of the same name.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from koord.api.kinds import Kind
from koord.api.kubernetes.meta import ObjectMeta, OwnerReference
from koord.api.text.selector import LabelMatcher
from koord.api.workloads.new_pods import reference_body
from koord_minicluster.controllers.actions import Patch


class HasMetadata(Protocol):
    @property
    def metadata(self) -> ObjectMeta: ...


T = TypeVar("T", bound=HasMetadata)


@dataclass(frozen=True, slots=True)
class Claims(Generic[T]):
    """The objects that a controller manages, those it should adopt, and those it should release."""

    owned: tuple[T, ...]
    adopt: tuple[T, ...] = ()
    release: tuple[T, ...] = ()


def claims(owner: ObjectMeta, selector: LabelMatcher, candidates: Iterable[T]) -> Claims[T]:
    """Sorts `candidates` (objects that `owner` manages, and orphans of its namespace) into owned, adopt and release."""
    owned, adopt, release = [], [], []
    leaving = owner.deletion_timestamp is not None
    for candidate in candidates:
        meta = candidate.metadata
        manager = meta.controller
        matches = selector.matches(meta.labels)
        if manager is not None:
            if manager.uid != owner.uid:
                continue
            if matches:
                owned.append(candidate)
            elif not leaving:
                release.append(candidate)
        elif matches and not leaving and meta.deletion_timestamp is None:
            adopt.append(candidate)
    return Claims(tuple(owned), tuple(adopt), tuple(release))


def adopt(kind: Kind[Any], meta: ObjectMeta, owner: OwnerReference, finalizers: tuple[str, ...] = ()) -> Patch:
    change: dict[str, object] = {"uid": meta.uid, "ownerReferences": [reference_body(owner)]}
    if finalizers:
        change["finalizers"] = list(finalizers)
    return Patch(kind, meta.namespace, meta.name, {"metadata": change})


def release(kind: Kind[Any], meta: ObjectMeta, owner_uid: str, finalizers: tuple[str, ...] = ()) -> Patch:
    change: dict[str, object] = {"uid": meta.uid, "ownerReferences": [{"$patch": "delete", "uid": owner_uid}]}
    if finalizers:
        change["$deleteFromPrimitiveList/finalizers"] = list(finalizers)
    return Patch(kind, meta.namespace, meta.name, {"metadata": change})
