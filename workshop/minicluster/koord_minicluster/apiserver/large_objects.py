"""A thread that works on large objects, one after the other, so that other requests do not wait for them.

The interpreter changes between threads every few milliseconds; on the event loop, a body of a few megabytes would hold
up health checks, leases and all other clients for as long as it takes. Small bodies are not worth a thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from koord_minicluster.apiserver.bodies import canonical, typed
from koord_minicluster.apiserver.patch.plan import root_plan
from koord_minicluster.apiserver.resource import Resource
from koord_minicluster.apiserver.worker import Worker

HEAVY_BYTES: Final = 32 << 10
"""Objects and bodies of at least this size go to the thread: they take some milliseconds."""

T = TypeVar("T")


class LargeObjectWorker:
    """`do` runs a call in the thread; the call must touch only its own arguments. Call `close` at the end."""

    def __init__(self) -> None:
        self._worker: Worker | None = None
        self._prepared: set[int] = set()

    def close(self) -> None:
        if self._worker is not None:
            self._worker.close()

    async def do(self, resource: Resource, call: Callable[[], T]) -> T:
        if self._worker is None:
            self._worker = Worker("large-objects")
        if id(resource.schema) not in self._prepared:
            # Compile the schema before its first use: the thread must not see a half-compiled schema.
            self._prepared.add(id(resource.schema))
            root_plan(resource.schema)
            if resource.schema.ref:
                typed.prepare(resource.schema)
                canonical.prepare(resource.schema)
        return await self._worker.call(call)
