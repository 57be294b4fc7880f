"""The Deployment loop."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from koord.api.kinds import DEPLOYMENTS, PODS, REPLICA_SETS
from koord.api.kubernetes.workloads import Deployment, ReplicaSet
from koord.api.text.selector import NOTHING, LabelMatcher, compile_labels
from koord.kube.controller import Controller, Requeue
from koord.kube.errors import Conflict, NotFound
from koord.kube.store import Delta
from koord_minicluster.controllers import deployment as decisions
from koord_minicluster.controllers.actions import Create
from koord_minicluster.controllers.live.carried_out import carried_out
from koord_minicluster.controllers.live.cluster import MANAGER, Cluster, about


def selector_of(deployment: Deployment) -> LabelMatcher:
    return compile_labels(deployment.spec.selector, absent=NOTHING)


class DeploymentLoop:
    def __init__(self, cluster: Cluster, *, workers: int = 4) -> None:
        self._cluster = cluster
        self._deployments = cluster.view(DEPLOYMENTS)
        self._sets = cluster.view(REPLICA_SETS)
        self._pods = cluster.view(PODS)
        self.controller: Controller[str] = Controller("deployment", self._reconcile, workers=workers)
        self.controller.watch(self._deployments, lambda delta: (delta.key,))
        self.controller.watch(self._sets, lambda delta: cluster.managers(DEPLOYMENTS, delta, selector_of))
        self.controller.watch(self._pods, self._of_ended_pod)

    def _of_ended_pod(self, delta: Delta[Any]) -> Iterable[str]:
        """The last old pod's end lets a Recreate go on."""
        gone = delta.old
        if delta.new is not None or gone is None or gone.metadata.controller is None:
            return
        manager = gone.metadata.controller
        rs = self._sets.get(f"{gone.metadata.namespace}/{manager.name}") if manager.kind == "ReplicaSet" else None
        owner = rs.metadata.controller if rs is not None else None
        if owner is not None and owner.kind == "Deployment":
            yield f"{gone.metadata.namespace}/{owner.name}"

    async def _reconcile(self, key: str) -> Requeue | None:
        deployment = self._deployments.get(key)
        if deployment is None:
            return None
        owned = await self._cluster.claim(DEPLOYMENTS, deployment, selector_of(deployment), REPLICA_SETS)
        state = decisions.State(deployment, tuple(owned))
        if deployment.spec.strategy.type == "Recreate":
            state = decisions.State(deployment, tuple(owned), self._old_pods_exist(state))
        plan = decisions.decide(state, self._cluster.clock.now())
        who = about(DEPLOYMENTS, deployment)
        return await carried_out(
            self._cluster,
            plan.actions,
            who,
            again_in_s=plan.again_in_s,
            failure="ReplicaSetCreateError",
            taken=lambda error: self._collided(deployment, plan.actions),
        )

    def _old_pods_exist(self, state: decisions.State) -> bool:
        old: list[ReplicaSet] = state.old(state.new)
        return any(not pod.is_finished for rs in old for pod in self._pods.by_index(MANAGER, rs.metadata.uid))

    async def _collided(self, deployment: Deployment, actions: Iterable[object]) -> None:
        create = next(action for action in actions if isinstance(action, Create))
        name = str(create.body["metadata"]["name"])
        with suppress(NotFound, Conflict):
            existing = await self._cluster.client.get(REPLICA_SETS, name, namespace=create.namespace)
            for patch in decisions.collided(deployment, existing):
                await self._cluster.writer.patch(patch)
