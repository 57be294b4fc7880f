"""Writes what plugins want other objects to say: of each object the newest word, again and again until it is written.

Words about one object never overtake each other. What changes faster than it can be written is one write.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final, TypeAlias

from koord.api.machinery.codec import DecodeError
from koord.kube.client import Client
from koord.kube.clock import Clock
from koord.kube.election import NotLeader
from koord.kube.errors import ApiError, Conflict, EvictionRefused, NotFound
from koord.kube.retry import backoff_s
from koord.scheduler.framework.writes import Evict, Patch, PodBinding, Write
from koord.scheduler.live.binding import carry_out

log = logging.getLogger(__name__)

FIRST_AGAIN_S: Final = 0.2
LONGEST_AGAIN_S: Final = 30.0

_Object: TypeAlias = tuple[str, str, str]


class Writing:
    """All writes under way, one for each object."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client, self._clock = client, clock
        self._wanted: dict[_Object, Write] = {}
        self._tasks: dict[_Object, asyncio.Task[None]] = {}

    def __len__(self) -> int:
        return len(self._tasks)

    def put(self, write: Write) -> None:
        key = _kind(write), write.namespace, write.name
        self._wanted[key] = write
        if key not in self._tasks:
            task = self._tasks[key] = asyncio.create_task(self._write(key), name=f"write {' '.join(key)}")
            task.add_done_callback(lambda _: self._tasks.pop(key, None))

    def stop(self) -> None:
        """What is not written yet is left: whoever decides next finds out by itself."""
        for task in self._tasks.values():
            task.cancel()

    async def _write(self, key: _Object) -> None:
        tries, told = 0, ""
        while (write := self._wanted.pop(key, None)) is not None:
            try:
                await carry_out(self._client, write)
            except (NotFound, Conflict, NotLeader, EvictionRefused) as error:
                # It is gone, or another one of its name is there, of which we hear. Whom a budget protects stays.
                log.info("%s was not written: %s", " ".join(key), error)
            except (ApiError, DecodeError) as error:
                if told != (told := str(error)):
                    log.warning("%s was not written, retrying: %s", " ".join(key), error)
                tries += 1
                self._wanted.setdefault(key, write)
                await self._clock.sleep(backoff_s(tries, " ".join(key), base_s=FIRST_AGAIN_S, cap_s=LONGEST_AGAIN_S))
            else:
                tries = 0


def _kind(write: Write) -> str:
    if isinstance(write, PodBinding):
        return "bindings"
    if isinstance(write, Evict):
        return "evictions"
    return f"{write.kind.plural}/{write.subresource if isinstance(write, Patch) else ''}"
