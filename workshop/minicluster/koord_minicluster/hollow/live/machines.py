"""The fleet's machines in the API, and which of them are alive. Nodes beyond the fleet's size are taken away."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from koord.api.kinds import NODES
from koord.api.kubernetes.node import Node
from koord.kube.client import Client
from koord.kube.clock import Clock
from koord.kube.errors import NotFound
from koord.kube.informer import Informer
from koord_minicluster.hollow.chance import chance
from koord_minicluster.hollow.machine import LABEL_FLEET, Machine, is_down, own_node
from koord_minicluster.kubelet.live.parallel import for_each
from koord_minicluster.kubelet.live.registry import AT_ONCE, NodeRegistry

log = logging.getLogger(__name__)

FIELD_MANAGER: Final = "koord-hollow"


class Machines:
    def __init__(
        self, client: Client, machines: Sequence[Machine], *, kubelet_port: int, version: str, seed: int, clock: Clock
    ) -> None:
        self._client = client
        self._machines = {machine.name: machine for machine in machines}
        self.registry = NodeRegistry(
            client,
            [own_node(machine, version) for machine in machines],
            kubelet_port=kubelet_port,
            field_manager=FIELD_MANAGER,
            clock=clock,
            share=lambda name: chance(seed, "beat", name),
            is_off=is_down,
        )

    @property
    def alive(self) -> list[Machine]:
        return [self._machines[name] for name in self.registry.alive]

    def runs(self, node: str) -> Machine | None:
        """The machine of that name, if it is alive."""
        return self._machines[node] if self.registry.is_alive(node) else None

    async def register(self) -> None:
        """Returns when all nodes are there."""
        fleet = next(iter(self._machines.values())).fleet if self._machines else ""
        nodes = await self._client.list(NODES, labels=f"{LABEL_FLEET}={fleet}") if fleet else []
        nodes_by_name = {node.metadata.name: node for node in nodes}
        for name in await self.registry.register(nodes_by_name):
            log.error("another node has that name and is left alone", extra={"node": name})
        surplus = [name for name in nodes_by_name if name not in self._machines]
        await for_each(surplus, self._take_away, at_once=AT_ONCE)
        log.info(
            "registered", extra={"nodes": len(self._machines), "known": len(nodes_by_name), "taken_away": len(surplus)}
        )

    def follow(self, nodes: Informer[Node]) -> None:
        self.registry.follow(nodes)

    async def _take_away(self, name: str) -> None:
        with suppress(NotFound):
            await self._client.delete(NODES, name)
