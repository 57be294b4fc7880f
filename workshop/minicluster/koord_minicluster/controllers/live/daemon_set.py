"""The DaemonSet loop. A node's heartbeat is no reason to look: only what decides which pods it takes."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Final

from koord.api.kinds import CONTROLLER_REVISIONS, DAEMON_SETS, NODES, PODS
from koord.api.kubernetes.core import Node, Pod
from koord.api.kubernetes.words import PodPhase
from koord.api.kubernetes.workloads import DaemonSet
from koord.api.text.selector import NOTHING, LabelMatcher, compile_labels
from koord.api.workloads.daemon_pods import target_node
from koord.kube.controller import Controller, Requeue
from koord.kube.store import Delta
from koord_minicluster.controllers import daemon_set as decisions
from koord_minicluster.controllers.actions import sooner
from koord_minicluster.controllers.live.carried_out import carried_out
from koord_minicluster.controllers.live.cluster import Cluster, about, soon
from koord_minicluster.controllers.live.revisions import collided

FAILED_BASE_S: Final = 1.0
FAILED_CAP_S: Final = 900.0


def selector_of(set_: DaemonSet) -> LabelMatcher:
    return compile_labels(set_.spec.selector, absent=NOTHING)


class DaemonSetLoop:
    def __init__(self, cluster: Cluster, *, workers: int = 2) -> None:
        self._cluster = cluster
        self._sets = cluster.view(DAEMON_SETS)
        self._nodes = cluster.view(NODES)
        self._failures: dict[tuple[str, str], tuple[int, float, str]] = {}
        self.controller: Controller[str] = Controller("daemon-set", self._reconcile, workers=workers)
        self.controller.watch(self._sets, self._of_set)
        self.controller.watch(self._nodes, self._of_node)
        self.controller.watch(
            cluster.view(PODS), lambda delta: soon(self.controller, cluster.managers(DAEMON_SETS, delta, selector_of))
        )
        revisions = cluster.view(CONTROLLER_REVISIONS)
        self.controller.watch(revisions, lambda delta: cluster.managers(DAEMON_SETS, delta, selector_of))

    def _of_set(self, delta: Delta[DaemonSet]) -> Iterable[str]:
        if delta.new is None and delta.old is not None:
            uid = delta.old.metadata.uid
            for key in [key for key in self._failures if key[0] == uid]:
                del self._failures[key]
        return (delta.key,)

    def _of_node(self, delta: Delta[Node]) -> Iterable[str]:
        if _takes(delta.old) == _takes(delta.new):
            return ()
        return [set_.metadata.key for set_ in self._sets.list()]

    async def _reconcile(self, key: str) -> Requeue | None:
        set_ = self._sets.get(key)
        if set_ is None:
            return None
        cluster, selector, who = self._cluster, selector_of(set_), about(DAEMON_SETS, set_)
        now_s = cluster.clock.now()
        pods = await cluster.claim(DAEMON_SETS, set_, selector, PODS)
        history = await cluster.claim(DAEMON_SETS, set_, selector, CONTROLLER_REVISIONS)
        held_back, wait_s = self._held_back(set_, pods, now_s)
        state = decisions.State(set_, tuple(pods), tuple(self._nodes.list()), tuple(history), held_back)
        plan = decisions.decide(state, now_s)
        return await carried_out(
            cluster,
            plan.actions,
            who,
            again_in_s=sooner(plan.again_in_s, wait_s),
            taken=partial(collided, cluster, DAEMON_SETS, set_, set_.status.collision_count, plan.actions),
        )

    def _held_back(self, set_: DaemonSet, pods: Iterable[Pod], now_s: float) -> tuple[frozenset[str], float | None]:
        """Nodes where a failed pod is left for a while: 1 s, and twice as long each time."""
        held: dict[str, float] = {}
        for pod in pods:
            if pod.status.phase != PodPhase.FAILED or pod.metadata.deletion_timestamp is not None:
                continue
            node = target_node(pod)
            place = (set_.metadata.uid, node)
            count, until_s, uid = self._failures.get(place, (0, 0.0, ""))
            if uid != pod.metadata.uid:
                calm = now_s - until_s > 2 * FAILED_CAP_S
                count = 1 if calm else count + 1
                until_s = now_s + min(FAILED_CAP_S, FAILED_BASE_S * 2.0 ** min(count - 1, 20))
                self._failures[place] = (count, until_s, pod.metadata.uid)
            if until_s > now_s:
                held[node] = until_s - now_s
        return frozenset(held), min(held.values(), default=None)


def _takes(node: Node | None) -> object:
    """What of a node decides which pods it takes."""
    return None if node is None else (node.metadata.labels, node.spec.taints)
