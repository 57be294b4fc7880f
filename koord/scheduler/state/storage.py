"""Claims, volumes and what makes them, as far as they decide where a pod may run.

Fed like the rest of the state. Nothing here is about a single node, so a change of it is not a change of rows: a cache
of verdicts compares `version`, and a cache by claim calls `take_changed_claims`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

import numpy as np

from koord.api.kubernetes.resources import amounts, stored_amounts
from koord.api.kubernetes.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from koord.api.text.selector import OPERATORS, NodeSelector, Requirement, compile_nodes
from koord.scheduler.state.labels import Labels
from koord.scheduler.state.table import Array, Row

StorageObject: TypeAlias = (
    PersistentVolumeClaim | PersistentVolume | StorageClass | CSINode | CSIDriver | CSIStorageCapacity
)
Disk: TypeAlias = tuple[str, str]
"""A driver, and what it calls a volume."""

Promise: TypeAlias = tuple[str, str | None, str]
"""A claim, the volume that it gets (None: a volume yet to be created), and the node."""

OLD_CLASS_ANNOTATION: Final = "volume.beta.kubernetes.io/storage-class"
SELECTED_NODE_ANNOTATION: Final = "volume.kubernetes.io/selected-node"
BIND_COMPLETED_ANNOTATION: Final = "pv.kubernetes.io/bind-completed"
WAITS_FOR_POD: Final = "WaitForFirstConsumer"
NO_PROVISIONER: Final = ("", "kubernetes.io/no-provisioner")


class Storage:
    """All objects about storage, by `namespace/name` or name."""

    def __init__(self) -> None:
        self.claims: dict[str, PersistentVolumeClaim] = {}
        self.volumes: dict[str, PersistentVolume] = {}
        self.classes: dict[str, StorageClass] = {}
        self.csi_nodes: dict[str, CSINode] = {}
        self.drivers: dict[str, CSIDriver] = {}
        self.capacities: dict[str, CSIStorageCapacity] = {}
        self.version = 0
        "Counts all changes."
        self.limits: dict[str, dict[str, int]] = {}
        "By driver and node, how many volumes can be attached."
        self.limits_version = 0
        self._changed_claims: dict[str, None] = {}
        self.kept_for: dict[str, str] = {}
        "Volumes that are promised to a claim whose pod has just been placed."
        self.selected_nodes: dict[str, str] = {}
        "Claims whose pod has just been placed, with its node: their volumes must be created there."
        self.free_volumes: dict[str, dict[str, int]] = {}
        "By class, the volumes that no claim has, with their sizes in bytes."
        self.volumes_for: dict[str, dict[str, int]] = {}
        "By claim, the volumes that name it, with their sizes in bytes."
        self._promises: dict[str, list[Promise]] = {}
        self._promised: dict[tuple[str, str | None], int] = {}
        self._claims_of_volume: dict[str, set[str]] = {}
        self._claims_of_class: dict[str, set[str]] = {}

    def put(self, thing: StorageObject) -> None:
        """A storage object was added or has changed."""
        self._replace(thing, thing)

    def remove(self, thing: StorageObject) -> None:
        """Something is gone; only its name counts."""
        self._replace(thing, None)

    def tried(self, *things: StorageObject) -> Callable[[], None]:
        """Puts the objects for a trial, until the returned function is called; no result of the trial may be cached."""
        before = [(thing, self._kept(thing).get(thing.metadata.key)) for thing in things]
        versions = self.version, self.limits_version
        for thing in things:
            self.put(thing)

        def take_back() -> None:
            for thing, old in reversed(before):
                self._replace(thing, old)
            self.version, self.limits_version = versions

        return take_back

    def promise(self, pod: str, claim: str, volume: str | None, node: str) -> None:
        """A pod with this claim goes to a node: the claim gets that volume, or one is made for it there."""
        self._promises.setdefault(pod, []).append((claim, volume, node))
        number = self._promised.get((claim, volume), 0)
        self._promised[claim, volume] = number + 1
        if not number:
            if volume is not None:
                self.kept_for[volume] = claim
            else:
                self.selected_nodes[claim] = node
            self.version += 1

    def promises_of(self, pod: str) -> tuple[Promise, ...]:
        """What the claims of a placed pod will get."""
        return tuple(self._promises.get(pod, ()))

    def take_back(self, pod: str) -> list[Promise]:
        """A pod does not run there after all, or has run: what no other pod was promised too is free again."""
        promises = self._promises.pop(pod, [])
        for claim, volume, _ in promises:
            self._promised[claim, volume] -= 1
            if not self._promised[claim, volume]:
                del self._promised[claim, volume]
                if volume is not None:
                    del self.kept_for[volume]
                else:
                    del self.selected_nodes[claim]
                self.version += 1
        return promises

    def _settle(self, claim: str) -> None:
        """A claim has its volume, or is gone: nothing is promised to it any more."""
        for pod, promises in list(self._promises.items()):
            if any(promise[0] == claim for promise in promises):
                kept = [promise for promise in promises if promise[0] != claim]
                self.take_back(pod)
                for promise in kept:
                    self.promise(pod, *promise)

    def disk_of(self, claim_key: str) -> Disk | None:
        """What a driver attaches to a node for a claim, or will once it is made."""
        claim = self.claims.get(claim_key)
        if claim is None:
            return None
        volume = self.volumes.get(claim.spec.volume_name) if claim.spec.volume_name else None
        if volume is not None:
            csi = volume.spec.csi
            return None if csi is None else (csi.driver, csi.volume_handle)
        class_ = self.classes.get(class_name(claim))
        return None if class_ is None else (class_.provisioner, f"to be made for {claim_key}")

    def take_changed_claims(self) -> list[str]:
        """Claims whose disk may be another one than when this was last asked."""
        claims = list(self._changed_claims)
        self._changed_claims.clear()
        return claims

    def _replace(self, thing: StorageObject, now: StorageObject | None) -> None:
        key = thing.metadata.key
        kept = self._kept(thing)
        old = kept.get(key)
        if old == now:
            return
        if now is None:
            del kept[key]
        else:
            kept[key] = now
        self.version += 1
        match thing:
            case PersistentVolumeClaim():
                if now is None or (isinstance(now, PersistentVolumeClaim) and is_bound(now)):
                    self._settle(key)
                self._index_claim(key, old, -1)
                self._index_claim(key, now, +1)
                self._changed_claims[key] = None
            case PersistentVolume():
                self._index_volume(key, old, now)
                self._changed_claims |= dict.fromkeys(sorted(self._claims_of_volume.get(key, ())))
            case StorageClass():
                self._changed_claims |= dict.fromkeys(sorted(self._claims_of_class.get(key, ())))
            case CSINode():
                self._put_limits(key, now)
            case _:
                pass

    def _kept(self, thing: StorageObject) -> dict[str, StorageObject]:
        by_type: Mapping[type, object] = {
            PersistentVolumeClaim: self.claims,
            PersistentVolume: self.volumes,
            StorageClass: self.classes,
            CSINode: self.csi_nodes,
            CSIDriver: self.drivers,
            CSIStorageCapacity: self.capacities,
        }
        store = by_type[type(thing)]
        assert isinstance(store, dict)
        return store

    def _index_claim(self, key: str, claim: StorageObject | None, sign: int) -> None:
        if not isinstance(claim, PersistentVolumeClaim):
            return
        for index, name in (
            (self._claims_of_volume, claim.spec.volume_name),
            (self._claims_of_class, class_name(claim)),
        ):
            if sign > 0:
                index.setdefault(name, set()).add(key)
            else:
                index[name].discard(key)

    def _index_volume(self, name: str, old: StorageObject | None, now: StorageObject | None) -> None:
        if isinstance(old, PersistentVolume):
            del self._place_of(old)[name]
        if isinstance(now, PersistentVolume):
            self._place_of(now)[name] = volume_bytes(now)

    def _place_of(self, volume: PersistentVolume) -> dict[str, int]:
        ref = volume.spec.claim_ref
        if ref is None:
            return self.free_volumes.setdefault(class_name(volume), {})
        return self.volumes_for.setdefault(f"{ref.namespace}/{ref.name}", {})

    def _put_limits(self, node: str, now: StorageObject | None) -> None:
        for limits in self.limits.values():
            limits.pop(node, None)
        for driver in now.spec.drivers if isinstance(now, CSINode) else ():
            if driver.allocatable is not None and driver.allocatable.count is not None:
                self.limits.setdefault(driver.name, {})[node] = driver.allocatable.count
        self.limits_version += 1


def class_name(thing: PersistentVolumeClaim | PersistentVolume) -> str:
    """The storage class of a claim or volume, in its old or its present place."""
    return thing.metadata.annotations.get(OLD_CLASS_ANNOTATION, thing.spec.storage_class_name) or ""


def is_bound(claim: PersistentVolumeClaim) -> bool:
    """Whether a claim and its volume belong to each other for good."""
    return bool(claim.spec.volume_name) and BIND_COMPLETED_ANNOTATION in claim.metadata.annotations


def wanted_bytes(claim: PersistentVolumeClaim) -> int:
    return amounts(claim.spec.resources.requests).get("storage", 0)


def volume_bytes(volume: PersistentVolume) -> int:
    return stored_amounts(volume.spec.capacity).get("storage", 0)


def matching_rows(selector: NodeSelector, labels: Labels, rows: Array) -> Array:
    """Which rows a volume's node affinity allows. It looks at labels only; a term without conditions matches none."""
    matching = np.zeros(len(rows), np.bool_)
    for term in selector.node_selector_terms:
        if term.match_fields:
            matcher = compile_nodes(term)
            matching |= np.array([matcher.matches(_labels(labels, int(row))) for row in rows], np.bool_)
        elif term.match_expressions:
            matches = np.ones(len(rows), np.bool_)
            for expression in term.match_expressions:
                matches &= labels.matches(
                    Requirement(expression.key, OPERATORS[expression.operator], expression.values), rows
                )
            matching |= matches
    return matching


def _labels(labels: Labels, row: Row) -> Mapping[str, str]:
    try:
        return labels.of(row)
    except KeyError:
        return {}
