"""An up-to-date list of the kinds that the server serves: garbage collection and namespaces need all of them.

The list is refreshed every `REFRESH_S`, and soon after a CustomResourceDefinition has changed. If a group's own server
does not answer, the list keeps the last known kinds of the group.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

from koord.api.kinds import CUSTOM_RESOURCE_DEFINITIONS
from koord.api.machinery.codec import DecodeError
from koord.kube.discovery import ApiResource, Resources
from koord.kube.errors import ApiError
from koord.kube.store import Delta
from koord_minicluster.controllers.live.cluster import Cluster

log = logging.getLogger(__name__)

REFRESH_S: Final = 30.0
SOON_S: Final = 0.2
FRESH_S: Final = 2.0


class ServedResources:
    """The newest answer. `run` keeps it so; `add_handler` hears of every change."""

    def __init__(self, cluster: Cluster) -> None:
        self._client = cluster.client
        self._clock = cluster.clock
        self._known = Resources(())
        self._handlers: list[Callable[[], None]] = []
        self._asked = asyncio.Event()
        self._asked_at: float | None = None
        self._first = asyncio.Event()
        definitions = cluster.view(CUSTOM_RESOURCE_DEFINITIONS)
        definitions.add_handler(self._definition_changed)

    def _definition_changed(self, delta: Delta[Any]) -> None:
        self._asked.set()

    def ask(self) -> None:
        """Ask again soon: something is there that should not be."""
        self._asked.set()

    def add_handler(self, handler: Callable[[], None]) -> None:
        self._handlers.append(handler)
        if self._first.is_set():
            handler()

    async def first_listed(self) -> Resources:
        await self._first.wait()
        return self._known

    def find(self, api_version: str, kind: str) -> ApiResource | None:
        """In any version of its group: an object is the same one in all of them."""
        group = api_version.rpartition("/")[0]
        return self._known.find(group, kind)

    def is_fresh(self) -> bool:
        """Whether the answer is from the last few seconds."""
        return self._asked_at is not None and self._clock.monotonic() - self._asked_at < FRESH_S

    async def deletable(self) -> list[ApiResource]:
        """Each resource that can be listed and deleted, in the version that the server prefers."""
        return preferred(await self.first_listed())

    async def refresh(self) -> None:
        """Ask now. A failure leaves what is known."""
        try:
            resources = await self._client.resources()
        except (ApiError, DecodeError, OSError) as error:
            log.warning("cannot tell which resources the server has: %s", error)
            return
        self._asked_at = self._clock.monotonic()
        lost = set(resources.missing)
        kept = [r for r in self._known.all if f"{r.group}/{r.version}" in lost and r not in resources.all]
        new = Resources((*resources.all, *kept), resources.missing)
        changed = new != self._known
        self._known = new
        self._first.set()
        if changed:
            for handler in self._handlers:
                handler()

    async def run(self) -> None:
        while True:
            self._asked.clear()
            await self.refresh()
            try:
                async with asyncio.timeout(REFRESH_S if self._first.is_set() else 1.0):
                    await self._asked.wait()
                # A definition is served a moment after it was written, and definitions come in crowds.
                await self._clock.sleep(SOON_S)
            except TimeoutError:
                pass


def preferred(resources: Resources) -> list[ApiResource]:
    """One version of each resource that can be listed, watched and deleted; of the two names of events the older."""
    by_kind: dict[tuple[str, str], ApiResource] = {}
    for resource in resources.all:
        if {"list", "watch", "delete"} <= set(resource.verbs):
            by_kind.setdefault((resource.group, resource.plural), resource)
    by_kind.pop(("events.k8s.io", "events"), None)
    return list(by_kind.values())
