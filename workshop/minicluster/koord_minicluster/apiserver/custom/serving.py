"""Follows CustomResourceDefinitions: settles their names, serves what they define, and cleans up behind them.

Level-triggered: every event only triggers a look at the current definition. A definition's resources are in the
registry before its status says that it is established, so that clients that wait for the status can use them at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from koord.api.kubernetes.access import MASTERS, UserInfo
from koord_minicluster.apiserver.custom import kinds
from koord_minicluster.apiserver.events import Entry
from koord_minicluster.apiserver.objects import Context, Objects
from koord_minicluster.apiserver.registry import Registry
from koord_minicluster.apiserver.resource import Obj, Resource
from koord_minicluster.apiserver.status import StatusError
from koord_minicluster.apiserver.store import Change, Ended, Subscription

log = logging.getLogger(__name__)

MANAGER: Final = "kube-apiserver"
_LOOK_AGAIN_S: Final = 0.2
_IDLE_S: Final = 60.0
_ORPHAN_NOTHING: Final[Mapping[str, Any]] = {"propagationPolicy": "Background"}


class Definitions:
    """Keeps the registry in step with the stored definitions."""

    def __init__(self, objects: Objects, registry: Registry) -> None:
        resource = registry.find(kinds.GROUP, "v1", "customresourcedefinitions")
        assert resource is not None
        self._objects, self._registry, self._resource = objects, registry, resource
        self._collection = objects.collection(resource)
        self._served: dict[str, list[Resource]] = {}
        self._ending: set[str] = set()
        self._read: dict[str, tuple[Entry, Obj]] = {}

    def load(self) -> None:
        """Serve what is established already. Before the server answers its first request."""
        for crd in self._all():
            self._serve(crd["metadata"]["name"], kinds.resources_of(crd))

    async def run(self) -> None:
        """Follow changes until the server stops."""
        names = [crd["metadata"]["name"] for crd in self._all()]
        events, subscription = await self._collection.watch(self._objects.store.revision, _every)
        try:
            for name in [*names, *(event.entry.key for event in events)]:
                await self._look(name)
            while True:
                await self._follow(subscription)
        except Ended:
            return
        finally:
            subscription.close()

    async def _follow(self, subscription: Subscription) -> None:
        for event in await subscription.batch(_LOOK_AGAIN_S if self._ending else _IDLE_S):
            if event.type == "DELETED":
                self._ending.discard(event.entry.key)
                self._serve(event.entry.key, [])
                # Names that it held are free for others.
                for crd in self._all():
                    await self._look(crd["metadata"]["name"])
            else:
                await self._look(event.entry.key)
        for name in list(self._ending):
            await self._look(name)

    async def _look(self, name: str) -> None:
        entry = self._collection.head(name)
        if entry is None:
            self._serve(name, [])
            return
        crd: Obj = msgspec.json.decode(entry.value)
        try:
            if crd["metadata"].get("deletionTimestamp"):
                await self._end(crd)
            else:
                await self._settle(crd)
        except StatusError as error:
            if error.code not in (404, 409):
                log.warning("cannot settle a definition", extra={"crd": name, "error": error.message})

    async def _settle(self, crd: Obj) -> None:
        name = crd["metadata"]["name"]
        others = [other for other in self._all() if other["metadata"]["name"] != name]
        changed = kinds.settled(crd, others, self._objects.now())
        self._serve(name, kinds.resources_of(changed or crd))
        if changed is not None:
            await self._write_status(crd, changed["status"])

    async def _end(self, crd: Obj) -> None:
        """Remove a definition's objects, then remove its finalizer."""
        name = crd["metadata"]["name"]
        if kinds.CLEANUP_FINALIZER not in (crd["metadata"].get("finalizers") or ()):
            return
        resources = kinds.resources_of(crd)
        self._serve(name, resources)
        if name not in self._ending:
            self._ending.add(name)
            text = ("InstanceDeletionInProgress", "CustomResource deletion is in progress")
            await self._write_status(crd, self._terminating(crd, "True", *text))
        if resources and await self._remove_objects(resources[0]):
            return
        done = ("InstanceDeletionCompleted", "removed all instances")
        never = ("NeverEstablished", "resource was never established")
        status = self._terminating(crd, "False", *(done if resources else never))
        self._ending.discard(name)
        self._serve(name, [])
        await self._objects.rewrite(self._resource, "", name, lambda live: _released(live, status), _context())

    async def _remove_objects(self, resource: Resource) -> int:
        """Delete all objects of a resource; how many are still there, waiting for finalizers."""
        collection = self._objects.collection(resource)
        for entry in collection.entries():
            if not entry.index.deleting:
                namespace, _, name = entry.key.rpartition("/")
                try:
                    await self._objects.delete(resource, namespace, name, _ORPHAN_NOTHING, _context())
                except StatusError as error:
                    if error.code != 404:
                        raise
            await asyncio.sleep(0)
        return len(collection)

    async def _write_status(self, crd: Obj, status: Obj) -> None:
        name, rev = crd["metadata"]["name"], crd["metadata"]["resourceVersion"]

        def change(live: Obj) -> Obj:
            # The status is for the version that was read; a newer version gets its own reconciliation.
            return {**live, "metadata": {**live["metadata"], "resourceVersion": rev}, "status": status}

        await self._objects.update(self._resource, "", name, change, _context(), subresource="status")

    def _terminating(self, crd: Obj, status: str, reason: str, message: str) -> Obj:
        was = crd.get("status") or {}
        now = self._objects.now()
        conditions = kinds.with_condition(was.get("conditions") or (), "Terminating", status, reason, message, now)
        return {**was, "conditions": conditions}

    def _all(self) -> list[Obj]:
        """Every definition, to be read only: each is decoded once, since each that settles looks at all the others."""
        kept, self._read = self._read, {}
        for entry in self._collection.entries():
            kept_definition = kept.get(entry.key)
            current = kept_definition is not None and kept_definition[0] is entry
            self._read[entry.key] = (
                kept_definition if kept_definition and current else (entry, msgspec.json.decode(entry.value))
            )
        return [definition for _, definition in self._read.values()]

    def _serve(self, name: str, resources: list[Resource]) -> None:
        """Put a definition's resources into the registry in place of those it had there."""
        former = self._served.get(name, [])
        kept = {(resource.group, resource.version, resource.plural) for resource in resources}
        for resource in former:
            if (resource.group, resource.version, resource.plural) not in kept:
                self._registry.remove(resource.group, resource.version, resource.plural)
        for resource in resources:
            self._registry.add(resource)
        if resources:
            self._served[name] = resources
        else:
            self._served.pop(name, None)


def _released(crd: Obj, status: Obj) -> Obj:
    meta = dict(crd["metadata"])
    left = [finalizer for finalizer in meta.get("finalizers") or () if finalizer != kinds.CLEANUP_FINALIZER]
    meta.pop("finalizers", None)
    if left:
        meta["finalizers"] = left
    return {**crd, "metadata": meta, "status": status}


def _context() -> Context:
    return Context(UserInfo("system:apiserver", groups=(MASTERS,)), MANAGER)


def _every(_event: Change) -> bool:
    return True
