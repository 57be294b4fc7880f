"""What a pod's claims wait for: which volume is missing, and who is to make it.

The scheduler only chooses; somebody else makes volumes and binds them. Where nobody does, a pod waits for ever, and its
reasons speak of the pod. So this names the claim, its StorageClass and the provisioner.
"""

from __future__ import annotations

from koord.api.kubernetes.storage import PersistentVolumeClaim
from koord.scheduler.framework.ask import Ask
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.storage import NO_PROVISIONER, SELECTED_NODE_ANNOTATION, Storage, class_name, is_bound


def claims_of(ask: Ask, cluster: Cluster) -> list[PersistentVolumeClaim]:
    """The claims behind a pod's volumes that are there."""
    names = (*ask.claims, *ask.own_claims) if ask.spec.volumes else ()
    found = cluster.storage.claims
    return [found[key] for name in names if (key := f"{ask.meta.namespace}/{name}") in found]


def awaited(ask: Ask, cluster: Cluster) -> str:
    """A sentence for each claim of a pod that has no volume; nothing where none is missing, or a claim itself is."""
    if not ask.spec.volumes:
        return ""
    claims = claims_of(ask, cluster)
    if len(claims) < len(ask.claims) + len(ask.own_claims):
        return ""
    return " ".join(sentence(claim, cluster.storage) for claim in claims if not is_bound(claim))


def sentence(claim: PersistentVolumeClaim, storage: Storage) -> str:
    """What one claim without a volume waits for."""
    name, key = class_name(claim), claim.metadata.key
    if claim.spec.volume_name:
        return f"The claim {key} waits to be bound to the volume {claim.spec.volume_name}, which it names."
    if not name:
        return f"The claim {key} names no StorageClass, and waits for somebody to make a volume that suits it."
    class_ = storage.classes.get(name)
    if class_ is None:
        return f"The claim {key} waits for the StorageClass {name}, which does not exist."
    if class_.provisioner in NO_PROVISIONER:
        nobody = "which has no provisioner: somebody must make one"
        return f"The claim {key} waits for a volume of the StorageClass {name}, {nobody}."
    node = claim.metadata.annotations.get(SELECTED_NODE_ANNOTATION)
    where = f" on {node}" if node else ""
    maker = f"{class_.provisioner}, the provisioner of its StorageClass {name}"
    return f"The claim {key} waits for {maker}, to make a volume{where}."
