"""The garbage collection loop: follows the metadata of every object that the server has."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

import msgspec

from koord.api.kinds import Kind
from koord.api.kubernetes.meta import ObjectReference, OwnerReference
from koord.api.machinery.codec import decode
from koord.api.machinery.struct import Struct
from koord.kube.controller import Controller, Requeue
from koord.kube.discovery import ApiResource
from koord.kube.errors import Conflict, NotFound
from koord.kube.informer import Informer
from koord.kube.store import Delta
from koord.kube.work_queue import Backoff
from koord_minicluster.controllers.garbage import FOREGROUND, Ask, Graph, Item, Standing
from koord_minicluster.controllers.live.cluster import Cluster
from koord_minicluster.controllers.live.resources import ServedResources

log = logging.getLogger(__name__)

SYNC_WITHIN_S: Final = 15.0
"""How long all of it waits for a kind that cannot be listed."""
UNKNOWN_AGAIN_S: Final = 30.0
IGNORED: Final = frozenset({("", "events")})
"""What owns nothing, has no owner, and is most of what a cluster writes."""


class PartialMeta(Struct):
    """The metadata that decides ownership; any further field would cost memory for every object."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    deletion_timestamp: str | None = None
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class Partial(Struct):
    metadata: PartialMeta = PartialMeta()


def partial(raw: msgspec.Raw) -> Partial:
    return decode(Partial, memoryview(raw))


class GarbageLoop:
    """`run` follows the resources, `controller` decides."""

    def __init__(self, cluster: Cluster, served: ServedResources, *, workers: int = 8) -> None:
        self._cluster = cluster
        self._served = served
        self._lean = cluster.client.metadata_only()
        self.graph = Graph()
        self._monitors: dict[tuple[str, str], tuple[Informer[Any], asyncio.Task[None] | None]] = {}
        self._changed = asyncio.Event()
        self._steady = asyncio.Event()
        self._unknowable: set[str] = set()
        "Objects with an owner of a kind that was not known when they were looked at."
        self.controller: Controller[str] = Controller(
            "garbage", self._reconcile, workers=workers, backoff=Backoff(base_s=0.02, cap_s=60.0, rate_per_s=200.0)
        )
        served.add_handler(self._served_changed)

    def _served_changed(self) -> None:
        self._changed.set()
        waiting, self._unknowable = self._unknowable, set()
        self._look(list(waiting))

    async def run(self) -> None:
        """Starts watching new resources, and stops watching resources that the server no longer serves."""
        try:
            async with asyncio.TaskGroup() as tasks:
                while True:
                    self._changed.clear()
                    wanted = {(r.group, r.plural): r for r in await self._served.deletable()}
                    for place in [place for place in self._monitors if place not in wanted]:
                        self._forget(place)
                    new = [r for place, r in wanted.items() if place not in self._monitors and place not in IGNORED]
                    if new:
                        self._steady.clear()
                        for resource in new:
                            self._follow(resource, tasks)
                    await self._all_synced()
                    self._steady.set()
                    await self._changed.wait()
        finally:
            self._steady.clear()

    def _follow(self, resource: ApiResource, tasks: asyncio.TaskGroup) -> None:
        kind: Kind[Any] = resource.as_kind()
        view = self._cluster.followed(resource.group, resource.plural)
        task: asyncio.Task[None] | None = None
        if view is not None:
            informer: Informer[Any] = view.informer
        else:
            informer = Informer(self._lean, kind, transform=partial, clock=self._cluster.clock)
            task = tasks.create_task(informer.run(), name=f"garbage/{kind.resource}")
        informer.add_handler(lambda delta: self._heard(kind, delta))
        self._monitors[resource.group, resource.plural] = (informer, task)

    def _forget(self, place: tuple[str, str]) -> None:
        informer, task = self._monitors.pop(place)
        if task is not None:
            task.cancel()
        for record in informer.list():
            self._look(self.graph.remove(record.metadata.uid))

    async def _all_synced(self) -> None:
        try:
            async with asyncio.timeout(SYNC_WITHIN_S):
                for informer, _ in list(self._monitors.values()):
                    await informer.synced()
        except TimeoutError:
            late = [str(informer) for informer, _ in self._monitors.values() if not informer.has_synced]
            log.warning("garbage collection goes on without a picture of %s", ", ".join(late))

    def _heard(self, kind: Kind[Any], delta: Delta[Any]) -> None:
        if delta.new is None:
            self._look(self.graph.remove(delta.old.metadata.uid) if delta.old is not None else [])
        else:
            self._look(self.graph.put(kind, delta.new.metadata))

    def _look(self, uids: list[str]) -> None:
        for uid in uids:
            self.controller.add(uid)

    async def _reconcile(self, uid: str) -> Requeue | None:
        await self._steady.wait()
        answers: dict[str, Standing] = {}
        decision = self.graph.decide(uid, answers)
        while isinstance(decision, Ask):
            for ref in decision.owners:
                answers[ref.uid] = await self._look_for(decision.item, ref)
                if answers[ref.uid] == "absent":
                    self.graph.found_absent(decision.item, ref)
            decision = self.graph.decide(uid, answers)
        item = self.graph.get(uid)
        if item is None:
            return None
        try:
            await self._cluster.writer.carry_out(decision, _about(item))
        except (NotFound, Conflict):
            # The object differs from the graph: its event is on the way.
            return Requeue()
        if "unknowable" not in answers.values():
            return None
        self._unknowable.add(uid)
        return Requeue(UNKNOWN_AGAIN_S)

    async def _look_for(self, item: Item, ref: OwnerReference) -> Standing:
        resource = self._served.find(ref.api_version, ref.kind)
        if resource is None:
            self._served.ask()
            return "unknowable"
        if resource.namespaced and not item.namespace:
            # A cluster-scoped object cannot have a namespaced owner, but this mistake must not delete the object.
            return "unknowable"
        try:
            owner = await self._lean.get(resource.as_kind(), ref.name, namespace=item.namespace)
        except NotFound:
            return "absent"
        if owner.metadata.uid != ref.uid:
            return "absent"
        waits = owner.metadata.deletion_timestamp is not None and FOREGROUND in owner.metadata.finalizers
        return "waiting" if waits else "solid"


def _about(item: Item) -> ObjectReference:
    return ObjectReference(item.kind.api_version, item.kind.kind, item.namespace, item.name, item.uid)
