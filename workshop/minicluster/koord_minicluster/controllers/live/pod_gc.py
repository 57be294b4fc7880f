"""The pod garbage loop: looks at a pod when it is being deleted or its node is gone, and at all finished together."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from koord.api.kinds import NODES, PODS
from koord.api.kubernetes.core import Node, Pod
from koord.api.kubernetes.words import TaintKey
from koord.kube.controller import Controller, Requeue
from koord.kube.errors import NotFound
from koord.kube.store import Delta
from koord_minicluster.controllers.live.cluster import NODE, Cluster, about
from koord_minicluster.controllers.pod_gc import FINISHED_KEPT, QUARANTINE_S, finished_too_many, leaving, lost

FINISHED: Final = "finished"
CROWD: Final = ""
"""The key for looking at all finished pods together."""
CROWD_EVERY_S: Final = 1.0


def finished_pods(pod: Pod) -> tuple[str, ...]:
    return (FINISHED,) if pod.is_finished else ()


class PodGcLoop:
    def __init__(
        self, cluster: Cluster, *, finished_kept: int = FINISHED_KEPT, quarantine_s: float = QUARANTINE_S
    ) -> None:
        self._cluster = cluster
        self._kept, self._quarantine_s = finished_kept, quarantine_s
        self._nodes = cluster.view(NODES)
        self._pods = cluster.pods_by_node()
        self._pods.add_index(FINISHED, finished_pods)
        self._gone_at: dict[str, float] = {}
        self._finished = 0
        self.controller: Controller[str] = Controller("pod-gc", self._reconcile, workers=8)
        self.controller.watch(self._nodes, self._of_node)
        self.controller.watch(self._pods, self._of_pod)

    def _of_node(self, delta: Delta[Node]) -> Iterable[str]:
        if delta.new is None:
            self._gone_at[delta.key] = self._cluster.clock.monotonic()
        else:
            self._gone_at.pop(delta.key, None)
            if not any(taint.key == TaintKey.OUT_OF_SERVICE for taint in delta.new.spec.taints):
                return ()
        return [pod.metadata.key for pod in self._pods.by_index(NODE, delta.key)]

    def _of_pod(self, delta: Delta[Pod]) -> Iterable[str]:
        pod = delta.new
        was, is_ = (state is not None and state.is_finished for state in (delta.old, pod))
        self._finished += is_ - was
        if is_ and not was and self._finished > self._kept:
            self.controller.add_after(CROWD, CROWD_EVERY_S)
        if pod is None:
            return
        node = pod.spec.node_name
        if pod.metadata.deletion_timestamp is not None or (node and self._nodes.get(node) is None):
            yield delta.key

    async def _reconcile(self, key: str) -> Requeue | None:
        writer = self._cluster.writer
        if key == CROWD:
            surplus = finished_too_many(self._pods.by_index(FINISHED, FINISHED), self._kept)
            for start in range(0, len(surplus), 100):
                part = surplus[start : start + 100]
                await writer.carry_out(part, about(PODS, self._pods.by_index(FINISHED, FINISHED)[0]))
            return None
        pod = self._pods.get(key)
        if pod is None:
            return None
        name = pod.spec.node_name
        node = self._nodes.get(name) if name else None
        now_s = self._cluster.clock.now()
        if name and node is None:
            left_s = self._left_s(name)
            if left_s > 0:
                return Requeue(left_s)
            if await self._is_there(name):
                return None
            await writer.carry_out(lost(pod, now_s), about(PODS, pod))
            return None
        await writer.carry_out(leaving(pod, node, now_s), about(PODS, pod))
        return None

    def _left_s(self, node: str) -> float:
        now = self._cluster.clock.monotonic()
        return self._gone_at.setdefault(node, now) + self._quarantine_s - now

    async def _is_there(self, node: str) -> bool:
        """The picture of nodes may be behind: ask before pods are removed."""
        try:
            await self._cluster.client.get(NODES, node)
        except NotFound:
            return False
        return True
