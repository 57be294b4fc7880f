"""The loop that lets unused classes of volume attributes go. Not every server has them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from koord.api.kinds import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, Kind
from koord.api.kubernetes.storage import VolumeAttributesClass
from koord.kube.controller import Controller, Requeue
from koord.kube.store import Delta
from koord_minicluster.controllers.claim_protection import classes_of_claim, classes_of_volume, freed_class
from koord_minicluster.controllers.live.cluster import Cluster
from koord_minicluster.controllers.live.resources import ServedResources
from koord_minicluster.controllers.live.view import View

GROUP: Final = "storage.k8s.io"
KIND: Final = "VolumeAttributesClass"
CLASSED: Final = "classed"


class ClassProtectionLoop:
    """Keys are names of classes."""

    def __init__(self, cluster: Cluster, served: ServedResources) -> None:
        self._cluster, self._served = cluster, served
        self._claims = cluster.view(PERSISTENT_VOLUME_CLAIMS)
        self._volumes = cluster.view(PERSISTENT_VOLUMES)
        self._claims.add_index(CLASSED, classes_of_claim)
        self._volumes.add_index(CLASSED, classes_of_volume)
        self._classes: View[VolumeAttributesClass] | None = None
        self.controller: Controller[str] = Controller("class-protection", self._reconcile)
        self.controller.watch(self._claims, _given_up(classes_of_claim))
        self.controller.watch(self._volumes, _given_up(classes_of_volume))
        served.add_handler(self._served_changed)

    def _served_changed(self) -> None:
        resource = self._served.find(f"{GROUP}/v1", KIND)
        if resource is not None and self._classes is None:
            self._kind: Kind[VolumeAttributesClass] = Kind(
                GROUP,
                resource.version,
                KIND,
                resource.plural,
                False,
                "koord.api.kubernetes.storage:VolumeAttributesClass",
            )
            self._classes = self._cluster.view(self._kind)
            self.controller.watch(self._classes, _leaving)

    async def _reconcile(self, key: str) -> Requeue | None:
        class_ = self._classes.get(key) if self._classes is not None else None
        if class_ is not None:
            is_used = bool(self._claims.by_index(CLASSED, key) or self._volumes.by_index(CLASSED, key))
            for patch in freed_class(self._kind, class_.metadata, is_used):
                await self._cluster.writer.patch(patch)
        return None


def _given_up(classes_of: Callable[[Any], list[str]]) -> Callable[[Delta[Any]], Iterable[str]]:
    """The classes that a change leaves with one user less."""

    def given_up(delta: Delta[Any]) -> Iterable[str]:
        still = classes_of(delta.new) if delta.new is not None else ()
        return [name for name in classes_of(delta.old) if name not in still] if delta.old is not None else ()

    return given_up


def _leaving(delta: Delta[VolumeAttributesClass]) -> tuple[str, ...]:
    return (delta.key,) if delta.new is not None and delta.new.metadata.deletion_timestamp is not None else ()
