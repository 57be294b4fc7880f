"""What is done about a placed pod's claims before the pod is bound: a free volume is given away, or one is ordered.

The volume is written to name the claim, or the claim to name the node; other controllers bind and provision, and the
scheduler waits for them. If a claim loses its node in the meantime, its provisioner could not create the volume there:
the pod is scheduled again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from koord.api.kinds import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from koord.scheduler.claims import awaited
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.writes import CannotBind, Patch, Step, Until
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.storage import SELECTED_NODE_ANNOTATION, Promise, is_bound

BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"


def volume_step(plugin: str, ask: Ask, promises: Sequence[Promise], cluster: Cluster, within_s: float) -> Step:
    """Writes what the claims were promised, and waits until each has its volume."""
    seen: set[str] = set()

    def missing() -> str:
        claims = {key: cluster.storage.claims.get(key) for key, _, _ in promises}
        for key, volume, node in promises:
            claim = claims[key]
            if claim is None:
                raise CannotBind(f"the claim {key} is gone")
            if claim.metadata.annotations.get(SELECTED_NODE_ANNOTATION) == node:
                seen.add(key)
            elif volume is None and key in seen and not is_bound(claim):
                raise CannotBind(f"no volume can be made for the claim {key} on {node}")
        unbound = ", ".join(key for key, claim in claims.items() if claim is None or not is_bound(claim))
        return f"no volume for {unbound}" if unbound else ""

    until = Until(missing, within_s, waits_for=lambda: awaited(ask, cluster))
    return Step(plugin, lambda: _writes(promises, cluster), until)


def _writes(promises: Sequence[Promise], cluster: Cluster) -> tuple[Patch, ...]:
    """Writes which claim each volume belongs to, and on which node missing volumes must be created."""
    wanted = []
    for key, volume, node in promises:
        claim = cluster.storage.claims.get(key)
        if claim is None:
            raise CannotBind(f"the claim {key} is gone")
        meta = claim.metadata
        if volume is None:
            if meta.annotations.get(SELECTED_NODE_ANNOTATION) != node:
                body = {"metadata": {"uid": meta.uid, "annotations": {SELECTED_NODE_ANNOTATION: node}}}
                wanted.append(Patch(PERSISTENT_VOLUME_CLAIMS, meta.name, body, meta.namespace))
            continue
        volume_object = cluster.storage.volumes.get(volume)
        if volume_object is None:
            raise CannotBind(f"the volume {volume} is gone")
        claimed = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": meta.namespace, "name": meta.name}
        metadata = {
            # Another scheduler may have given it away: then this is a conflict.
            "resourceVersion": volume_object.metadata.resource_version,
            "annotations": {BOUND_BY_CONTROLLER: "yes"},
        }
        wanted.append(
            Patch(
                PERSISTENT_VOLUMES, volume, {"metadata": metadata, "spec": {"claimRef": {**claimed, "uid": meta.uid}}}
            )
        )
    return tuple(wanted)
