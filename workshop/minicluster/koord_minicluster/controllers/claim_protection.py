"""Volume claims that are being deleted: they go when no pod needs them any more.

Some API servers give every claim, volume and class of volume attributes a finalizer, so that it outlives its users.
These controllers must remove it again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from koord.api.kinds import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, Kind
from koord.api.kubernetes.core import Pod
from koord.api.kubernetes.meta import ObjectMeta
from koord.api.kubernetes.storage import PersistentVolume, PersistentVolumeClaim
from koord_minicluster.controllers.actions import Patch

CLAIM_FINALIZER: Final = "kubernetes.io/pvc-protection"
VOLUME_FINALIZER: Final = "kubernetes.io/pv-protection"
CLASS_FINALIZER: Final = "kubernetes.io/vac-protection"


def claims_of(pod: Pod) -> list[str]:
    """The claims that a pod uses, by name; those of its ephemeral volumes are named after it."""
    used = []
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            used.append(volume.persistent_volume_claim.claim_name)
        elif volume.ephemeral is not None:
            used.append(f"{pod.metadata.name}-{volume.name}")
    return used


def needs(pod: Pod) -> bool:
    """Whether the pod still needs its claims: not when it has ended, nor while it has no node to mount them on."""
    return not pod.is_finished and bool(pod.spec.node_name)


def freed_claim(meta: ObjectMeta, users: Iterable[Pod]) -> list[Patch]:
    if meta.deletion_timestamp is None or CLAIM_FINALIZER not in meta.finalizers or any(map(needs, users)):
        return []
    return [_without(PERSISTENT_VOLUME_CLAIMS, meta, CLAIM_FINALIZER)]


def freed_volume(volume: PersistentVolume) -> list[Patch]:
    meta = volume.metadata
    bound = volume.status.phase == "Bound"
    if meta.deletion_timestamp is None or VOLUME_FINALIZER not in meta.finalizers or bound:
        return []
    return [_without(PERSISTENT_VOLUMES, meta, VOLUME_FINALIZER)]


def classes_of_claim(claim: PersistentVolumeClaim) -> list[str]:
    """The classes of volume attributes that a claim has, wants or is on its way to."""
    target = claim.status.modify_volume_status
    named = (
        claim.spec.volume_attributes_class_name,
        claim.status.current_volume_attributes_class_name,
        target.target_volume_attributes_class_name if target is not None else "",
    )
    return sorted({name for name in named if name})


def classes_of_volume(volume: PersistentVolume) -> list[str]:
    name = volume.spec.volume_attributes_class_name
    return [name] if name else []


def freed_class(kind: Kind[Any], meta: ObjectMeta, is_used: bool) -> list[Patch]:
    if meta.deletion_timestamp is None or CLASS_FINALIZER not in meta.finalizers or is_used:
        return []
    return [_without(kind, meta, CLASS_FINALIZER)]


def _without(kind: Kind[Any], meta: ObjectMeta, finalizer: str) -> Patch:
    body = {"metadata": {"uid": meta.uid, "$deleteFromPrimitiveList/finalizers": [finalizer]}}
    return Patch(kind, meta.namespace, meta.name, body, gone_ok=True)
