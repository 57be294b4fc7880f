"""What a pod's claims wait for: which volume is missing, and which provisioner must create it.

The scheduler only chooses; other controllers create volumes and bind them. If none does, the pod stays pending, and its
reasons describe only the pod. So this module names the claim, its StorageClass and the provisioner.
"""

from __future__ import annotations

import difflib
from typing import Final

from koord.api.kubernetes.storage import PersistentVolumeClaim
from koord.scheduler.framework.ask import Ask
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.storage import NO_PROVISIONER, SELECTED_NODE_ANNOTATION, Storage, class_name, is_bound

MOST_NAMED: Final = 3
"""This many missing claims of a pod are named; the others are counted."""


def claims_of(ask: Ask, cluster: Cluster) -> list[PersistentVolumeClaim]:
    """The existing claims behind a pod's volumes."""
    names = (*ask.claims, *ask.own_claims) if ask.spec.volumes else ()
    claims = cluster.storage.claims
    return [claims[key] for name in names if (key := f"{ask.meta.namespace}/{name}") in claims]


def awaited(ask: Ask, cluster: Cluster) -> str:
    """A sentence for each claim of a pod that does not exist or has no volume; nothing where none is missing."""
    if not ask.spec.volumes:
        return ""
    claims, namespace = cluster.storage.claims, ask.meta.namespace
    missing = [name for name in ask.claims if f"{namespace}/{name}" not in claims]
    messages = [_missing(namespace, name, cluster.storage) for name in missing[:MOST_NAMED]]
    messages += [f"{len(missing) - MOST_NAMED} more of its claims do not exist."] if len(missing) > MOST_NAMED else []
    messages += [
        f"The claim {namespace}/{name} of an ephemeral volume is made by Kubernetes' controller for them."
        for name in ask.own_claims
        if f"{namespace}/{name}" not in claims
    ]
    return " ".join(
        [*messages, *(message for claim in claims_of(ask, cluster) if (message := _wait(claim, cluster.storage)))]
    )


def _missing(namespace: str, name: str, storage: Storage) -> str:
    others = [key.partition("/")[2] for key in storage.claims if key.startswith(f"{namespace}/")]
    near = difflib.get_close_matches(name, others, n=1)
    instead = f"name {near[0]}, which exists" if near else "take its volume out of the pod"
    return f"The claim {namespace}/{name} does not exist: create a PersistentVolumeClaim of that name, or {instead}."


def _wait(claim: PersistentVolumeClaim, storage: Storage) -> str:
    """What a claim that exists waits for; empty if the pod need not wait for it."""
    key = claim.metadata.key
    if claim.metadata.deletion_timestamp is not None:
        return f"The claim {key} is being deleted: create it again once it is gone."
    if claim.status.phase == "Lost":
        return f"The claim {key} has lost its volume {claim.spec.volume_name}: replace the claim."
    return "" if is_bound(claim) else sentence(claim, storage)


def sentence(claim: PersistentVolumeClaim, storage: Storage) -> str:
    """What one claim without a volume waits for."""
    name, key = class_name(claim), claim.metadata.key
    if claim.spec.volume_name:
        return f"The claim {key} waits to be bound to the volume {claim.spec.volume_name}, which it names."
    if not name:
        return f"The claim {key} names no StorageClass, and waits for a matching volume to be created."
    class_ = storage.classes.get(name)
    if class_ is None:
        return f"The claim {key} waits for the StorageClass {name}, which does not exist."
    if class_.provisioner in NO_PROVISIONER:
        cause = "which has no provisioner: create the volume by hand"
        return f"The claim {key} waits for a volume of the StorageClass {name}, {cause}."
    node = claim.metadata.annotations.get(SELECTED_NODE_ANNOTATION)
    where = f" on {node}" if node else ""
    maker = f"{class_.provisioner}, the provisioner of its StorageClass {name}"
    return f"The claim {key} waits for {maker}, to make a volume{where}."
