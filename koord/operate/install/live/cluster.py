"""A cluster as an installation sees it: objects as plain data, by key."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

import msgspec

from koord.api.kinds import Kind
from koord.kube.client import Client
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
        found: Json = msgspec.json.decode(body)
        return found

    async def live(self, keys: Iterable[Key]) -> dict[Key, Json]:
        """Those of them that exist."""
        listed = list(keys)
        found = await each_of(listed, self.get)
        return {key: manifest for key, manifest in zip(listed, found, strict=True) if manifest is not None}

    async def apply(self, manifest: Json, *, dry_run: bool = False) -> Json:
        """As koord's own part of the object. Fields of others that stand in the way are taken over: the plan decided
        that the object is koord's."""
        key = key_of(manifest)
        kind = kind_of(key)
        query = {"fieldManager": FIELD_MANAGER, "force": "true", **({"dryRun": "All"} if dry_run else {})}
        path = kind.path(key.name, namespace=key.namespace)
        body = msgspec.json.encode(manifest)
        _, _, answer = await self.client.raw("PATCH", path, query, body, "application/apply-patch+yaml")
        found: Json = msgspec.json.decode(answer)
        return found

    async def patch(self, key: Key, patch: Json, subresource: str = "") -> None:
        """A strategic merge patch of what is others'."""
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
        """Whether it was there."""
        try:
            await self.client.delete(kind_of(key), key.name, namespace=key.namespace, **options)
        except NotFound:
            return False
        return True

    async def groups(self) -> frozenset[str]:
        """The API groups that are served; whoever may log in may ask."""
        _, _, answer = await self.client.raw("GET", "/apis")
        listed = said(msgspec.json.decode(answer), "groups")
        return frozenset(str(each["name"]) for each in listed) if isinstance(listed, list) else frozenset()

    async def all_of(self, kind: Kind[Any], **selection: str) -> AsyncIterator[Json]:
        """The objects of a kind; none where the kind is not served."""
        try:
            async for page in self.client.list_pages(kind, **selection):  # type: ignore[arg-type]  # only selectors
                for item in page.items:
                    found: Json = msgspec.json.decode(item)
                    found["apiVersion"], found["kind"] = kind.api_version, kind.kind
                    yield found
        except NotFound:
            return


async def each_of(things: Iterable[T], do: Callable[[T], Awaitable[R]]) -> list[R]:
    """A few at a time; what they return, in the order of the things."""
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
    return [each.result() for each in running]


def said(manifest: Mapping[str, object], *path: str) -> object:
    """A field, or None."""
    found: object = manifest
    for each in path:
        found = found.get(each) if isinstance(found, Mapping) else None
    return found
