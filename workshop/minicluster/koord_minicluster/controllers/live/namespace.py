"""The namespace loops: one empties those that go away, the other gives every other its default ServiceAccount."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Final

from koord.api.kinds import NAMESPACES, PODS, SERVICE_ACCOUNTS
from koord.api.kubernetes.core import Namespace, ServiceAccount
from koord.api.machinery.codec import encode
from koord.kube.controller import Controller, Requeue
from koord.kube.discovery import ApiResource
from koord.kube.errors import AlreadyExists, ApiError, Conflict, MethodNotAllowed, NotFound
from koord.kube.store import Delta
from koord.kube.work_queue import Backoff
from koord_minicluster.controllers.live.cluster import Cluster, refused
from koord_minicluster.controllers.live.resources import ServedResources
from koord_minicluster.controllers.namespace import Left, finalized, is_leaving, status
from koord_minicluster.controllers.status_patch import status_change, status_patch

MOST_AT_ONCE: Final = 8
DEFAULT_ACCOUNT: Final = "default"


class NamespaceLoop:
    def __init__(self, cluster: Cluster, served: ServedResources, *, workers: int = 2) -> None:
        self._cluster = cluster
        self._served = served
        self._lean = cluster.client.metadata_only()
        self._namespaces = cluster.view(NAMESPACES)
        self.controller: Controller[str] = Controller(
            "namespace", self._reconcile, workers=workers, timeout_s=300.0, backoff=Backoff(base_s=0.1, cap_s=5.0)
        )
        self.controller.watch(self._namespaces, lambda delta: (delta.key,))

    async def _reconcile(self, name: str) -> Requeue | None:
        namespace = self._namespaces.get(name)
        if namespace is None or not is_leaving(namespace):
            return None
        left = await self._emptied(name)
        try:
            change = status_change(namespace.status, status(namespace, left, self._cluster.clock.now()))
            for patch in status_patch(NAMESPACES, namespace.metadata, change):
                await self._cluster.writer.patch(patch)
            if left.nothing:
                await self._finalize(name)
                return None
        except NotFound:
            return None
        except Conflict:
            pass
        return Requeue()

    async def _emptied(self, name: str) -> Left:
        """Deletes all content, pods before the rest, and returns what is left."""
        resources = [r for r in await self._served.deletable() if r.namespaced]
        if not self._served.is_fresh():
            # A kind that was added a moment ago may have objects too.
            await self._served.refresh()
            resources = [r for r in await self._served.deletable() if r.namespaced]
        counts: Counter[str] = Counter()
        finalizers: Counter[str] = Counter()
        failures: list[str] = []
        slots = asyncio.Semaphore(MOST_AT_ONCE)

        async def empty(resource: ApiResource) -> None:
            async with slots:
                try:
                    await self._empty(resource, name, counts, finalizers)
                except NotFound:
                    # No longer served: then nothing of it is left either.
                    return
                except ApiError as error:
                    failures.append(str(error))

        pods = [r for r in resources if (r.group, r.plural) == ("", PODS.plural)]
        for resource in pods:
            await empty(resource)
        if not counts:
            await asyncio.gather(*(empty(resource) for resource in resources if resource not in pods))
        missing = (await self._served.first_listed()).missing
        return Left(counts, finalizers, tuple(missing), tuple(sorted(failures)))

    async def _empty(
        self, resource: ApiResource, namespace: str, counts: Counter[str], finalizers: Counter[str]
    ) -> None:
        kind = resource.as_kind()
        objects = await self._lean.list(kind, namespace=namespace)
        if not objects:
            return
        if any(item.metadata.deletion_timestamp is None for item in objects):
            try:
                await self._cluster.client.delete_collection(kind, namespace=namespace, propagation="Background")
            except MethodNotAllowed:
                for item in objects:
                    await self._cluster.client.delete(kind, item.metadata.name, namespace=namespace)
            objects = await self._lean.list(kind, namespace=namespace)
        if objects:
            counts[kind.resource] += len(objects)
        for item in objects:
            finalizers.update(item.metadata.finalizers)

    async def _finalize(self, name: str) -> None:
        fresh = await self._cluster.client.get(NAMESPACES, name)
        if not is_leaving(fresh):
            return
        meta = fresh.metadata
        body = {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": name, "uid": meta.uid, "resourceVersion": meta.resource_version},
            "spec": {"finalizers": finalized(fresh)},
        }
        await self._cluster.client.raw("PUT", NAMESPACES.path(name, subresource="finalize"), body=encode(body))


class ServiceAccountLoop:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._namespaces = cluster.view(NAMESPACES)
        self._accounts = cluster.view(SERVICE_ACCOUNTS)
        self.controller: Controller[str] = Controller("service-account", self._reconcile)
        self.controller.watch(self._namespaces, lambda delta: (delta.key,))
        self.controller.watch(self._accounts, self._of_deleted)

    @staticmethod
    def _of_deleted(delta: Delta[ServiceAccount]) -> tuple[str, ...]:
        gone = delta.old if delta.new is None else None
        return (gone.metadata.namespace,) if gone is not None and gone.metadata.name == DEFAULT_ACCOUNT else ()

    async def _reconcile(self, name: str) -> Requeue | None:
        namespace: Namespace | None = self._namespaces.get(name)
        if namespace is None or namespace.metadata.deletion_timestamp is not None:
            return None
        if self._accounts.get(f"{name}/{DEFAULT_ACCOUNT}") is None:
            body = {"metadata": {"name": DEFAULT_ACCOUNT}}
            try:
                await self._cluster.client.create(SERVICE_ACCOUNTS, body, namespace=name)
            except ApiError as error:
                if not isinstance(error, AlreadyExists | NotFound) and not refused(error):
                    raise
        return None
