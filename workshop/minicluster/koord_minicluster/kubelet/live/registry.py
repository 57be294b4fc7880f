"""A kubelet's nodes in the API: registers them, and keeps them alive with leases and heartbeats.

Leases come first: a lease that is renewed too late costs a node its pods. Statuses have a loop of their own, and
`leases_in_time` makes all other work of the process wait while renewals are late, as on an overloaded machine.

An existing node is taken over and its status is updated, unless it has another owner. A node that a user deletes stays
away until the process starts again, as with a kubelet.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from koord.api.kinds import LEASES, NODES
from koord.api.kubernetes.heartbeat import NODE_LEASES, is_ready, lease_object, renewal
from koord.api.kubernetes.node import Node
from koord.api.text.quantity import ResourceList
from koord.kube.client import Client
from koord.kube.clock import Clock
from koord.kube.errors import AlreadyExists, ApiError, NotFound
from koord.kube.informer import Informer
from koord.kube.store import Delta
from koord_minicluster.kubelet.beats import Beats, renew_period_s
from koord_minicluster.kubelet.live.parallel import for_each
from koord_minicluster.kubelet.node_status import OwnNode, node_object, node_status

log = logging.getLogger(__name__)

TICK_S: Final = 1.0
AT_ONCE: Final = 16
LATE_S: Final = 5.0
"""A lease that is overdue for so long is late."""


class NodeRegistry:
    """`share` spreads the nodes' writes over time (from 0 to 1); `is_off` says which nodes must not report."""

    def __init__(
        self,
        client: Client,
        nodes: Sequence[OwnNode],
        *,
        kubelet_port: int,
        field_manager: str,
        clock: Clock,
        share: Callable[[str], float] = lambda name: 1.0,
        is_off: Callable[[Node], bool] = lambda node: False,
    ) -> None:
        self._client = client
        # A renewal that takes long is worth less than the next one.
        self._brief = client.limited(timeout_s=10.0, attempts=1)
        self._own = {own.name: own for own in nodes}
        self._port, self._field_manager, self._clock = kubelet_port, field_manager, clock
        self._share, self._is_off = share, is_off
        self._period_s = renew_period_s(len(nodes))
        self._nodes: dict[str, Node] = {}
        self._beats: dict[str, Beats] = {}
        self._in_time = asyncio.Event()
        self._in_time.set()

    @property
    def alive(self) -> list[str]:
        """The nodes that are registered and not switched off."""
        return [name for name, node in self._nodes.items() if not self._is_off(node)]

    def is_alive(self, name: str) -> bool:
        node = self._nodes.get(name)
        return node is not None and not self._is_off(node)

    def allocatable(self, name: str) -> ResourceList:
        """What a node has for pods, as the API server shows it: others add resources and change amounts. A deleted
        node has what it registered with."""
        node = self._nodes.get(name)
        return node.status.allocatable if node is not None else self._own[name].resources

    async def register(self, nodes: Mapping[str, Node]) -> list[str]:
        """Registers all nodes; returns the names in use by nodes of other owners. `known`: existing nodes that the
        caller has looked up, by name."""
        others: list[str] = []

        async def register(own: OwnNode) -> None:
            if not await self._register(own, nodes.get(own.name)):
                others.append(own.name)

        await for_each(self._own.values(), register, at_once=AT_ONCE)
        return others

    async def _register(self, own: OwnNode, node: Node | None) -> bool:
        now_s = self._clock.now()
        is_new = node is None
        if node is None:
            made = node_object(own, now_s, kubelet_port=self._port)
            try:
                node = await self._client.create(NODES, made, field_manager=self._field_manager)
            except AlreadyExists:
                is_new, node = False, await self._client.get(NODES, own.name)
        if not own.owns(node):
            return False
        self._nodes[own.name], self._beats[own.name] = node, Beats()
        if is_new:
            await self._take_lease(own.name)
        else:
            if not self._is_off(node):
                await self._write_status(own.name)
            await self._renew(own.name)
        self._beats[own.name] = Beats.after_registration(now_s, self._period_s, self._share(own.name))
        return True

    def follow(self, nodes: Informer[Node]) -> None:
        """Starts to handle changes of our nodes: deleted, switched off or on, not ready."""
        nodes.add_handler(self._hear)

    def _hear(self, delta: Delta[Node]) -> None:
        name = delta.key
        if name not in self._nodes:
            return
        if delta.new is None:
            self._is_gone(name)
            return
        was_off = self._is_off(self._nodes[name])
        self._nodes[name] = delta.new
        if not self._is_off(delta.new) and (was_off or not is_ready(delta.new)):
            self._beats[name] = Beats()

    def _is_gone(self, name: str) -> None:
        if self._nodes.pop(name, None) is not None:
            log.warning("the node was deleted: it is gone until the next start", extra={"node": name})

    async def keep_alive(self) -> None:
        """Renews leases and writes heartbeats until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._renew_leases(), name="leases")
            tasks.create_task(self._write_statuses(), name="heartbeats")

    async def leases_in_time(self) -> None:
        """Returns once no lease is late."""
        await self._in_time.wait()

    async def _renew_leases(self) -> None:
        while True:
            now_s = self._clock.now()
            due = sorted((beats.lease_s, name) for name, beats in self._alive_beats() if beats.lease_s <= now_s)
            if due and due[0][0] < now_s - LATE_S:
                self._in_time.clear()
            await for_each([name for _, name in due], self._renew, at_once=AT_ONCE)
            self._in_time.set()
            await self._clock.sleep(TICK_S)

    async def _write_statuses(self) -> None:
        while True:
            now_s = self._clock.now()
            due = [name for name, beats in self._alive_beats() if beats.status_s <= now_s]
            await for_each(due, self._beat, at_once=AT_ONCE)
            await self._clock.sleep(TICK_S)

    def _alive_beats(self) -> Iterator[tuple[str, Beats]]:
        return ((name, self._beats[name]) for name in self.alive)

    async def _beat(self, name: str) -> None:
        await self.leases_in_time()
        now_s = self._clock.now()
        self._beats[name] = self._beats[name].reported(now_s)
        try:
            await self._write_status(name)
        except NotFound:
            self._is_gone(name)
        except ApiError as error:
            log.warning("no heartbeat: %s", error, extra={"node": name})
            self._beats[name] = self._beats[name].failed(now_s, self._period_s)

    async def _write_status(self, name: str) -> None:
        node = self._nodes.get(name)
        if node is None:
            return
        status = node_status(self._own[name], node, self._clock.now(), kubelet_port=self._port)
        # Others add resources to a node (batch, mid, devices): a merge leaves theirs alone.
        await self._brief.patch(
            NODES, name, {"status": status}, type="strategic", subresource="status", field_manager=self._field_manager
        )

    async def _renew(self, name: str) -> None:
        now_s = self._clock.now()
        self._beats[name] = self._beats[name].renewed(now_s, self._period_s)
        try:
            await self._brief.patch(
                LEASES, name, renewal(now_s), namespace=NODE_LEASES, field_manager=self._field_manager
            )
        except NotFound:
            await self._take_lease(name)
        except ApiError as error:
            log.warning("lease not renewed: %s", error, extra={"node": name})

    async def _take_lease(self, name: str) -> None:
        node = self._nodes.get(name)
        if node is None:
            return
        lease = lease_object(name, node.metadata.uid, self._clock.now())
        try:
            await self._brief.create(LEASES, lease, field_manager=self._field_manager)
        except AlreadyExists:
            await self._renew(name)
        except ApiError as error:
            log.warning("no lease: %s", error, extra={"node": name})
