"""Hands pods over to the next shard if this one has no place for them.

Before the note is written, the pod leaves this scheduler's queue, so it is never decided here and there at once. If it
cannot be written, the pod is queued again in its current form.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from koord.api.kinds import PODS
from koord.api.kubernetes.pod import Pod
from koord.api.protocol import names
from koord.kube.client import Client
from koord.kube.clock import Clock
from koord.kube.election import NotLeader
from koord.kube.errors import ApiError, Conflict, NotFound
from koord.scheduler.core.core import Core
from koord.scheduler.core.decision import Nowhere
from koord.scheduler.shards import Shard
from koord.scheduler.state.stand_ins import is_stand_in

log = logging.getLogger(__name__)

ROUND_S: Final = 60.0
"""A pod that no shard has a place for is handed around again after so long."""
AT_ONCE: Final = 16
MOST_REMEMBERED: Final = 10_000
"""Pods that are back from all shards. The oldest are forgotten, and handed around again."""


class HandingOver:
    def __init__(
        self, client: Client, core: Core, shard: Shard, clock: Clock, pod_of: Callable[[str], Pod | None]
    ) -> None:
        self._client = client.limited(attempts=1)
        self._core, self._shard, self._clock, self._pod_of = core, shard, clock, pod_of
        self._rounds: dict[str, float] = {}
        "By uid, since when a pod is back from all shards."
        self._tasks: set[asyncio.Task[None]] = set()
        self._turns = asyncio.Semaphore(AT_ONCE)

    def start(self, decision: Nowhere) -> bool:
        """Whether the pod is handed over. Jobs stay, and so do pods that get room here."""
        ask = decision.ask
        if decision.attempt.entity.is_job or decision.remedy.helps or is_stand_in(ask.meta.name):
            return False
        now_s = self._clock.monotonic()
        since_s = self._rounds.setdefault(ask.meta.uid, now_s)
        if len(self._rounds) > MOST_REMEMBERED:
            del self._rounds[next(iter(self._rounds))]
        note = self._shard.handed_over(ask.pod, again=now_s - since_s > ROUND_S)
        if note is None:
            return False
        self._rounds.pop(ask.meta.uid, None)
        self._core.hand_over(ask)
        task = asyncio.create_task(self._write(ask.pod, note), name=f"hand over {ask.key}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return True

    async def finish(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _write(self, pod: Pod, note: str) -> None:
        meta = pod.metadata
        annotations = {names.OWN_ANNOTATION_SHARDS: note}
        patch = {"metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version, "annotations": annotations}}
        try:
            async with self._turns:
                await self._client.patch(PODS, meta.name, patch, namespace=meta.namespace)
            return
        except (Conflict, NotFound):
            pass
        except (ApiError, NotLeader, OSError, TimeoutError) as error:
            log.warning("could not hand over a pod, retrying: %s", error, extra={"pod": meta.key})
        # What has changed it, or whether it was handed over after all, informers say.
        current = self._pod_of(meta.key)
        if current is not None:
            self._core.put(PODS, current)
