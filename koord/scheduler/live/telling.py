"""Tells users what was decided: events, and the PodScheduled condition of pods that fit nowhere.

A pod's message is written when it changes, and then the newest one: what changes faster than it can be written is one
write. Events of one kind about one pod are one series. Nothing is written about a pod while it is bound: who binds it
waits for `settled`, so that an old word never comes after the new one.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from koord.api.codec import DecodeError
from koord.api.kinds import PODS
from koord.api.pod import Pod
from koord.api.timestamp import from_seconds
from koord.api.words import PodConditionType
from koord.kube.client import Client
from koord.kube.clock import Clock
from koord.kube.election import NotLeader
from koord.kube.errors import ApiError, NotFound
from koord.kube.events import EventRecorder, reference
from koord.kube.store import Delta
from koord.scheduler.live.cycle import Bind, Broken, Nowhere
from koord.scheduler.message import for_an_event

log = logging.getLogger(__name__)

WRITERS: Final = 8
FIELD_MANAGER: Final = "koord-scheduler"
UNSCHEDULABLE: Final = "Unschedulable"
SCHEDULER_ERROR: Final = "SchedulerError"


class Telling:
    """What users are to know, and those who write it."""

    def __init__(self, client: Client, events: EventRecorder, clock: Clock) -> None:
        self._client, self._events, self._clock = client, events, clock
        self._unwritten: dict[str, tuple[Pod, str, str]] = {}
        self._said: dict[str, tuple[str, str]] = {}
        "The last message by uid of pod; pods that are bound or gone are forgotten."
        self._work = asyncio.Event()
        self._writing: dict[str, asyncio.Event] = {}

    def pod(self, delta: Delta[Pod]) -> None:
        """What informers say: of pods that are gone, or on a node, nothing is remembered."""
        if delta.old is not None and (delta.new is None or delta.new.spec.node_name):
            self.forget(delta.old.metadata.uid)

    async def settled(self, uid: str) -> None:
        """What is not written yet about a pod is dropped, and what is being written ends."""
        self._unwritten.pop(uid, None)
        writing = self._writing.get(uid)
        if writing is not None:
            await writing.wait()

    def bound(self, bind: Bind) -> None:
        meta = bind.ask.meta
        self.forget(meta.uid)
        note = f"Successfully assigned {meta.namespace}/{meta.name} to {bind.node}"
        self._events.record(reference(PODS, bind.ask.pod), "Scheduled", note, action="Binding")

    def not_bound(self, bind: Bind, why: str) -> None:
        self._say(bind.ask.pod, SCHEDULER_ERROR, f"it was to go to {bind.node}, and was not bound: {why}")

    def nowhere(self, decision: Nowhere) -> None:
        self._say(decision.ask.pod, UNSCHEDULABLE, decision.message)

    def broken(self, decision: Broken) -> None:
        self._say(decision.ask.pod, SCHEDULER_ERROR, decision.message)

    def forget(self, uid: str) -> None:
        """A pod is bound or gone: nothing more is to be said of why it waits."""
        self._said.pop(uid, None)
        self._unwritten.pop(uid, None)

    async def run(self) -> None:
        """Writes conditions until cancelled, or until this process may write no more."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(WRITERS):
                tasks.create_task(self._write(), name="write-conditions")

    def _say(self, pod: Pod, reason: str, message: str) -> None:
        note = for_an_event(message)
        self._events.record(reference(PODS, pod), "FailedScheduling", note, action="Scheduling", type="Warning")
        uid = pod.metadata.uid
        was = pod.status.condition(PodConditionType.SCHEDULED)
        said = self._said.get(uid) or ((was.reason, was.message) if was is not None and was.status == "False" else None)
        if said != (reason, message):
            self._said[uid] = (reason, message)
            self._unwritten[uid] = (pod, reason, message)
            self._work.set()

    async def _write(self) -> None:
        while True:
            while not (self._unwritten.keys() - self._writing.keys()):
                self._work.clear()
                await self._work.wait()
            uid = next(uid for uid in self._unwritten if uid not in self._writing)
            pod, reason, message = self._unwritten.pop(uid)
            written = self._writing[uid] = asyncio.Event()
            try:
                await self._patch(pod, reason, message)
            except NotFound:
                self.forget(uid)
            except NotLeader:
                return
            except (ApiError, DecodeError) as error:
                log.warning("its condition was not written: %s", error, extra={"pod": pod.metadata.key})
                self._said.pop(uid, None)
            finally:
                written.set()
                del self._writing[uid]
                if uid in self._unwritten:
                    self._work.set()

    async def _patch(self, pod: Pod, reason: str, message: str) -> None:
        was = pod.status.condition(PodConditionType.SCHEDULED)
        since = was.last_transition_time if was is not None and was.status == "False" else None
        condition = {
            "type": PodConditionType.SCHEDULED,
            "status": "False",
            "reason": reason,
            "message": message,
            "lastTransitionTime": since or from_seconds(self._clock.now()),
        }
        await self._client.patch(
            PODS,
            pod.metadata.name,
            {"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": [condition]}},
            namespace=pod.metadata.namespace,
            type="strategic",
            subresource="status",
            field_manager=FIELD_MANAGER,
        )
