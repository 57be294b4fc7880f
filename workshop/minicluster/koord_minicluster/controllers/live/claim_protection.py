"""The loop that lets unused claims and volumes go."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from koord.api.kinds import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS
from koord.api.kubernetes.core import Pod
from koord.kube.controller import Controller, Requeue
from koord.kube.store import Delta
from koord_minicluster.controllers.actions import Patch
from koord_minicluster.controllers.claim_protection import claims_of, freed_claim, freed_volume, needs
from koord_minicluster.controllers.live.cluster import Cluster

CLAIMED: Final = "claimed"


def by_claim(pod: Pod) -> list[str]:
    return [f"{pod.metadata.namespace}/{claim}" for claim in claims_of(pod)]


class ClaimProtectionLoop:
    """Keys are `namespace/name` of claims, and names of volumes, which have no slash."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._claims = cluster.view(PERSISTENT_VOLUME_CLAIMS)
        self._volumes = cluster.view(PERSISTENT_VOLUMES)
        self._pods = cluster.view(PODS)
        self._pods.add_index(CLAIMED, by_claim)
        self.controller: Controller[str] = Controller("claim-protection", self._reconcile)
        self.controller.watch(self._claims, _leaving)
        self.controller.watch(self._volumes, _leaving)
        self.controller.watch(self._pods, self._of_pod)

    def _of_pod(self, delta: Delta[Pod]) -> Iterable[str]:
        if delta.old is not None and delta.old.spec.volumes and (delta.new is None or not needs(delta.new)):
            yield from by_claim(delta.old)

    async def _reconcile(self, key: str) -> Requeue | None:
        patches: list[Patch] = []
        if "/" in key:
            claim = self._claims.get(key)
            if claim is not None:
                patches = freed_claim(claim.metadata, self._pods.by_index(CLAIMED, key))
        else:
            volume = self._volumes.get(key)
            if volume is not None:
                patches = freed_volume(volume)
        for patch in patches:
            await self._cluster.writer.patch(patch)
        return None


def _leaving(delta: Delta[Any]) -> tuple[str, ...]:
    return (delta.key,) if delta.new is not None and delta.new.metadata.deletion_timestamp is not None else ()
