"""The scheduler of the simulated cluster: the core that runs live, driven minute by minute.

It decides nothing itself. Objects go in as informers would deliver them, decisions come out, and every binding succeeds
at once. A minute has room for as many decisions as the scheduler makes in that time; the others wait.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from koord.api.configuration import scheduler_config
from koord.api.configuration.scheduler_config import SHIPPED, SchedulerConfiguration
from koord.api.kinds import DEVICES, NODES, PODS, Kind
from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Pod
from koord.api.machinery.faults import BadInput
from koord.api.protocol.crd.device import Device
from koord.api.text.manifest import Manifests
from koord.offline.driver import Driver
from koord.offline.patched import patched
from koord.scheduler.core.core import Core
from koord.scheduler.core.decision import Bind, Nowhere, Placed
from koord.scheduler.core.inputs import INPUTS
from koord.scheduler.core.moment import Moment
from koord.scheduler.profiles import profiles_of
from koord.scheduler.state.stand_ins import is_stand_in
from koord.sim import packing, pods
from koord.sim.cluster import Cluster
from koord.sim.policies.policy import Band


class Bound(NamedTuple):
    key: str
    node: int


@dataclass(slots=True)
class Decided:
    """What the scheduler decided in a minute, in its order."""

    bound: list[Bound] = field(default_factory=list)
    victims: list[str] = field(default_factory=list)
    "Pods that must make room for others."
    decisions: int = 0


def configuration_of(manifests: Manifests | None, packed_by: str = "") -> SchedulerConfiguration:
    """The scheduler's configuration among manifests; the shipped one where there is none. `packed_by`: the policy that
    packs GPUs; empty: as the configuration says."""
    config = _written(manifests)
    return packing.configured(config, packed_by) if packed_by else config


def _written(manifests: Manifests | None) -> SchedulerConfiguration:
    written = [
        (place, data)
        for place, data in (manifests.configurations if manifests is not None else ())
        if data.get("kind") == scheduler_config.KIND
    ]
    if len(written) > 1:
        raise BadInput(f"two scheduler configurations: {written[0][0]} and {written[1][0]}; keep one")
    return scheduler_config.parse(written[0][1], str(written[0][0])) if written else SHIPPED


class Placing:
    """The scheduler, its nodes, and the pods that it was given."""

    def __init__(
        self,
        nodes: Sequence[Node],
        band: Band,
        config: SchedulerConfiguration,
        manifests: Manifests | None,
        *,
        seed: int,
        now_s: float,
        devices: Sequence[Device] = (),
    ) -> None:
        now = Moment(pods.START_S + now_s, now_s)
        self.core = Core(profiles_of(config), seed=seed % 2**31, alone=True, now=now, hints=False)
        self.driver = Driver(self.core)
        self.band = band
        self.nodes = list(nodes)
        self.row_of = {node.metadata.name: row for row, node in enumerate(nodes)}
        self.pods: dict[str, Pod] = {}
        "By key, as the API server has them."
        self.pods_on: dict[str, dict[str, Pod]] = {node.metadata.name: {} for node in nodes}
        for kind, objects in _of_manifests(manifests):
            for item in objects:
                self.core.put(kind, item)
        for node in nodes:
            self.core.put(NODES, node)
        for device in devices:
            self.core.put(DEVICES, device)

    def at(self, now_s: float) -> None:
        self.core.at(Moment(pods.START_S + now_s, now_s))
        self.driver.write()

    def lend(self, row: int, cpu_milli: int, memory_bytes: int) -> None:
        """A node shows other figures."""
        self._put_node(row, pods.lending(self.nodes[row], self.band, cpu_milli, memory_bytes))

    def reachable(self, row: int, is_up: bool) -> None:
        self._put_node(row, pods.unreachable(self.nodes[row], not is_up))

    def _put_node(self, row: int, new: Node) -> None:
        old, self.nodes[row] = self.nodes[row], new
        self.core.put(NODES, new, old)

    def put(self, pod: Pod) -> None:
        """A pod comes: pending, or on its node."""
        self._keep(pod)
        self.core.put(PODS, pod)

    def _keep(self, pod: Pod) -> None:
        self.pods[pod.metadata.key] = pod
        if pod.spec.node_name:
            self.pods_on[pod.spec.node_name][pod.metadata.key] = pod

    def remove(self, key: str) -> None:
        """A pod is gone."""
        pod = self.pods.pop(key)
        if pod.spec.node_name:
            del self.pods_on[pod.spec.node_name][key]
        self.core.removed(PODS, pod)

    def decide(self, most: int) -> Decided:
        """Until nothing is ready, or the scheduler's time is used up."""
        decided = Decided()
        while decided.decisions < most and (decision := self.driver.step()) is not None:
            decided.decisions += 1
            match decision:
                case Bind():
                    for placed in decision.members:
                        if not is_stand_in(placed.ask.meta.name):
                            key = placed.ask.key
                            self._keep(_bound(placed))
                            decided.bound.append(Bound(key, self.row_of[placed.node]))
                case Nowhere():
                    for move in decision.moves:
                        for key in move.victims:
                            if key in self.pods:
                                decided.victims.append(key)
                                self.remove(key)
                case _:
                    continue
        return decided


def _bound(placed: Placed) -> Pod:
    """A pod on its node, with what the scheduler wrote on it."""
    pod = placed.ask.pod
    if placed.plan.patch is not None:
        pod = patched(pod, placed.plan.patch.body)
    return pods.on_node(pod, placed.node)


def _of_manifests(manifests: Manifests | None) -> Iterator[tuple[Kind[Any], Iterable[Any]]]:
    """Objects that the scheduler reads, in the order in which kinds build on one another. Nodes and pods are the
    scenario's own."""
    for entry in INPUTS if manifests is not None else ():
        if entry.kind not in (NODES, PODS) and manifests is not None:
            yield entry.kind, manifests.of(entry.kind)


def nodes_of(cluster: Cluster) -> list[Node]:
    columns = cluster.nodes
    return [
        pods.node(
            name,
            int(cpu),
            int(memory),
            {**({"node-pool": pool} if pool else {}), **cluster.labels.get(name, {})},
            cluster.gpus.get(name),
        )
        for name, cpu, memory, pool in zip(
            columns.names, columns.cpu_milli, columns.memory_bytes, columns.pool, strict=True
        )
    ]
