"""Carries out what a placed pod's claims were promised, before the pod is bound: a free volume, or one made for it.

The volume is written to name the claim, or the claim to name the node; binding and making are others' work, and are
waited for. A claim that loses its node meanwhile has a provisioner that could not do it there: the pod is placed anew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from koord.api.kinds import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from koord.kube.client import Client
from koord.scheduler import claims as told
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.engine import Engine
from koord.scheduler.live.feed import Feed
from koord.scheduler.plugins.volume_binding import VolumeBinding
from koord.scheduler.state.storage import SELECTED_NODE_ANNOTATION, Promise, is_bound

FIELD_MANAGER: Final = "koord-scheduler"
BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
WITHIN_S: Final = 600.0
"""Where no profile says otherwise."""
LATE_S: Final = 5.0
"""After so long, people are told what is waited for."""
LOOK_EVERY_S: Final = 0.2


class NotBound(Exception):
    """A pod's volumes do not come, or not there."""


def promises_of(feed: Feed, ask: Ask) -> tuple[Promise, ...]:
    """What the claims of a placed pod were promised."""
    return feed.cluster.storage.promises_of(ask.key) if ask.spec.volumes else ()


async def write(client: Client, feed: Feed, promises: Sequence[Promise]) -> None:
    """Says to whom each volume belongs, and where those that are missing are to be made."""
    for key, volume, node in promises:
        claim = feed.cluster.storage.claims.get(key)
        if claim is None:
            raise NotBound(f"the claim {key} is gone")
        meta = claim.metadata
        if volume is None:
            if meta.annotations.get(SELECTED_NODE_ANNOTATION) == node:
                continue
            patch = {"metadata": {"uid": meta.uid, "annotations": {SELECTED_NODE_ANNOTATION: node}}}
            await client.patch(
                PERSISTENT_VOLUME_CLAIMS, meta.name, patch, namespace=meta.namespace, field_manager=FIELD_MANAGER
            )
            continue
        known = feed.cluster.storage.volumes.get(volume)
        if known is None:
            raise NotBound(f"the volume {volume} is gone")
        claimed = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": meta.namespace, "name": meta.name}
        metadata = {
            # Another scheduler may have given it away: then this is a conflict.
            "resourceVersion": known.metadata.resource_version,
            "annotations": {BOUND_BY_CONTROLLER: "yes"},
        }
        wanted = {"metadata": metadata, "spec": {"claimRef": {**claimed, "uid": meta.uid}}}
        await client.patch(PERSISTENT_VOLUMES, volume, wanted, field_manager=FIELD_MANAGER)


def patience_s(engine: Engine | None) -> float:
    """How long the volumes of a placed pod are waited for: bindTimeoutSeconds of the profile's VolumeBinding."""
    for plugin in engine.profile.plugins if engine is not None else ():
        own = getattr(plugin, "plugin", plugin)
        if isinstance(own, VolumeBinding):
            return float(own.args.bind_timeout_seconds)
    return WITHIN_S


async def bound(
    feed: Feed,
    ask: Ask,
    node: str,
    promises: Sequence[Promise],
    *,
    late: Callable[[str], None] = lambda what: None,
) -> None:
    """Waits until all claims have their volumes. `late` hears what is waited for, where that takes long."""
    clock, storage = feed.clock, feed.cluster.storage
    within_s = patience_s(feed.engine_of(ask))
    began_s, seen, is_told = clock.monotonic(), set[str](), False
    while True:
        claims = {key: storage.claims.get(key) for key, _, _ in promises}
        if all(claim is not None and is_bound(claim) for claim in claims.values()):
            return
        if feed.stands(ask, node) is None:
            raise NotBound("its node went away, or it did")
        for key, volume, _ in promises:
            claim = claims[key]
            selected = claim is not None and claim.metadata.annotations.get(SELECTED_NODE_ANNOTATION) == node
            if claim is None:
                raise NotBound(f"the claim {key} is gone")
            if selected:
                seen.add(key)
            elif volume is None and key in seen and not is_bound(claim):
                raise NotBound(f"no volume can be made for the claim {key} on {node}")
        waited_s = clock.monotonic() - began_s
        if waited_s >= within_s:
            missing = ", ".join(key for key, claim in claims.items() if claim is None or not is_bound(claim))
            raise NotBound(f"no volume for {missing} within {within_s:g} s. {told.awaited(ask, feed.cluster)}".rstrip())
        if waited_s >= LATE_S and not is_told:
            late(told.awaited(ask, feed.cluster))
            is_told = True
        await clock.sleep(LOOK_EVERY_S)
