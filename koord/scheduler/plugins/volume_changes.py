"""What would have to be otherwise about a pod's volumes for a node to take it: changes that volume plugins propose.

A node does not move because a label says so: where a volume is out of reach for where the node stands, it is the volume
that would have to be elsewhere.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from koord.api.kubernetes.meta import ObjectMeta
from koord.api.kubernetes.storage import (
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeSpec,
    VolumeStatus,
)
from koord.api.text.quantity import render
from koord.api.text.selector import LabelSelector
from koord.scheduler.framework.change import Change, Side
from koord.scheduler.state.storage import SELECTED_NODE_ANNOTATION, Storage, StorageObject, class_name, wanted_bytes

NEW_VOLUME: Final = 2.0
OTHER_VOLUME: Final = 3.0
"""Sizes: users move a volume with data only if nothing else helps."""


def within_reach(volume: PersistentVolume, claim: PersistentVolumeClaim, storage: Storage) -> Change:
    """A volume with data on it that could be had from there."""
    moved = replace(volume, spec=replace(volume.spec, node_affinity=None))
    text = f"the volume {volume.metadata.name} of the claim {claim.metadata.name} within its reach"
    return _change(text, OTHER_VOLUME, storage, moved)


def in_its_zone(volume: PersistentVolume, claim: str, labels: tuple[str, ...], storage: Storage) -> Change:
    """A volume without the labels that say it is elsewhere."""
    kept = {key: value for key, value in volume.metadata.labels.items() if key not in labels}
    there = ", ".join(dict.fromkeys(volume.metadata.labels[label] for label in labels))
    moved = replace(volume, metadata=replace(volume.metadata, labels=kept))
    text = f"the volume {volume.metadata.name} of the claim {claim} in its zone instead of {there}"
    return _change(text, OTHER_VOLUME, storage, moved)


def back(claim: PersistentVolumeClaim, storage: Storage) -> Change:
    """The volume that a claim is bound to, and that is gone."""
    name = claim.spec.volume_name
    volume = PersistentVolume(ObjectMeta(name=name), VolumeSpec(storage_class_name=class_name(claim)))
    return _change(f"the volume {name} back, which the claim {claim.metadata.name} is bound to", 2.0, storage, volume)


def free_volume(claim: PersistentVolumeClaim, storage: Storage) -> Change:
    """A new volume for a claim that finds none."""
    class_, selector = class_name(claim), claim.spec.selector
    size = claim.spec.resources.requests.get("storage", "0")
    made = PersistentVolume(
        ObjectMeta(name=f"for {claim.metadata.key}", labels=selector.match_labels if selector is not None else {}),
        VolumeSpec(
            capacity={"storage": size},
            access_modes=claim.spec.access_modes,
            storage_class_name=class_,
            volume_mode=claim.spec.volume_mode,
        ),
        VolumeStatus(phase="Available"),
    )
    text = f"a free volume of {size} of class {class_} within its reach, for the claim {claim.metadata.name}"
    return _change(text, NEW_VOLUME, storage, made)


def makes_there(class_: StorageClass, storage: Storage) -> Change:
    """A class that makes volumes there too."""
    text = f"{class_.metadata.name} volumes made there too (allowedTopologies of the class)"
    return _change(text, 1.0, storage, replace(class_, allowed_topologies=()))


def more_room(claim: PersistentVolumeClaim, storage: Storage) -> Change:
    """A driver that has as much left there as a claim wants."""
    class_, wanted = class_name(claim), render("storage", wanted_bytes(claim))
    room = CSIStorageCapacity(ObjectMeta(name="tried"), class_, LabelSelector(), wanted, wanted)
    text = f"{wanted} of free {class_} storage there, for the claim {claim.metadata.name}"
    return _change(text, 2.0, storage, room, "node")


def smaller_claim(claim: PersistentVolumeClaim, most_bytes: int, storage: Storage) -> Change:
    """A claim for no more than a driver has left there."""
    wanted, left = wanted_bytes(claim), render("storage", most_bytes)
    requests = {**claim.spec.resources.requests, "storage": left}
    less = replace(claim, spec=replace(claim.spec, resources=replace(claim.spec.resources, requests=requests)))
    text = f"a claim {claim.metadata.name} of {left} instead of {render('storage', wanted)}"
    return _change(text, 2.0 - most_bytes / wanted, storage, less, "pod")


def untied(claim: PersistentVolumeClaim, node: str, storage: Storage) -> Change:
    """A claim whose volume is not being made for another node."""
    meta = claim.metadata
    kept = {key: value for key, value in meta.annotations.items() if key != SELECTED_NODE_ANNOTATION}
    text = f"the claim {meta.name} free of {node}, the node selected for its volume"
    return _change(text, 1.0, storage, replace(claim, metadata=replace(meta, annotations=kept)))


def _change(text: str, size: float, storage: Storage, thing: StorageObject, whose: Side = "storage") -> Change:
    return Change(text, trial=lambda: storage.tried(thing), whose=whose, size=size)
