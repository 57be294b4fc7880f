"""What a kubelet writes to its pods: their status, and that they are gone."""

from __future__ import annotations

import logging

from koord.api.kinds import PODS
from koord.api.kubernetes.pod import Pod
from koord.kube.client import Client
from koord.kube.errors import Conflict, NotFound
from koord_minicluster.kubelet.pod_status import Json

log = logging.getLogger(__name__)


class PodWrites:
    """Each write raises ApiError where trying again may help. A pod that is gone, or whose name another pod has, is
    left alone: the informer will tell."""

    def __init__(self, client: Client, field_manager: str) -> None:
        self._client, self._field_manager = client, field_manager

    async def status(self, pod: Pod, patch: Json) -> None:
        meta = pod.metadata
        try:
            await self._client.patch(
                PODS, meta.name, patch, namespace=meta.namespace, type="strategic", subresource="status",
                field_manager=self._field_manager,
            )  # fmt: skip
        except (NotFound, Conflict) as error:
            log.debug("left alone: %s", error, extra={"pod": meta.key})

    async def remove(self, pod: Pod) -> None:
        """For good: all its containers have ended."""
        meta = pod.metadata
        try:
            await self._client.delete(PODS, meta.name, namespace=meta.namespace, uid=meta.uid, grace_s=0)
        except (NotFound, Conflict) as error:
            log.debug("left alone: %s", error, extra={"pod": meta.key})
