"""Large objects are worked on aside: in a thread, one after the other, so that nobody else waits for them.

The interpreter changes between threads every few milliseconds; on the event loop, a body of a few megabytes would hold
up health checks, leases and all other clients for as long as it takes. Small ones are not worth a thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from koord_minicluster.apiserver.bodies import canonical, typed
from koord_minicluster.apiserver.patch.plan import root_plan
from koord_minicluster.apiserver.resource import Resource
from koord_minicluster.apiserver.worker import Worker

HEAVY_BYTES: Final = 32 << 10
"""Of an object or body from which on it is worked on aside: some milliseconds of work."""

T = TypeVar("T")


class Aside:
    """`do` carries out a call that touches nothing but what it is given. `close` it at the end."""

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
            # What is compiled from a schema at its first use must not be met half made by the other thread.
            self._prepared.add(id(resource.schema))
            root_plan(resource.schema)
            if resource.schema.ref:
                typed.prepare(resource.schema)
                canonical.prepare(resource.schema)
        return await self._worker.call(call)
