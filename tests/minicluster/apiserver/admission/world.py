"""A store with what admission looks at, and an `Admission` on it, without a server around them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec

from koord.api.kubernetes.access import UserInfo
from koord_minicluster.apiserver.access.bootstrap import roles_and_bindings
from koord_minicluster.apiserver.access.rbac import Authorizer
from koord_minicluster.apiserver.admission import Admission, Attributes
from koord_minicluster.apiserver.admission.webhook_rules import ServiceRef
from koord_minicluster.apiserver.builtin.resources import builtin_resources
from koord_minicluster.apiserver.registry import Registry
from koord_minicluster.apiserver.resource import Obj, Resource
from koord_minicluster.apiserver.store import Collection, Index, Store

ADMIN = UserInfo("root", groups=("system:masters",))


class World:
    def __init__(self, store: Store, services: dict[str, tuple[str, int]]) -> None:
        self.store, self._services = store, services
        self.registry = Registry(builtin_resources())
        self.authorizer = Authorizer()
        for obj in roles_and_bindings():
            self.authorizer.put(obj["kind"], obj)
        self.admission = Admission(
            self.collection, self.registry, self.authorizer, lambda _resource, _obj: None, self._resolve
        )

    def collection(self, name: str) -> Collection:
        return self.store.collection(name, _index)

    async def put(self, collection: str, obj: Obj) -> None:
        name = obj["metadata"]["name"]
        held = self.collection(collection)
        before = held.head(name)
        await held.put(name, before.rev if before else 0, lambda _rev: msgspec.json.encode(obj), _index_of(obj))

    async def remove(self, collection: str, name: str) -> None:
        held = self.collection(collection)
        before = held.head(name)
        assert before is not None
        await held.delete(name, before.rev, lambda _rev: before.value)

    def resource(self, plural: str, group: str = "") -> Resource:
        return next(resource for resource in self.registry if (resource.group, resource.plural) == (group, plural))

    def write(self, operation: str, plural: str, obj: Obj | None, **more: Any) -> Attributes:
        """The attributes of a write; `old`, `user`, `group`, `namespace`, `dry_run`, `subresource` as wanted."""
        resource = self.resource(plural, more.pop("group", ""))
        old = more.pop("old", None)
        meta = (obj or old or {}).get("metadata", {})
        return Attributes(
            operation=operation,
            resource=resource,
            subresource=more.pop("subresource", ""),
            namespace=more.pop("namespace", "default" if resource.namespaced else ""),
            name=meta.get("name", ""),
            obj=obj,
            old=old,
            user=more.pop("user", ADMIN),
            **more,
        )

    def _resolve(self, service: ServiceRef) -> tuple[str, int]:
        found = self._services.get(service.name)
        if found is None:
            raise LookupError(f'service "{service.name}" not found')
        return found


@contextlib.asynccontextmanager
async def opened(directory: Path, services: dict[str, tuple[str, int]] | None = None) -> AsyncIterator[World]:
    store = await Store.open(directory, "fast")
    writer = asyncio.create_task(store.run())
    world = World(store, services if services is not None else {})
    try:
        for name in ("default", "kube-system"):
            await world.put("namespaces", namespace(name))
        yield world
    finally:
        await world.admission.close()
        writer.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await writer
        store.close()


def namespace(name: str, phase: str = "Active", **labels: str) -> Obj:
    meta = {"name": name, "uid": name, "labels": {"kubernetes.io/metadata.name": name, **labels}}
    return {"kind": "Namespace", "apiVersion": "v1", "metadata": meta, "status": {"phase": phase}}


def pod(name: str = "p", **spec: Any) -> Obj:
    meta = {"name": name, "namespace": "default"}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": meta, "spec": {"containers": [], **spec}}


def config_map(name: str = "c", labels: dict[str, str] | None = None, **data: str) -> Obj:
    meta: Obj = {"name": name, "namespace": "default", **({"labels": labels} if labels else {})}
    return {"kind": "ConfigMap", "apiVersion": "v1", "metadata": meta, **({"data": data} if data else {})}


def _index_of(obj: Obj) -> Index:
    return Index({}, {}, obj["metadata"].get("uid", ""))


def _index(value: bytes) -> Index:
    return _index_of(msgspec.json.decode(value))
