"""The disruption budget loop. For each budget it keeps the set of pods selected: a pod's change costs no search."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from koord.api.kinds import DEPLOYMENTS, POD_DISRUPTION_BUDGETS, PODS, REPLICA_SETS, STATEFUL_SETS, Kind
from koord.api.kubernetes.core import Pod
from koord.api.kubernetes.meta import OwnerReference
from koord.api.kubernetes.policy import PodDisruptionBudget
from koord.api.text.selector import NOTHING, LabelMatcher, SelectorError, compile_labels
from koord.kube.controller import Controller, Requeue
from koord.kube.errors import ApiError, Conflict, NotFound
from koord.kube.store import Delta
from koord_minicluster.controllers.disruption import decide, expected, needs_sizes
from koord_minicluster.controllers.live.cluster import NAMESPACE, Cluster, about, soon
from koord_minicluster.controllers.live.resources import ServedResources


class DisruptionLoop:
    def __init__(self, cluster: Cluster, served: ServedResources) -> None:
        self._cluster = cluster
        self._served = served
        self._budgets = cluster.view(POD_DISRUPTION_BUDGETS)
        self._pods = cluster.view(PODS)
        self._selectors: dict[str, LabelMatcher] = {}
        self._selected: dict[str, set[str]] = {}
        self.controller: Controller[str] = Controller("disruption", self._reconcile, workers=2)
        self.controller.watch(self._budgets, self._of_budget)
        self.controller.watch(self._pods, lambda delta: soon(self.controller, self._of_pod(delta)))
        for kind in (DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS):
            self.controller.watch(cluster.view(kind), self._of_owner)

    def _of_budget(self, delta: Delta[PodDisruptionBudget]) -> Iterable[str]:
        budget = delta.new
        if budget is None:
            self._selectors.pop(delta.key, None)
            self._selected.pop(delta.key, None)
            return ()
        if delta.old is None or delta.old.spec.selector != budget.spec.selector:
            selector = _selector(budget)
            self._selectors[delta.key] = selector
            pods = self._pods.by_index(NAMESPACE, budget.metadata.namespace)
            self._selected[delta.key] = {p.metadata.key for p in pods if selector.matches(p.metadata.labels)}
        return (delta.key,)

    def _of_pod(self, delta: Delta[Pod]) -> Iterable[str]:
        state = delta.new or delta.old
        if state is None:
            return
        for budget in self._budgets.by_index(NAMESPACE, state.metadata.namespace):
            key = budget.metadata.key
            members = self._selected.get(key)
            if members is None:
                continue
            was = delta.key in members
            is_ = delta.new is not None and self._selectors[key].matches(delta.new.metadata.labels)
            (members.add if is_ else members.discard)(delta.key)
            if was or is_:
                yield key

    def _of_owner(self, delta: Delta[Any]) -> Iterable[str]:
        sizes = [None if state is None else state.spec.replicas for state in (delta.old, delta.new)]
        if sizes[0] == sizes[1]:
            return ()
        namespace = delta.key.partition("/")[0]
        return [budget.metadata.key for budget in self._budgets.by_index(NAMESPACE, namespace)]

    async def _reconcile(self, key: str) -> Requeue | None:
        budget = self._budgets.get(key)
        if budget is None:
            return None
        selected = (self._pods.get(pod) for pod in self._selected.get(key, ()))
        pods = [pod for pod in selected if pod is not None and not pod.is_finished]
        sizes = await self._sizes(pods) if needs_sizes(budget) else {}
        plan = decide(budget, pods, expected(budget, pods, sizes), self._cluster.clock.now())
        try:
            await self._cluster.writer.carry_out(plan.actions, about(POD_DISRUPTION_BUDGETS, budget))
        except NotFound:
            return None
        except Conflict:
            # An eviction was granted in the meantime: the budget's change is on its way.
            return Requeue()
        return None if plan.again_in_s is None else Requeue(plan.again_in_s)

    async def _sizes(self, pods: list[Pod]) -> dict[str, int | None]:
        """The sizes of the pods' owners, each once; a ReplicaSet's is its Deployment's."""
        sizes: dict[str, int | None] = {}
        for pod in pods:
            owner = pod.metadata.controller
            if owner is None:
                continue
            namespace = pod.metadata.namespace
            if owner.kind == "ReplicaSet":
                rs = self._cluster.view(REPLICA_SETS).get(f"{namespace}/{owner.name}")
                if rs is not None and rs.metadata.controller is not None:
                    owner = rs.metadata.controller
            name = f"{owner.kind} {owner.name}"
            if name not in sizes:
                sizes[name] = await self._size(owner, namespace)
        return sizes

    async def _size(self, owner: OwnerReference, namespace: str) -> int | None:
        kinds: dict[str, Kind[Any]] = {k.kind: k for k in (DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS)}
        kind = kinds.get(owner.kind) if owner.api_version.startswith("apps/") else None
        if kind is not None:
            owner_object = self._cluster.view(kind).get(f"{namespace}/{owner.name}")
            return 0 if owner_object is None else owner_object.spec.replicas
        resource = self._served.find(owner.api_version, owner.kind)
        if resource is None or "scale" not in resource.subresources:
            return None
        try:
            scale = await self._cluster.client.get_scale(resource.as_kind(), owner.name, namespace=namespace)
        except NotFound:
            return 0
        except ApiError:
            return None
        return scale.spec.replicas


def _selector(budget: PodDisruptionBudget) -> LabelMatcher:
    try:
        return compile_labels(budget.spec.selector, absent=NOTHING)
    except SelectorError:
        return NOTHING
