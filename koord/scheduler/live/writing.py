"""Writes what plugins want on other objects: for each object the newest write, retried until it succeeds.

Writes to one object never overtake each other. Changes that come faster than they can be written become one write. A
pod that asks for notice gets it before its eviction, and stays if the reason is gone before the notice is over.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final, TypeAlias

from koord.api.kinds import PODS
from koord.api.kubernetes.pod import Pod
from koord.api.machinery.codec import DecodeError
from koord.api.machinery.shield import Shield
from koord.api.protocol.eviction_notice import Asker, Go, is_told
from koord.kube.client import Client
from koord.kube.clock import Clock
from koord.kube.election import NotLeader
from koord.kube.errors import ApiError, Conflict, EvictionRefused, NotFound, is_terminating
from koord.kube.retry import backoff_s
from koord.scheduler.framework.writes import Evict, Patch, PodBinding, Write
from koord.scheduler.live.binding import carry_out
from koord.scheduler.live.noticing import COMPONENT, NoticeCallback, Noticing, UnderNotice
from koord.scheduler.live.preempting import PREEMPTED

log = logging.getLogger(__name__)

FIRST_AGAIN_S: Final = 0.2
LONGEST_AGAIN_S: Final = 30.0

_EVICTIONS: Final = "evictions"
_Object: TypeAlias = tuple[str, str, str]


class Writing:
    """All writes in progress, one for each object."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        pod_of: Callable[[str], Pod | None] = lambda key: None,
        under: UnderNotice | None = None,
        on_notice: NoticeCallback = lambda pod, asker, deadline: None,
        evicted: Callable[[Pod, Evict], None] = lambda pod, evict: None,
        written: Callable[[str, float], None] = lambda kind, took_s: None,
        shield: Shield | None = None,
    ) -> None:
        """`pod_of` gives the last known version of a pod. `told` is called for pods that get notice, `evicted` for
        evicted pods, `written` for patches, with their kind and the seconds that they took."""
        self._written = written
        self._client, self._clock, self._pod_of, self._evicted = client, clock, pod_of, evicted
        self._shield = shield or Shield()
        self._noticing = Noticing(client, clock, PREEMPTED.__ne__, under or UnderNotice(), on_notice, self._shield)
        self._noticed: dict[_Object, Evict] = {}
        "Pods that have notice."
        self._wanted: dict[_Object, Write] = {}
        self._tasks: dict[_Object, asyncio.Task[None]] = {}

    def __len__(self) -> int:
        return len(self._tasks)

    def put(self, write: Write) -> None:
        key = _kind(write), write.namespace, write.name
        self._wanted[key] = write
        if key not in self._tasks:
            self._tasks[key] = asyncio.create_task(self._write_all(key), name=f"write {' '.join(key)}")

    def look(self) -> None:
        """Now and then: pods whose notice is over go, and those that need not go any more stay."""
        for key, evict in list(self._noticed.items()):
            pod = self._pod_of(f"{evict.namespace}/{evict.name}")
            with self._shield.about("say whether it has to go", PODS, None if pod is None else pod.metadata):
                if pod is None or pod.metadata.uid != evict.uid or not (evict.stands() or is_told(pod.metadata)):
                    del self._noticed[key]
                elif evict.stands() and self._noticing.is_due(pod, _asker(evict)):
                    del self._noticed[key]
                    self.put(evict)
        self._noticing.let_stay(self._stands)

    def _stands(self, pod: Pod, about: str) -> bool | None:
        meta = pod.metadata
        key = _EVICTIONS, meta.namespace, meta.name
        evict = self._noticed.get(key) or self._wanted.get(key)
        if isinstance(evict, Evict):
            return evict.stands()
        return None if key not in self._tasks else True

    async def _waits(self, key: _Object, write: Write) -> bool:
        """Whether a pod to evict has notice, and stays until the notice is over."""
        pod = self._pod_of(f"{write.namespace}/{write.name}") if isinstance(write, Evict) else None
        if pod is None or not isinstance(write, Evict) or pod.metadata.uid != write.uid:
            return False
        if isinstance(await self._noticing.ask(pod, _asker(write)), Go):
            return False
        self._noticed[key] = write
        return True

    def stop(self) -> None:
        """Drop pending writes: the next leader finds out by itself."""
        self._noticing.finish()
        for task in self._tasks.values():
            task.cancel()

    async def _write_all(self, key: _Object) -> None:
        try:
            await self._write(key)
        finally:
            # Not in a callback, which comes later: a word that is put in between would never be written.
            del self._tasks[key]

    async def _write(self, key: _Object) -> None:
        tries, last_error = 0, ""
        while (write := self._wanted.pop(key, None)) is not None:
            try:
                if not await self._waits(key, write):
                    pod = self._pod_of(f"{write.namespace}/{write.name}") if isinstance(write, Evict) else None
                    began_s = self._clock.monotonic()
                    await carry_out(self._client, write)
                    if isinstance(write, Patch):
                        self._written(write.kind.kind, self._clock.monotonic() - began_s)
                    if isinstance(write, Evict) and pod is not None:
                        self._evicted(pod, write)
            except (NotFound, Conflict, NotLeader, EvictionRefused) as error:
                # The object is gone or was replaced: the informer will say so. A pod that a budget protects stays.
                log.info("%s was not written: %s", " ".join(key), error)
            except (ApiError, DecodeError) as error:
                if isinstance(error, ApiError) and is_terminating(error):
                    # Its namespace is being deleted. The plugin asks again later.
                    log.info("%s was not created: %s", " ".join(key), error)
                    continue
                if last_error != (last_error := str(error)):
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
        return _EVICTIONS
    return f"{write.kind.plural}/{write.subresource if isinstance(write, Patch) else ''}"


def _asker(evict: Evict) -> Asker:
    return Asker(COMPONENT, evict.reason, evict.message, evict.about)
