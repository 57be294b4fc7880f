"""The loop that gathers the rules of ClusterRoles."""

from __future__ import annotations

from collections.abc import Iterable

from koord.api.kinds import CLUSTER_ROLES
from koord.api.kubernetes.rbac import ClusterRole
from koord.kube.controller import Controller, Requeue
from koord.kube.store import Delta
from koord_minicluster.controllers.live.cluster import Cluster
from koord_minicluster.controllers.role_aggregation import aggregated


class RoleAggregationLoop:
    """Keys are names of roles that are gathered from others: any role may be one of these."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._roles = cluster.view(CLUSTER_ROLES)
        self.controller: Controller[str] = Controller("role-aggregation", self._reconcile)
        self.controller.watch(self._roles, self._gathered)

    def _gathered(self, _delta: Delta[ClusterRole]) -> Iterable[str]:
        return [role.metadata.name for role in self._roles.list() if role.aggregation_rule is not None]

    async def _reconcile(self, name: str) -> Requeue | None:
        role = self._roles.get(name)
        for patch in aggregated(role, self._roles.list()) if role is not None else ():
            await self._cluster.writer.patch(patch)
        return None
