"""The node lifecycle loop: listens for each node's heartbeat, by our own clock, and looks when it should have come.

A heartbeat itself causes no work. Each node has one timer, which finds out whether it has been silent for too long.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from koord.api.kinds import LEASES, NODES
from koord.api.kubernetes.coordination import Lease
from koord.api.kubernetes.core import Node
from koord.api.kubernetes.meta import ObjectReference
from koord.kube.controller import Controller, Requeue
from koord.kube.errors import Conflict, NotFound
from koord.kube.store import Delta
from koord_minicluster.controllers.actions import Action, Tell
from koord_minicluster.controllers.live.cluster import NODE, Cluster, about
from koord_minicluster.controllers.node_lifecycle import GRACE_S, STARTUP_GRACE_S, not_ready, ready, tainted, unknown

LEASE_NAMESPACE: Final = "kube-node-lease"


class NodeLifecycleLoop:
    def __init__(self, cluster: Cluster, *, grace_s: float = GRACE_S, startup_grace_s: float = STARTUP_GRACE_S) -> None:
        self._cluster = cluster
        self._grace_s, self._startup_grace_s = grace_s, startup_grace_s
        self._nodes = cluster.view(NODES)
        self._pods = cluster.pods_by_node()
        self._heard_at: dict[str, float] = {}
        self.controller: Controller[str] = Controller("node-lifecycle", self._reconcile, workers=4)
        self.controller.watch(self._nodes, self._of_node)
        self.controller.watch(cluster.view(LEASES), self._of_lease)

    def _of_lease(self, delta: Delta[Lease]) -> Iterable[str]:
        lease = delta.new
        if lease is None or lease.metadata.namespace != LEASE_NAMESPACE:
            return ()
        if delta.old is not None and delta.old.spec.renew_time == lease.spec.renew_time:
            return ()
        name = lease.metadata.name
        self._heard_at[name] = self._cluster.clock.monotonic()
        node = self._nodes.get(name)
        # Only one that was given up is looked at: its own report says that it is back.
        return (name,) if node is not None and ready(node) == "Unknown" else ()

    def _of_node(self, delta: Delta[Node]) -> Iterable[str]:
        if delta.new is None:
            self._heard_at.pop(delta.key, None)
            return ()
        if delta.old is None or _heartbeat(delta.old) != _heartbeat(delta.new):
            self._heard_at[delta.key] = self._cluster.clock.monotonic()
        return () if delta.old is not None and _facts(delta.old) == _facts(delta.new) else (delta.key,)

    async def _reconcile(self, name: str) -> Requeue | None:
        node = self._nodes.get(name)
        if node is None:
            return None
        now_s = self._cluster.clock.now()
        grace_s = self._startup_grace_s if node.status.condition("Ready") is None else self._grace_s
        now = self._cluster.clock.monotonic()
        left_s = self._heard_at.setdefault(name, now) + grace_s - now
        writer, who = self._cluster.writer, about(NODES, node)
        try:
            if left_s <= 0:
                for patch in unknown(node, now_s):
                    node = await writer.patch(patch)
                    writer.tell(who, Tell("NodeNotReady", f"Node {name} is not heard of", type="Warning"))
            if ready(node) != "True":
                await self._pods_not_ready(name, who, now_s)
            for patch in tainted(node, now_s):
                await writer.patch(patch)
        except NotFound:
            return None
        except Conflict:
            return Requeue()
        return Requeue(left_s if left_s > 0 else grace_s)

    async def _pods_not_ready(self, name: str, who: ObjectReference, now_s: float) -> None:
        patches: list[Action] = []
        for pod in self._pods.by_index(NODE, name):
            if not pod.is_finished:
                patches += not_ready(pod, now_s)
        await self._cluster.writer.carry_out(patches, who)


def _heartbeat(node: Node) -> object:
    """What a node's own report changes, each time."""
    condition = node.status.condition("Ready")
    return condition and (condition.last_heartbeat_time, condition.status)


def _facts(node: Node) -> object:
    """What decides a node's taints."""
    conditions = [(condition.type, condition.status) for condition in node.status.conditions]
    return conditions, node.spec.taints, node.spec.unschedulable
