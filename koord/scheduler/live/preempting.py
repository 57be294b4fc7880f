"""Makes room: ends the pods that have to go for a more important one.

A victim learns why from its DisruptionTarget condition and an event, and is deleted with its usual grace period; its
room is used when it is really gone. If a victim cannot be ended, the nomination is withdrawn, and the pod is tried
again.

Victims that ask for notice get it, and the pod stays nominated in the meantime. Victims that do not ask for notice go
once no other victim is waited for: evicting them earlier would help no pod.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from koord.api.kinds import PODS
from koord.api.kubernetes.pod import Pod
from koord.api.kubernetes.words import PodConditionType
from koord.api.machinery.codec import DecodeError
from koord.api.protocol.eviction_notice import Asker, Go, concerns
from koord.api.text.timestamp import from_seconds
from koord.kube.client import Client
from koord.kube.clock import Clock
from koord.kube.election import NotLeader
from koord.kube.errors import ApiError, Conflict, NotFound
from koord.scheduler.core.core import Core
from koord.scheduler.core.decision import Nowhere
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.remedy import Move
from koord.scheduler.live.noticing import COMPONENT, Noticing, UnderNotice
from koord.scheduler.live.sources import moment
from koord.scheduler.live.telling import Telling

log = logging.getLogger(__name__)

MOST_AT_ONCE: Final = 16
FIELD_MANAGER: Final = "koord-scheduler"
PREEMPTED: Final = "PreemptionByScheduler"
MESSAGE: Final = "preempting to accommodate a higher priority pod"


class Preempting:
    """All preemptions in progress. `pod_of` gives the last known version of a pod; `done` is called with whether all
    victims of a preemption were told to go, and how long that took."""

    def __init__(
        self,
        client: Client,
        core: Core,
        clock: Clock,
        telling: Telling,
        *,
        pod_of: Callable[[str], Pod | None],
        wake: Callable[[], None],
        done: Callable[[bool, float], None] = lambda all_went, took_s: None,
        under: UnderNotice | None = None,
    ) -> None:
        self._client, self._core, self._clock, self._telling = client, core, clock, telling
        self._pod_of, self._wake, self._done = pod_of, wake, done
        self._tasks: set[asyncio.Task[None]] = set()
        self._noticing = Noticing(
            client, clock, PREEMPTED.__eq__, under or UnderNotice(), telling.told_to_go, core.cluster.shield
        )
        self._waiting: dict[str, tuple[Ask, Move, str]] = {}
        "By pod, whose victims have notice, with the profile that decided."

    @property
    def is_full(self) -> bool:
        return len(self._tasks) >= MOST_AT_ONCE

    def start(self, decision: Nowhere) -> None:
        """Carry out a decision: evict its victims, and tell the pods that lost their nomination to it."""
        for key in decision.outbid:
            pod = self._pod_of(key)
            if pod is not None:
                self._telling.not_promised(pod)
        asks = {ask.key: ask for ask in decision.asks}
        for move in decision.moves:
            if not move.victims:
                continue
            self._begin(asks[move.pod], move, decision.profile)

    def look(self) -> None:
        """Called now and then: victims whose notice is over go, and victims that no longer need to go stay."""
        for ask, move, profile in list(self._waiting.values()):
            with self._core.cluster.shield.about("look after its victims", PODS, ask.meta):
                if not self._is_promised(ask.key, move):
                    del self._waiting[ask.key]
                elif self._goes_on(ask, move, profile):
                    del self._waiting[ask.key]
                    self._begin(ask, move, profile)
        self._noticing.let_stay(self._stands)

    def _begin(self, ask: Ask, move: Move, profile: str) -> None:
        task = asyncio.create_task(self._carry_out(ask, move, profile), name=f"preempt for {move.pod}")
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _is_promised(self, pod: str, move: Move) -> bool:
        promise = self._core.cluster.nominations.of(pod)
        return promise is not None and {key for key, _ in promise.victims} == set(move.victims)

    def _goes_on(self, ask: Ask, move: Move, profile: str) -> bool:
        """Whether one of the victims that are waited for has to be asked again, or none is left."""
        victims = (self._pod_of(key) for key in move.victims)
        awaited = [
            victim
            for victim in victims
            if victim is not None and victim.metadata.deletion_timestamp is None and concerns(victim.metadata)
        ]
        return not awaited or any(self._noticing.is_due(victim, _asker(ask, profile)) for victim in awaited)

    def _stands(self, victim: Pod, pod: str) -> bool | None:
        """Whether a pod that has notice still has to go, for another pod."""
        promise = self._core.cluster.nominations.of(pod)
        if promise is not None and (victim.metadata.key, victim.metadata.uid) in promise.victims:
            return True
        waiting = self._pod_of(pod)
        if waiting is None or waiting.spec.node_name or waiting.metadata.deletion_timestamp is not None:
            return False
        return None

    async def finish(self) -> None:
        """Stop all preemptions in progress: victims that are not deleted yet stay."""
        self._noticing.finish()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._wake()
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("%s ended with an error", task.get_name(), exc_info=error)

    async def _carry_out(self, ask: Ask, move: Move, profile: str) -> None:
        began_s = self._clock.monotonic()
        waits = await self._awaited(ask, move, profile)
        if waits:
            self._waiting[ask.key] = ask, move, profile
        going = [key for key in move.victims if key not in waits and (not waits or self._asks_for_notice(key))]
        ended = await asyncio.gather(*(self._end(key, ask, move.node, profile) for key in going))
        if not waits or not all(ended):
            self._done(all(ended), self._clock.monotonic() - began_s)
        if not all(ended):
            self._waiting.pop(ask.key, None)
            self._core.at(moment(self._clock))
            self._core.take_back(ask.key)

    def _asks_for_notice(self, key: str) -> bool:
        victim = self._pod_of(key)
        return victim is not None and concerns(victim.metadata)

    async def _awaited(self, ask: Ask, move: Move, profile: str) -> set[str]:
        """The victims that need not go yet. They get notice."""
        waits = set()
        for key in move.victims:
            victim = self._pod_of(key)
            if victim is None or not concerns(victim.metadata):
                continue
            try:
                if not isinstance(await self._noticing.ask(victim, _asker(ask, profile)), Go):
                    waits.add(key)
            except NotFound:
                continue
            except (ApiError, DecodeError, NotLeader) as error:
                log.warning("a victim is not told, retrying: %s", error, extra={"pod": key, "for": ask.key})
                waits.add(key)
        return waits

    async def _end(self, key: str, ask: Ask, node: str, profile: str) -> bool:
        victim = self._pod_of(key)
        if victim is None or victim.metadata.deletion_timestamp is not None:
            return True
        try:
            await self._tell(victim, profile)
            await self._client.delete(
                PODS, victim.metadata.name, namespace=victim.metadata.namespace, uid=victim.metadata.uid
            )
        except (NotFound, Conflict):
            # It is gone, and there may be another one of its name: that one is no victim.
            return True
        except (ApiError, DecodeError, NotLeader) as error:
            log.warning("a victim stays: %s", error, extra={"pod": key, "for": ask.key})
            return False
        self._telling.preempted(victim, ask, node)
        return True

    async def _tell(self, victim: Pod, profile: str) -> None:
        condition = {
            "type": PodConditionType.DISRUPTION_TARGET,
            "status": "True",
            "reason": PREEMPTED,
            "message": f"{profile}: {MESSAGE}",
            "lastTransitionTime": from_seconds(self._clock.now()),
        }
        await self._client.patch(
            PODS,
            victim.metadata.name,
            {"metadata": {"uid": victim.metadata.uid}, "status": {"conditions": [condition]}},
            namespace=victim.metadata.namespace,
            type="strategic",
            subresource="status",
            field_manager=FIELD_MANAGER,
        )


def _asker(ask: Ask, profile: str) -> Asker:
    return Asker(COMPONENT, PREEMPTED, f"{profile}: {MESSAGE}", ask.key)
