"""The loop that tells how much of each ResourceQuota is used. Without it, a quota limits nothing.

What is taken is added by the API server as it admits it; what is given back is seen here: at once where a pod ends or
goes, within `AGAIN_S` for everything else.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from koord.api.kinds import PODS, Kind
from koord.api.kubernetes.core import Pod, ResourceQuota
from koord.kube.controller import Controller, Requeue
from koord.kube.errors import Conflict, NotFound
from koord.kube.store import Delta
from koord_minicluster.controllers.live.cluster import NAMESPACE, Cluster
from koord_minicluster.controllers.live.resources import ServedResources
from koord_minicluster.controllers.quota import counted, status, status_change

QUOTAS: Final[Kind[ResourceQuota]] = Kind(
    "", "v1", "ResourceQuota", "resourcequotas", True, "koord.api.kubernetes.core:ResourceQuota"
)
AGAIN_S: Final = 15.0
_MERGE: Final = "application/merge-patch+json"
_PAGE: Final = "500"


class QuotaLoop:
    """Keys are `namespace/name` of quotas."""

    def __init__(self, cluster: Cluster, served: ServedResources) -> None:
        self._cluster, self._served = cluster, served
        self._quotas = cluster.view(QUOTAS)
        self._pods = cluster.view(PODS)
        self.controller: Controller[str] = Controller("quota", self._reconcile)
        self.controller.watch(self._quotas, self._of_quota)
        self.controller.watch(self._pods, self._of_pod)

    def _of_quota(self, delta: Delta[ResourceQuota]) -> Iterable[str]:
        """Ignores status changes: the API server charges the status for an object before the object can be counted."""
        old, new = delta.old, delta.new
        return (delta.key,) if new is not None and (old is None or old.spec != new.spec) else ()

    def _of_pod(self, delta: Delta[Pod]) -> Iterable[str]:
        if delta.old is None or (delta.new is not None and delta.new.is_finished == delta.old.is_finished):
            return ()
        quotas = self._quotas.by_index(NAMESPACE, delta.old.metadata.namespace)
        return [f"{quota.metadata.namespace}/{quota.metadata.name}" for quota in quotas]

    async def _reconcile(self, key: str) -> Requeue | None:
        namespace, _, name = key.partition("/")
        try:
            quota = await self._read(QUOTAS.path(name, namespace=namespace))
            served = [
                (resource.group, resource.plural) for resource in await self._served.deletable() if resource.namespaced
            ]
            kinds = {
                (resource.group, resource.plural): resource.as_kind() for resource in await self._served.deletable()
            }
            which = counted((quota.get("spec") or {}).get("hard") or {}, served)
            objects = {kind_name: await self._all(kinds[kind_name], namespace) for kind_name in which}
            change = status_change(quota, status(quota, objects))
            if change is not None:
                path = QUOTAS.path(name, namespace=namespace, subresource="status")
                body = msgspec.json.encode(change)
                await self._cluster.client.raw("PATCH", path, body=body, content_type=_MERGE)
        except NotFound:
            return None
        except Conflict:
            return Requeue()
        return Requeue(AGAIN_S)

    async def _all(self, kind: Kind[Any], namespace: str) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = []
        token = ""
        while True:
            query = {"limit": _PAGE} | ({"continue": token} if token else {})
            page = await self._read(kind.path(namespace=namespace), query)
            items += page.get("items") or ()
            token = (page.get("metadata") or {}).get("continue") or ""
            if not token:
                return items

    async def _read(self, path: str, query: dict[str, str] | None = None) -> dict[str, Any]:
        _, _, body = await self._cluster.client.raw("GET", path, query)
        read: dict[str, Any] = msgspec.json.decode(body)
        return read
