"""A cluster as an installation sees it: objects as plain data, by key."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, TypeVar, Unpack

import msgspec

from koord.api.kinds import Kind
from koord.kube.client import Client, ListOptions
from koord.kube.errors import ApiError, NotFound
from koord.operate.install.kinds import kind_of
from koord.operate.install.manifest import FIELD_MANAGER, Json, Key, key_of

AT_ONCE: Final = 16
T = TypeVar("T")
R = TypeVar("R")


class Cluster:
    def __init__(self, client: Client) -> None:
        self.client = client

    async def get(self, key: Key) -> Json | None:
        try:
            body = await self.client.get_bytes(kind_of(key), key.name, namespace=key.namespace)
        except NotFound:
            return None
        manifest: Json = msgspec.json.decode(body)
        return manifest

    async def live(self, keys: Iterable[Key]) -> dict[Key, Json]:
        """The objects that exist, by key."""
        listed = list(keys)
        manifests = await each_of(listed, self.get)
        return {key: manifest for key, manifest in zip(listed, manifests, strict=True) if manifest is not None}

    async def apply(self, manifest: Json, *, dry_run: bool = False) -> Json:
        """Applies the manifest as koord's field manager. Takes over conflicting fields of others: the plan decided that
        the object is koord's."""
        key = key_of(manifest)
        kind = kind_of(key)
        query = {"fieldManager": FIELD_MANAGER, "force": "true", **({"dryRun": "All"} if dry_run else {})}
        path = kind.path(key.name, namespace=key.namespace)
        body = msgspec.json.encode(manifest)
        _, _, answer = await self.client.raw("PATCH", path, query, body, "application/apply-patch+yaml")
        applied: Json = msgspec.json.decode(answer)
        return applied

    async def patch(self, key: Key, patch: Json, subresource: str = "") -> None:
        """Applies a strategic merge patch to an object of others."""
        await self.client.patch(
            kind_of(key),
            key.name,
            patch,
            namespace=key.namespace,
            type="strategic",
            subresource=subresource,
            field_manager=FIELD_MANAGER,
        )

    async def delete(self, key: Key, **options: Any) -> bool:
        """Returns whether the object existed."""
        try:
            await self.client.delete(kind_of(key), key.name, namespace=key.namespace, **options)
        except NotFound:
            return False
        return True

    async def groups(self) -> frozenset[str]:
        """The API groups of the server. Every authenticated user may list them."""
        _, _, answer = await self.client.raw("GET", "/apis")
        listed = said(msgspec.json.decode(answer), "groups")
        return frozenset(str(group["name"]) for group in listed) if isinstance(listed, list) else frozenset()

    async def all_of(self, kind: Kind[Any], **options: Unpack[ListOptions]) -> AsyncIterator[Json]:
        """The objects of a kind; none if the kind is not served."""
        try:
            async for page in self.client.list_pages(kind, **options):
                for item in page.items:
                    manifest: Json = msgspec.json.decode(item)
                    manifest["apiVersion"], manifest["kind"] = kind.api_version, kind.kind
                    yield manifest
        except NotFound:
            return


async def each_of(things: Iterable[T], do: Callable[[T], Awaitable[R]]) -> list[R]:
    """Runs `do` for a few things at a time. Returns the results in the order of the things."""
    slots = asyncio.Semaphore(AT_ONCE)

    async def one(thing: T) -> R:
        async with slots:
            return await do(thing)

    try:
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(one(thing)) for thing in things]
    except BaseExceptionGroup as failures:
        for failure in failures.exceptions:
            if isinstance(failure, ApiError):
                raise failure from None
        raise
    return [task.result() for task in running]


def said(manifest: Mapping[str, object], *path: str) -> object:
    """A field, or None."""
    value: object = manifest
    for part in path:
        value = value.get(part) if isinstance(value, Mapping) else None
    return value
