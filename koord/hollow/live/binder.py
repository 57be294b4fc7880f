"""Binds pending pods to nodes, first fit: the shell around `koord.hollow.binder`.

A pod that fits nowhere is told so by its PodScheduled condition, and tried again when a node or a pod makes room.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from koord.api.kinds import PODS
from koord.api.node import Node
from koord.api.pod import Pod
from koord.api.selector import SelectorError
from koord.api.timestamp import from_seconds
from koord.api.words import PodConditionType
from koord.hollow.binder import Placement, Rooms, is_pending, order, request_of
from koord.hollow.live.parallel import for_each
from koord.kube.client import Client
from koord.kube.clock import Clock
from koord.kube.errors import ApiError, Conflict, NotFound
from koord.kube.informer import Informer
from koord.kube.store import Delta

log = logging.getLogger(__name__)

AT_ONCE: Final = 16
GATHER_S: Final = 0.05
"""Between two rounds: what comes meanwhile goes together."""
RETRY_S: Final = 5.0
FIELD_MANAGER: Final = "koord-binder"


class Binder:
    def __init__(self, client: Client, pods: Informer[Pod], nodes: Informer[Node], *, clock: Clock) -> None:
        self._client, self._pods, self._nodes, self._clock = client, pods, nodes, clock
        self._rooms = Rooms()
        self._pending: dict[str, Pod] = {}
        self._placed: dict[str, str] = {}
        self._work = asyncio.Event()
        nodes.add_handler(self._hear_node)
        pods.add_handler(self._hear_pod)

    def _hear_node(self, delta: Delta[Node]) -> None:
        if delta.new is None:
            self._rooms.drop_node(delta.key)
            return
        self._rooms.put_node(delta.new)
        old, new = delta.old, delta.new
        if old is None or (old.spec, old.metadata.labels, old.status.allocatable) != (
            new.spec,
            new.metadata.labels,
            new.status.allocatable,
        ):
            self._work.set()

    def _hear_pod(self, delta: Delta[Pod]) -> None:
        key, old, new = delta.key, delta.old, delta.new
        if new is not None and is_pending(new):
            self._pending[key] = new
            if old is None or not is_pending(old) or old.spec != new.spec:
                self._work.set()
            return
        self._pending.pop(key, None)
        self._placed.pop(key, None)
        if new is not None:
            self._rooms.put_pod(new)
        else:
            self._rooms.drop_pod(key)
        if new is None or new.is_finished:
            self._work.set()

    async def run(self) -> None:
        """Binds until cancelled."""
        await self._nodes.synced()
        await self._pods.synced()
        while True:
            await self._work.wait()
            self._work.clear()
            await self._round()
            await self._clock.sleep(GATHER_S)

    async def _round(self) -> None:
        waiting = sorted((pod for key, pod in self._pending.items() if key not in self._placed), key=order)
        decided: list[tuple[Pod, Placement]] = []
        for pod in waiting:
            placement = self._decide(pod)
            if placement.node is not None:
                self._rooms.take(pod.metadata.key, placement.node, request_of(pod))
                self._placed[pod.metadata.key] = placement.node
            decided.append((pod, placement))
        await for_each(decided, self._carry_out, at_once=AT_ONCE)

    def _decide(self, pod: Pod) -> Placement:
        try:
            return self._rooms.place(pod)
        except SelectorError as error:
            return Placement(None, f"the pod's node affinity cannot be understood: {error}")

    async def _carry_out(self, decided: tuple[Pod, Placement]) -> None:
        pod, placement = decided
        key = pod.metadata.key
        try:
            if placement.node is None:
                await self._tell(pod, placement.reason)
                return
            await self._client.bind(pod.metadata.namespace, pod.metadata.name, placement.node, uid=pod.metadata.uid)
        except (NotFound, Conflict) as error:
            log.debug("not bound: %s", error, extra={"pod": key})
            self._undo(key)
        except ApiError as error:
            log.warning("not bound: %s", error, extra={"pod": key})
            self._undo(key)
            asyncio.get_running_loop().call_later(RETRY_S, self._work.set)

    def _undo(self, key: str) -> None:
        if self._placed.pop(key, None) is not None:
            self._rooms.drop_pod(key)

    async def _tell(self, pod: Pod, reason: str) -> None:
        was = pod.status.condition(PodConditionType.SCHEDULED)
        if was is not None and was.message == reason:
            return
        since = was.last_transition_time if was is not None and was.status == "False" else None
        condition = {
            "type": PodConditionType.SCHEDULED,
            "status": "False",
            "reason": "Unschedulable",
            "message": reason,
            "lastTransitionTime": since or from_seconds(self._clock.now()),
        }
        await self._client.patch(
            PODS,
            pod.metadata.name,
            {"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": [condition]}},
            namespace=pod.metadata.namespace,
            type="strategic",
            subresource="status",
            field_manager=FIELD_MANAGER,
        )
