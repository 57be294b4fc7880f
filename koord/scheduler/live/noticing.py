"""Pods that the scheduler wants to evict and that get notice first: it asks, waits, or lets them stay after all.

Preemption and revoke ask here before they end a pod. The notice is written on the pod, so a scheduler that restarts
finds it there: it keeps waiting if it finds the reason again, and withdraws the notice if it does not.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Final

from koord.api.kinds import PODS
from koord.api.kubernetes.pod import Pod
from koord.api.machinery.codec import DecodeError
from koord.api.machinery.shield import Shield
from koord.api.protocol.annotations.notice import EVICTION_ASKED_BY
from koord.api.protocol.eviction_notice import Asker, Go, Tell, Verdict, Wait, concerns, decide, is_told
from koord.api.text.timestamp import from_seconds
from koord.kube.client import Client
from koord.kube.clock import Clock
from koord.kube.election import NotLeader
from koord.kube.errors import ApiError
from koord.kube.eviction_notice import ask, withdraw
from koord.kube.store import Delta

log = logging.getLogger(__name__)

COMPONENT: Final = "koord-scheduler"
FOUND_AGAIN_S: Final = 300.0
"""Seconds after a start during which the reason of a notice may be unknown: it has not been found again yet."""
LOST_S: Final = 30.0
"""Seconds for which a known reason may be missing: the pod that needs the room is being decided."""

NoticeCallback = Callable[[Pod, Asker, str], None]


class UnderNotice:
    """The pods that have notice, as informers know them. All other pods cost one look at their annotations."""

    def __init__(self) -> None:
        self._pods: dict[str, Pod] = {}

    def hear(self, delta: Delta[Pod]) -> None:
        new = delta.new
        if new is not None and is_told(new.metadata):
            self._pods[new.metadata.key] = new
        elif self._pods and (gone := new or delta.old) is not None:
            self._pods.pop(gone.metadata.key, None)

    def __iter__(self) -> Iterator[Pod]:
        return iter(list(self._pods.values()))


class Noticing:
    """Asks pods to go. `owns` says which reasons are its own; `told` is called for each pod that gets notice for the
    first time."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        owns: Callable[[str], bool],
        under: UnderNotice,
        on_notice: NoticeCallback,
        shield: Shield,
    ) -> None:
        self._client, self._clock, self._owns, self._under, self._told = client, clock, owns, under, on_notice
        self._shield = shield
        self._began_s = clock.monotonic()
        self._lost_s: dict[str, float] = {}
        "By uid, since when the reason for a pod's notice is missing."
        self._tasks: dict[str, asyncio.Task[None]] = {}
        "By uid, notices that are being withdrawn."

    async def ask(self, pod: Pod, asker: Asker) -> Verdict:
        """Raises what the API raises."""
        if not concerns(pod.metadata):
            return Go("no notice")
        verdict = await ask(self._client, pod, asker, self._clock.now())
        if isinstance(verdict, Tell) and verdict.is_new:
            self._told(pod, asker, from_seconds(verdict.until_s))
        return verdict

    def is_due(self, pod: Pod, asker: Asker) -> bool:
        """Whether a pod has to be asked again: it goes, or got no notice, or no longer shows its notice."""
        return not concerns(pod.metadata) or not isinstance(decide(pod, asker, self._clock.now()), Wait)

    def let_stay(self, stands: Callable[[Pod, str], bool | None]) -> None:
        """Withdraw notices that no longer have a reason. `stands` says whether a pod has to go for an object; None if
        that may not be known yet."""
        now_s, lost = self._clock.monotonic(), self._lost_s
        self._lost_s = {}
        for pod in self._under:
            with self._shield.about("say whether it has to go", PODS, pod.metadata):
                self._let_stay(pod, stands, lost, now_s)

    def _let_stay(
        self, pod: Pod, stands: Callable[[Pod, str], bool | None], lost: Mapping[str, float], now_s: float
    ) -> None:
        meta = pod.metadata
        entry = next(
            (
                request
                for request in EVICTION_ASKED_BY.read(meta)
                if request.by == COMPONENT and self._owns(request.reason)
            ),
            None,
        )
        if entry is None or meta.deletion_timestamp is not None or meta.uid in self._tasks:
            return
        answer = stands(pod, entry.about)
        if answer:
            return
        since_s = self._lost_s[meta.uid] = lost.get(meta.uid, now_s)
        enough_s = FOUND_AGAIN_S if since_s - self._began_s < LOST_S else LOST_S
        if answer is False or now_s - since_s >= enough_s:
            asker = Asker(entry.by, entry.reason, entry.message, entry.about)
            task = asyncio.create_task(self._withdraw(pod, asker), name=f"let {meta.key} stay")
            self._tasks[meta.uid] = task
            task.add_done_callback(partial(self._ended, meta.uid))

    def finish(self) -> None:
        for task in self._tasks.values():
            task.cancel()

    def _ended(self, uid: str, task: asyncio.Task[None]) -> None:
        self._tasks.pop(uid, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("%s ended with an error", task.get_name(), exc_info=error)

    async def _withdraw(self, pod: Pod, asker: Asker) -> None:
        try:
            if await withdraw(self._client, pod, asker, self._clock.now()):
                log.info("a pod that was told to go can stay", extra={"pod": pod.metadata.key})
        except (ApiError, DecodeError, NotLeader) as error:
            log.warning("notice is not withdrawn, retrying: %s", error, extra={"pod": pod.metadata.key})
