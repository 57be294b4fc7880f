"""The taint eviction loop: one timer for each pod that may stay for a while only."""

from __future__ import annotations

from collections.abc import Iterable

from koord.api.kinds import NODES, PODS
from koord.api.kubernetes.core import Node, Pod
from koord.kube.controller import Controller, Requeue
from koord.kube.store import Delta
from koord_minicluster.controllers.actions import Tell
from koord_minicluster.controllers.live.cluster import NODE, Cluster, about
from koord_minicluster.controllers.taint_eviction import decide, drives_away


class TaintEvictionLoop:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._nodes = cluster.view(NODES)
        self._pods = cluster.pods_by_node()
        self._seen_s: dict[str, float] = {}
        "When a node was first seen to drive pods away, for taints that do not say."
        self.controller: Controller[str] = Controller("taint-eviction", self._reconcile, workers=4)
        self.controller.watch(self._nodes, self._of_node)
        self.controller.watch(self._pods, self._of_pod)

    def _of_node(self, delta: Delta[Node]) -> Iterable[str]:
        taints = drives_away(delta.new.spec.taints) if delta.new is not None else []
        if not taints:
            self._seen_s.pop(delta.key, None)
            return ()
        self._seen_s.setdefault(delta.key, self._cluster.clock.now())
        if delta.old is not None and drives_away(delta.old.spec.taints) == taints:
            return ()
        return [pod.metadata.key for pod in self._pods.by_index(NODE, delta.key)]

    def _of_pod(self, delta: Delta[Pod]) -> Iterable[str]:
        pod = delta.new
        return (delta.key,) if pod is not None and pod.spec.node_name in self._seen_s else ()

    async def _reconcile(self, key: str) -> Requeue | None:
        pod = self._pods.get(key)
        if pod is None or not pod.spec.node_name:
            return None
        node = self._nodes.get(pod.spec.node_name)
        if node is None:
            return None
        now_s = self._cluster.clock.now()
        plan = decide(pod, node.spec.taints, self._seen_s.get(node.metadata.name, now_s), now_s)
        if plan.actions:
            who = about(PODS, pod)
            self._cluster.writer.tell(who, Tell("TaintManagerEviction", f"Deleting pod {key}"))
            await self._cluster.writer.carry_out(plan.actions, who)
        return None if plan.again_in_s is None else Requeue(plan.again_in_s)
