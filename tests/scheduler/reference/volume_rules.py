"""VolumeRestrictions, NodeVolumeLimits, VolumeBinding, VolumeZone: can the pod's volumes be used on the node?

"Minimum: PVC exists; bound PV's node affinity and zones hold; WaitForFirstConsumer needs a matching unbound PV or an
allowed dynamic class; ReadWriteOncePod exclusivity; CSINode limits. No volumes → pass." Messages are kube-scheduler's.
Disks of old kinds that kube-scheduler would count by the driver that replaced them are not counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Pod, Volume
from koord.api.kubernetes.resources import amounts
from koord.api.kubernetes.storage import CSIStorageCapacity, PersistentVolume, PersistentVolumeClaim, StorageClass
from koord.api.text.selector import NOTHING, compile_labels, compile_nodes
from tests.scheduler.reference.cluster import OK, Cluster, Verdict, unsched, uu

OLD_CLASS = "volume.beta.kubernetes.io/storage-class"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
ZONE_LABELS = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region": "topology.kubernetes.io/region",
}
"""Labels that say where a volume is, and today's name of each."""


def not_found(kind: str, name: str) -> Verdict:
    return uu(f'{kind} "{name}" not found')


def claim_name(pod: Pod, volume: Volume) -> str | None:
    """The claim behind a volume: one that it names, or one that is made for the pod."""
    if volume.persistent_volume_claim is not None:
        return volume.persistent_volume_claim.claim_name
    return f"{pod.metadata.name}-{volume.name}" if volume.ephemeral is not None else None


def class_of(thing: PersistentVolumeClaim | PersistentVolume) -> str:
    return thing.metadata.annotations.get(OLD_CLASS, thing.spec.storage_class_name) or ""


def _named_claims(pod: Pod) -> Iterator[str]:
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            yield volume.persistent_volume_claim.claim_name


def restrictions_of_pod(pod: Pod, cluster: Cluster) -> Verdict:
    for name in _named_claims(pod):
        if cluster.claim(pod.metadata.namespace, name) is None:
            return not_found("persistentvolumeclaim", name)
    return OK


def restrictions(pod: Pod, node: Node, cluster: Cluster) -> Verdict:
    """Disks that only one pod may use, and ReadWriteOncePod exclusivity: one pod in the whole cluster."""
    if any(_disks_conflict(v, w) for v in pod.spec.volumes for o in cluster.pods_on(node) for w in o.spec.volumes):
        return unsched("node(s) had no available disk")
    for name in _named_claims(pod):
        claim = cluster.claim(pod.metadata.namespace, name)
        if claim is None or "ReadWriteOncePod" not in claim.spec.access_modes:
            continue
        for other in cluster.placed_pods():
            if other.metadata.namespace == pod.metadata.namespace and name in _named_claims(other):
                return unsched(
                    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already "
                    "in-use by another pod"
                )
    return OK


def _disks_conflict(a: Volume, b: Volume) -> bool:
    """Whether two volumes are one disk that cannot be mounted twice. Where all only read, most kinds can."""
    if a.gce_persistent_disk and b.gce_persistent_disk:
        gce_a, gce_b = a.gce_persistent_disk, b.gce_persistent_disk
        if gce_a.pd_name == gce_b.pd_name and not (gce_a.read_only and gce_b.read_only):
            return True
    if a.aws_elastic_block_store and b.aws_elastic_block_store:
        return a.aws_elastic_block_store.volume_id == b.aws_elastic_block_store.volume_id
    if a.iscsi and b.iscsi:
        return a.iscsi.iqn == b.iscsi.iqn and not (a.iscsi.read_only and b.iscsi.read_only)
    if a.rbd and b.rbd:
        same = (a.rbd.pool, a.rbd.image) == (b.rbd.pool, b.rbd.image) and set(a.rbd.monitors) & set(b.rbd.monitors)
        return bool(same) and not (a.rbd.read_only and b.rbd.read_only)
    return False


def limits(pod: Pod, node: Node, cluster: Cluster) -> Verdict:
    """CSINode limits: how many volumes of a driver a node can attach. A volume that several pods use counts once."""
    csi_node = cluster.csi_node(node.metadata.name)
    most = {d.name: d.allocatable.count for d in csi_node.spec.drivers if d.allocatable} if csi_node else {}
    attached = {disk for other in cluster.pods_on(node) for disk in _disks(other, cluster)}
    new = set(_disks(pod, cluster)) - attached
    used = Counter(driver for driver, _ in attached)
    for driver, more in Counter(driver for driver, _ in new).items():
        limit = most.get(driver)
        if limit is not None and used[driver] + more > limit:
            return unsched("node(s) exceed max volume count")
    return OK


def _disks(pod: Pod, cluster: Cluster) -> Iterator[tuple[str, str]]:
    """Driver and handle of each volume that a driver attaches for the pod."""
    for volume in pod.spec.volumes:
        name = claim_name(pod, volume)
        claim = cluster.claim(pod.metadata.namespace, name) if name else None
        if claim is None:
            continue
        disk = cluster.volume(claim.spec.volume_name) if claim.spec.volume_name else None
        class_ = cluster.storage_class(class_of(claim))
        if disk is not None:
            if disk.spec.csi is not None:
                yield disk.spec.csi.driver, disk.spec.csi.volume_handle
        elif class_ is not None:
            yield class_.provisioner, f"not made yet: {claim.metadata.key}"


def binding_of_pod(pod: Pod, cluster: Cluster) -> Verdict:
    for volume in pod.spec.volumes:
        name = claim_name(pod, volume)
        if name is None:
            continue
        claim = cluster.claim(pod.metadata.namespace, name)
        ephemeral = volume.persistent_volume_claim is None
        if claim is None and ephemeral:
            return uu(f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"')
        if claim is None:
            return not_found("persistentvolumeclaim", name)
        if claim.status.phase == "Lost":
            bound_to = f'bound to non-existent persistentvolume "{claim.spec.volume_name}"'
            return uu(f'persistentvolumeclaim "{name}" {bound_to}')
        if claim.metadata.deletion_timestamp is not None:
            return uu(f'persistentvolumeclaim "{name}" is being deleted')
        owner = claim.metadata.controller
        if ephemeral and (owner is None or owner.uid != pod.metadata.uid):
            whose = f"pod {pod.metadata.key} (pod is not owner)"
            return uu(f"PVC {claim.metadata.key} was not created for {whose}")
    if any(not is_bound(claim) and not waits(claim, cluster) for claim in claims_of(pod, cluster)):
        return uu("pod has unbound immediate PersistentVolumeClaims")
    return OK


def claims_of(pod: Pod, cluster: Cluster) -> list[PersistentVolumeClaim]:
    names = [claim_name(pod, volume) for volume in pod.spec.volumes]
    found = [cluster.claim(pod.metadata.namespace, name) for name in names if name is not None]
    return [claim for claim in found if claim is not None]


def is_bound(claim: PersistentVolumeClaim) -> bool:
    return bool(claim.spec.volume_name) and BIND_COMPLETED in claim.metadata.annotations


def waits(claim: PersistentVolumeClaim, cluster: Cluster) -> bool:
    """Whether the claim is bound only when its pod has a node."""
    class_ = cluster.storage_class(class_of(claim))
    delayed = class_ is not None and class_.volume_binding_mode == "WaitForFirstConsumer"
    return delayed and not claim.spec.volume_name


def binding(pod: Pod, node: Node, cluster: Cluster) -> Verdict:
    """Bound PV's node affinity holds; WaitForFirstConsumer needs a matching unbound PV or an allowed dynamic class."""
    claims = claims_of(pod, cluster)
    reasons = []
    missing = False
    for claim in filter(is_bound, claims):
        volume = cluster.volume(claim.spec.volume_name)
        if volume is None:
            missing = True
            break
        if not reachable(volume, node):
            reasons.append("node(s) didn't match PersistentVolume's node affinity")
            break
    waiting = [claim for claim in claims if not is_bound(claim)]
    reasons += _unbound_reasons(waiting, node, cluster)
    if missing:
        reasons.append("node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)")
    return uu(*reasons) if reasons else OK


def _unbound_reasons(waiting: list[PersistentVolumeClaim], node: Node, cluster: Cluster) -> list[str]:
    no_volume = ["node(s) didn't find available persistent volumes to bind"]
    selected = {c.metadata.annotations[SELECTED_NODE] for c in waiting if SELECTED_NODE in c.metadata.annotations}
    if selected - {node.metadata.name}:
        return no_volume
    to_make = [claim for claim in waiting if SELECTED_NODE in claim.metadata.annotations]
    taken: set[str] = set()
    by_size = sorted((c for c in waiting if c not in to_make), key=_size)
    for claim in by_size:
        volume = _matching_volume(claim, node, taken, cluster)
        if volume is None:
            to_make.append(claim)
        else:
            taken.add(volume.metadata.name)
    for claim in to_make:
        class_ = cluster.storage_class(class_of(claim))
        assert class_ is not None  # only claims of a class that waits get here
        if class_.provisioner in ("", "kubernetes.io/no-provisioner") or not _allowed(class_, node):
            return no_volume
        if not _has_capacity(class_, claim, node, cluster):
            return ["node(s) did not have enough free storage"]
    return []


def reachable(volume: PersistentVolume, node: Node) -> bool:
    """A volume's affinity looks at labels only."""
    affinity = volume.spec.node_affinity.required if volume.spec.node_affinity else None
    return affinity is None or compile_nodes(affinity).matches(node.metadata.labels)


def _size(thing: PersistentVolumeClaim) -> int:
    return amounts(thing.spec.resources.requests).get("storage", 0)


def _matching_volume(
    claim: PersistentVolumeClaim, node: Node, taken: set[str], cluster: Cluster
) -> PersistentVolume | None:
    """The volume that is kept for this claim, else the smallest one that satisfies it."""
    candidates = []
    for volume in cluster.volumes:
        spec = volume.spec
        kept = spec.claim_ref is not None and _is_for(volume, claim)
        if volume.metadata.name in taken or (spec.claim_ref is not None and not kept):
            continue
        if class_of(volume) != class_of(claim) or spec.volume_mode != claim.spec.volume_mode:
            continue
        if amounts(spec.capacity).get("storage", 0) < _size(claim) or volume.metadata.deletion_timestamp is not None:
            continue
        if kept:
            return volume if reachable(volume, node) else None
        suits = claim.spec.selector is None or compile_labels(claim.spec.selector, absent=NOTHING).matches(
            volume.metadata.labels
        )
        modes = set(claim.spec.access_modes) <= set(spec.access_modes)
        if volume.status.phase == "Available" and suits and modes and reachable(volume, node):
            candidates.append(volume)
    # Of equals the first by name: kube-scheduler takes any.
    return min(
        candidates,
        key=lambda candidate: (amounts(candidate.spec.capacity)["storage"], candidate.metadata.name),
        default=None,
    )


def _is_for(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    ref, meta = volume.spec.claim_ref, claim.metadata
    assert ref is not None
    return (ref.namespace, ref.name) == (meta.namespace, meta.name) and ref.uid in ("", meta.uid)


def _allowed(class_: StorageClass, node: Node) -> bool:
    """allowedTopologies: no terms allow every node; an empty term allows none."""
    if not class_.allowed_topologies:
        return True
    return any(
        term.match_label_expressions
        and all(node.metadata.labels.get(e.key) in e.values for e in term.match_label_expressions)
        for term in class_.allowed_topologies
    )


def _has_capacity(class_: StorageClass, claim: PersistentVolumeClaim, node: Node, cluster: Cluster) -> bool:
    """Drivers that say so publish how much they can still make, and where."""
    driver = next((d for d in cluster.csi_drivers if d.metadata.name == class_.provisioner), None)
    if driver is None or not driver.spec.storage_capacity or "storage" not in claim.spec.resources.requests:
        return True
    return any(
        capacity.storage_class_name == class_.metadata.name
        and _limit(capacity) >= _size(claim)
        and compile_labels(capacity.node_topology, absent=NOTHING).matches(node.metadata.labels)
        for capacity in cluster.storage_capacities
    )


def _limit(capacity: CSIStorageCapacity) -> int:
    limit = capacity.maximum_volume_size if capacity.maximum_volume_size is not None else capacity.capacity
    return -1 if limit is None else amounts({"storage": limit})["storage"]


def zone_of_pod(pod: Pod, cluster: Cluster) -> Verdict:
    for name in _named_claims(pod):
        claim = cluster.claim(pod.metadata.namespace, name)
        if claim is None:
            return not_found("persistentvolumeclaim", name)
        if claim.spec.volume_name:
            if cluster.volume(claim.spec.volume_name) is None:
                return not_found("persistentvolume", claim.spec.volume_name)
            continue
        if not class_of(claim):
            return uu("PersistentVolumeClaim had no pv name and storageClass name")
        class_ = cluster.storage_class(class_of(claim))
        if class_ is None:
            return not_found("storageclass.storage.k8s.io", class_of(claim))
        if class_.volume_binding_mode != "WaitForFirstConsumer":
            return uu("PersistentVolume had no name")
    return OK


def zone(pod: Pod, node: Node, cluster: Cluster) -> Verdict:
    """The zones of bound PVs apply: a label of the volume may list several, separated by `__`. A node without any zone
    label belongs to a cluster without zones."""
    labels = node.metadata.labels
    if not any(label in labels for label in ZONE_LABELS):
        return OK
    for name in _named_claims(pod):
        claim = cluster.claim(pod.metadata.namespace, name)
        volume = cluster.volume(claim.spec.volume_name) if claim and claim.spec.volume_name else None
        for label, todays in ZONE_LABELS.items():
            text = volume.metadata.labels.get(label) if volume else None
            if text is None:
                continue
            zones = [part.strip() for part in text.split("__")]
            if all(zones) and labels.get(label, labels.get(todays)) not in zones:
                return uu("node(s) had no available volume zone")
    return OK
