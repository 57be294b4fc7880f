"""The EndpointSlice loop. Keys are those of Services."""

from __future__ import annotations

from collections.abc import Iterable

from koord.api.kinds import ENDPOINT_SLICES, NODES, PODS, SERVICES
from koord.api.kubernetes.core import Pod
from koord.api.kubernetes.discovery import EndpointSlice
from koord.api.kubernetes.words import TopologyKey
from koord.api.text.selector import match_labels
from koord.kube.controller import Controller, Requeue
from koord.kube.store import Delta
from koord_minicluster.controllers import endpoint_slices as decisions
from koord_minicluster.controllers.live.carried_out import carried_out
from koord_minicluster.controllers.live.cluster import MANAGER, NAMESPACE, Cluster, about, soon


class EndpointSliceLoop:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._services = cluster.view(SERVICES)
        self._slices = cluster.view(ENDPOINT_SLICES)
        self._pods = cluster.view(PODS)
        self._nodes = cluster.view(NODES)
        self.controller: Controller[str] = Controller("endpoint-slice", self._reconcile, workers=2)
        self.controller.watch(self._services, lambda delta: (delta.key,))
        self.controller.watch(self._slices, _of_slice)
        self.controller.watch(self._pods, self._of_pod)
        # Zones are looked up when pods are; a node's zone is there before its first pod.
        self.controller.watch(self._nodes, lambda delta: ())

    def _of_pod(self, delta: Delta[Pod]) -> Iterable[str]:
        keys: dict[str, None] = {}
        for state in (delta.old, delta.new):
            if state is None or not state.status.pod_ip:
                continue
            for service in self._services.by_index(NAMESPACE, state.metadata.namespace):
                selects = decisions.has_endpoints(service) and match_labels(service.spec.selector)
                if selects and selects.matches(state.metadata.labels):
                    keys[service.metadata.key] = None
        return soon(self.controller, keys)

    async def _reconcile(self, key: str) -> Requeue | None:
        service = self._services.get(key)
        if service is None:
            return None
        meta = service.metadata
        slices = self._slices.by_index(MANAGER, meta.uid)
        pods = self._pods.by_index(NAMESPACE, meta.namespace)
        actions = decisions.decide(service, pods, self._zones(pods), slices)
        return await carried_out(self._cluster, actions, about(SERVICES, service), failure="")

    def _zones(self, pods: Iterable[Pod]) -> dict[str, str]:
        zones = {}
        for name in {pod.spec.node_name for pod in pods if pod.spec.node_name}:
            node = self._nodes.get(name)
            if node is not None and (zone := node.metadata.labels.get(TopologyKey.ZONE)):
                zones[name] = zone
        return zones


def _of_slice(delta: Delta[EndpointSlice]) -> Iterable[str]:
    for state in (delta.old, delta.new):
        if state is not None and decisions.is_ours(state):
            yield f"{state.metadata.namespace}/{state.metadata.labels.get(decisions.SERVICE_NAME, '')}"
