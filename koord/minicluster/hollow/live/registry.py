"""Registers the fleet's nodes, and keeps them alive: leases, heartbeats.

A node that exists already is taken over, with its status brought up to date; nodes of the same fleet beyond its present
size are taken away. A node that somebody deletes stays away until the process starts again, as with a kubelet.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from koord.api.kinds import LEASES, NODES
from koord.api.kubernetes.heartbeat import NODE_LEASES, is_ready, lease_object, renewal
from koord.api.kubernetes.node import Node
from koord.kube.client import Client
from koord.kube.clock import Clock
from koord.kube.errors import AlreadyExists, ApiError, NotFound
from koord.kube.informer import Informer
from koord.kube.store import Delta
from koord.minicluster.hollow.chance import chance
from koord.minicluster.hollow.live.parallel import for_each
from koord.minicluster.hollow.machine import (
    LABEL_FLEET,
    Machine,
    is_down,
    node_object,
    node_status,
    renew_period_s,
)

log = logging.getLogger(__name__)

HEARTBEAT_S: Final = 300.0
TICK_S: Final = 1.0
AT_ONCE: Final = 16
FIELD_MANAGER: Final = "koord-hollow"


class NodeRegistry:
    """The fleet's nodes in the API. `alive` are those that are registered and not switched off."""

    def __init__(
        self, client: Client, machines: Sequence[Machine], *, kubelet_port: int, version: str, seed: int, clock: Clock
    ) -> None:
        self._client = client
        # A renewal that takes long is worth less than the next one.
        self._beats = client.limited(timeout_s=10.0, attempts=1)
        self._machines = {machine.name: machine for machine in machines}
        self._port, self._version, self._seed, self._clock = kubelet_port, version, seed, clock
        self._nodes: dict[str, Node] = {}
        self._renew_at: dict[str, float] = {}
        self._beat_at: dict[str, float] = {}

    @property
    def alive(self) -> list[Machine]:
        return [self._machines[name] for name, node in self._nodes.items() if not is_down(node)]

    def runs(self, node: str) -> Machine | None:
        """The machine of that name, if it is alive."""
        known = self._nodes.get(node)
        return None if known is None or is_down(known) else self._machines[node]

    async def register(self) -> None:
        """Returns when all nodes are there."""
        fleet = next(iter(self._machines.values())).fleet if self._machines else ""
        found = await self._client.list(NODES, labels=f"{LABEL_FLEET}={fleet}") if fleet else []
        known = {node.metadata.name: node for node in found}
        await for_each(
            self._machines.values(), lambda machine: self._register(machine, known.get(machine.name)), at_once=AT_ONCE
        )
        surplus = [name for name in known if name not in self._machines]
        await for_each(surplus, self._take_away, at_once=AT_ONCE)
        log.info("registered", extra={"nodes": len(self._machines), "known": len(known), "taken_away": len(surplus)})

    async def _register(self, machine: Machine, known: Node | None) -> None:
        now_s = self._clock.now()
        is_new = known is None
        if known is None:
            new = node_object(machine, now_s, kubelet_port=self._port, version=self._version)
            try:
                known = await self._client.create(NODES, new, field_manager=FIELD_MANAGER)
            except AlreadyExists:
                known = await self._client.get(NODES, machine.name)
                if known.metadata.labels.get(LABEL_FLEET) != machine.fleet:
                    log.error("another node has that name and is left alone", extra={"node": machine.name})
                    return
        elif not is_down(known):
            await self._write_status(machine, known)
        self._nodes[machine.name] = known
        await (self._take_lease(machine) if is_new else self._renew(machine))
        # Spread over the period from the start, so that no second has more than its share of writes.
        share = chance(self._seed, "beat", machine.name)
        self._renew_at[machine.name] = now_s + renew_period_s(len(self._machines)) * share
        self._beat_at[machine.name] = now_s + HEARTBEAT_S * share

    async def _take_away(self, name: str) -> None:
        with suppress(NotFound):
            await self._client.delete(NODES, name)

    def follow(self, nodes: Informer[Node]) -> None:
        """From here on, changes of our nodes are heeded: deleted, switched off, doubted."""
        nodes.add_handler(self._hear)

    def _hear(self, delta: Delta[Node]) -> None:
        name = delta.key
        if name not in self._nodes:
            return
        if delta.new is None:
            log.info("the node was deleted: it is gone until the next start", extra={"node": name})
            del self._nodes[name]
            return
        was_down = is_down(self._nodes[name])
        self._nodes[name] = delta.new
        if not is_down(delta.new) and (was_down or not is_ready(delta.new)):
            self._renew_at[name] = self._beat_at[name] = 0.0

    async def keep_alive(self) -> None:
        """Renews leases and writes heartbeats until cancelled."""
        while True:
            now_s = self._clock.now()
            alive = self.alive
            await for_each(
                [machine for machine in alive if self._beat_at[machine.name] <= now_s], self._beat, at_once=AT_ONCE
            )
            await for_each(
                [machine for machine in alive if self._renew_at[machine.name] <= now_s], self._renew, at_once=AT_ONCE
            )
            await self._clock.sleep(TICK_S)

    async def _beat(self, machine: Machine) -> None:
        now_s = self._clock.now()
        self._beat_at[machine.name] = now_s + HEARTBEAT_S
        known = self._nodes.get(machine.name)
        if known is None:
            return
        try:
            await self._write_status(machine, known)
        except NotFound:
            self._nodes.pop(machine.name, None)
        except ApiError as error:
            log.warning("no heartbeat: %s", error, extra={"node": machine.name})
            self._beat_at[machine.name] = now_s + renew_period_s(len(self._machines))

    async def _write_status(self, machine: Machine, known: Node) -> None:
        status = node_status(machine, known, self._clock.now(), kubelet_port=self._port, version=self._version)
        # Others add resources to a node (batch, mid, devices): a merge leaves theirs alone.
        await self._beats.patch(
            NODES,
            machine.name,
            {"status": status},
            type="strategic",
            subresource="status",
            field_manager=FIELD_MANAGER,
        )

    async def _renew(self, machine: Machine) -> None:
        now_s = self._clock.now()
        self._renew_at[machine.name] = now_s + renew_period_s(len(self._machines))
        try:
            await self._beats.patch(
                LEASES, machine.name, renewal(now_s), namespace=NODE_LEASES, field_manager=FIELD_MANAGER
            )
        except NotFound:
            await self._take_lease(machine)
        except ApiError as error:
            log.warning("lease not renewed: %s", error, extra={"node": machine.name})

    async def _take_lease(self, machine: Machine) -> None:
        node = self._nodes.get(machine.name)
        if node is None:
            return
        lease = lease_object(machine.name, node.metadata.uid, self._clock.now())
        try:
            await self._beats.create(LEASES, lease, field_manager=FIELD_MANAGER)
        except AlreadyExists:
            await self._renew(machine)
        except ApiError as error:
            log.warning("no lease: %s", error, extra={"node": machine.name})
