"""Tells users what was decided: events, and the PodScheduled condition of pods that fit nowhere.

A pod's message is written when it changes, and then the newest one: what changes faster than it can be written is one
write. Events of one kind about one pod are one series. Nothing is written about a pod while it is bound: the binder
waits for `settled`, so that an old message never arrives after the new one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from koord.api.kinds import PODS, Kind
from koord.api.kubernetes.pod import Pod
from koord.api.kubernetes.words import PodConditionType
from koord.api.machinery.codec import DecodeError
from koord.api.protocol.eviction_notice import Asker
from koord.api.text.timestamp import from_seconds
from koord.kube.client import Client
from koord.kube.clock import Clock
from koord.kube.election import NotLeader
from koord.kube.errors import ApiError, NotFound
from koord.kube.events import EventRecorder, reference
from koord.kube.store import Delta
from koord.scheduler.core.decision import Bind, Broken, LetGo, Nowhere, Placed
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.writes import Evict, Tell
from koord.scheduler.live.pending import PendingPods
from koord.scheduler.message import for_an_event

log = logging.getLogger(__name__)

WRITERS: Final = 8
FIELD_MANAGER: Final = "koord-scheduler"
UNSCHEDULABLE: Final = "Unschedulable"
SCHEDULER_ERROR: Final = "SchedulerError"
GATED: Final = "SchedulingGated"
"""The reason that kubectl shows as a pod's status. Autoscalers that add nodes for pending pods ignore it."""


class _Word(NamedTuple):
    """What a pod's status should say: why it waits, and which node it is promised. None leaves the node unchanged."""

    reason: str
    message: str
    promised: str | None = None


class _Subject(NamedTuple):
    """What users look at: a pod, or the object that it stands for."""

    kind: Kind[Any]
    thing: Any


class Telling:
    """What users are told: pod conditions and events, and the tasks that write them."""

    def __init__(self, client: Client, events: EventRecorder, clock: Clock) -> None:
        self._client, self._events, self._clock = client, events, clock
        self.subject: Callable[[Ask], tuple[Kind[Any], Any]] = lambda ask: (PODS, ask.pod)
        "The object where users look for the state of a pod."
        self._unwritten: dict[str, tuple[_Subject, _Word]] = {}
        self._said: dict[str, _Word] = {}
        "The last word by uid of pod; pods that are bound or gone are forgotten."
        self.pending = PendingPods()
        self._work = asyncio.Event()
        self._writing: dict[str, asyncio.Event] = {}

    @property
    def unwritten(self) -> int:
        """How many pods have a word that is not written, or being written."""
        return len(self._unwritten) + len(self._writing)

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

    def bound(self, placed: Placed) -> None:
        kind, thing = self.subject(placed.ask)
        self.forget(placed.ask.meta.uid)
        note = f"Successfully assigned {thing.metadata.key} to {placed.node}"
        self._events.record(reference(kind, thing), "Scheduled", note, action="Binding")

    def not_bound(self, placed: Placed, why: str) -> None:
        self._say(placed.ask, _Word(SCHEDULER_ERROR, f"binding to {placed.node} failed: {why}; retrying"))

    def let_go(self, decision: LetGo) -> None:
        for placed in decision.bind.members:
            self._say(placed.ask, _Word(SCHEDULER_ERROR, f"not bound to {placed.node}: {decision.why}; retrying"))

    def left_out(self, decision: Bind) -> None:
        """Members that found no place, while their job goes ahead."""
        for unplaced in decision.unplaced:
            theme = unplaced.placement.refusal or ", ".join(sorted(unplaced.placement.rejections))
            self.pending.nowhere((unplaced.ask,), UNSCHEDULABLE, unplaced.placement, self._clock.now())
            self._say(unplaced.ask, _Word(UNSCHEDULABLE, unplaced.message), theme)

    def gated(self, asks: Iterable[Ask], why: str) -> None:
        """Pods of a job that is not tried yet. Those with gates of their own say so already."""
        word = _Word(GATED, why, None)
        for ask in asks:
            self.pending.held(ask, GATED, why, self._clock.now())
            said = self._said.get(ask.meta.uid) or _known(ask.pod)
            if not ask.spec.scheduling_gates and (said is None or said[:2] != word[:2]):
                self._say(ask, word)

    def job(self, objects: Iterable[tuple[Kind[Any], Any]], why: str, theme: str | None = None) -> None:
        """What keeps a job from going ahead, on the objects that stand for it."""
        for kind, thing in objects:
            what = reference(kind, thing)
            note = for_an_event(why)
            self._events.record(what, "FailedScheduling", note, action="Scheduling", type="Warning", theme=theme)

    def tell(self, what: Tell) -> None:
        """What a plugin has to say of an object."""
        subject, note = reference(what.kind, what.thing), for_an_event(what.message)
        self._events.record(subject, what.reason, note, action="Scheduling", type=what.type)

    def awaits(self, placed: Placed, what: str) -> None:
        """It has its place, and what it needs is long in coming: the pod's events say why nothing happens."""
        note = for_an_event(f"It will go to {placed.node} and waits for its volumes. {what}")
        what_waits = reference(*self.subject(placed.ask))
        self._events.record(what_waits, "WaitingForVolumes", note, action="Binding")

    def nowhere(self, decision: Nowhere) -> None:
        remedy = decision.remedy
        promised = "" if remedy.node is None and remedy.clears else remedy.node
        placement = decision.placement
        # How many nodes there are for each reason changes all the time; the condition has the present numbers.
        reasons = placement.refusal or ", ".join(sorted(placement.rejections))
        theme = f"{reasons}{' makes room' if remedy.helps else ''}"
        promises = {decision.ask.key: promised, **{move.pod: move.node for move in remedy.others}}
        self.pending.nowhere(decision.asks, placement.held_as or UNSCHEDULABLE, placement, self._clock.now())
        for ask in decision.asks:
            reason = placement.held_as if self.subject(ask)[0] is PODS else ""
            word = _Word(reason or UNSCHEDULABLE, decision.message, promises.get(ask.key))
            self._say(ask, word, theme)
        if remedy.event is not None:
            reason, note = remedy.event
            what = reference(*self.subject(decision.ask))
            self._events.record(what, reason, for_an_event(note), action="Scheduling", type="Warning", theme=theme)

    def broken(self, decision: Broken) -> None:
        for ask in decision.asks:
            self.pending.held(ask, SCHEDULER_ERROR, decision.message, self._clock.now())
            self._say(ask, _Word(SCHEDULER_ERROR, decision.message))

    def not_promised(self, pod: Pod) -> None:
        """A more important pod gets the node that this one was promised."""
        was = self._said.get(pod.metadata.uid) or _known(pod)
        if was is not None:
            self._want(_Subject(PODS, pod), was, was._replace(promised=""))

    def preempted(self, victim: Pod, by: Ask, node: str) -> None:
        note = f"Preempted by pod {by.meta.uid} on node {node}"
        related = reference(*self.subject(by))
        self._events.record(reference(PODS, victim), "Preempted", note, action="Preempting", related=related)

    def evicted(self, pod: Pod, evict: Evict) -> None:
        self._events.record(reference(PODS, pod), evict.reason, evict.message, action="Evicting", type="Warning")

    def told_to_go(self, pod: Pod, asker: Asker, deadline: str) -> None:
        about = f" ({asker.about})" if asker.about else ""
        note = f"{asker.message}{about}. The pod goes at {deadline}, or when it says that it is ready."
        self._events.record(reference(PODS, pod), "EvictionNotice", note, action="Evicting", type="Warning")

    def forget(self, uid: str) -> None:
        """A pod is bound or gone: it no longer needs a message on why it waits."""
        self._said.pop(uid, None)
        self._unwritten.pop(uid, None)
        self.pending.forget(uid)

    async def run(self) -> None:
        """Writes conditions until cancelled, or until this process may write no more."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(WRITERS):
                tasks.create_task(self._write(), name="write-conditions")

    def _say(self, ask: Ask, word: _Word, theme: str | None = None) -> None:
        subject = _Subject(*self.subject(ask))
        note, what = for_an_event(word.message), reference(*subject)
        self._events.record(what, "FailedScheduling", note, action="Scheduling", type="Warning", theme=theme)
        self._want(subject, self._said.get(ask.meta.uid) or _known(ask.pod), word)

    def _want(self, subject: _Subject, said: _Word | None, word: _Word) -> None:
        uid = subject.thing.metadata.uid
        if word.promised is None and said is not None:
            word = word._replace(promised=said.promised)
        if said != word:
            self._said[uid] = word
            self._unwritten[uid] = (subject, word)
            self._work.set()

    async def _write(self) -> None:
        while True:
            uid = next((uid for uid in self._unwritten if uid not in self._writing), None)
            if uid is None:
                self._work.clear()
                await self._work.wait()
                continue
            subject, word = self._unwritten.pop(uid)
            written = self._writing[uid] = asyncio.Event()
            try:
                await self._patch(subject, word)
            except NotFound:
                self.forget(uid)
            except NotLeader:
                return
            except (ApiError, DecodeError) as error:
                log.warning("its condition was not written: %s", error, extra={"pod": subject.thing.metadata.key})
                self._said.pop(uid, None)
            finally:
                written.set()
                del self._writing[uid]
                if uid in self._unwritten:
                    self._work.set()

    async def _patch(self, subject: _Subject, word: _Word) -> None:
        kind, thing = subject
        status: dict[str, object]
        if kind is PODS:
            status = {"conditions": [self._condition(thing, word)]}
            if word.promised is not None:
                status["nominatedNodeName"] = word.promised or None
        else:
            now = from_seconds(self._clock.now())
            condition = {"type": "Scheduled", "status": "False", "reason": word.reason, "message": word.message}
            status = {"conditions": [{**condition, "lastProbeTime": now, "lastTransitionTime": now}]}
        meta = thing.metadata
        await self._client.patch(
            kind,
            meta.name,
            {"metadata": {"uid": meta.uid}, "status": status},
            namespace=meta.namespace,
            type="strategic" if kind is PODS else "merge",
            subresource="status",
            field_manager=FIELD_MANAGER,
        )

    def _condition(self, pod: Pod, word: _Word) -> dict[str, str]:
        was = pod.status.condition(PodConditionType.SCHEDULED)
        since = was.last_transition_time if was is not None and was.status == "False" else None
        return {
            "type": PodConditionType.SCHEDULED,
            "status": "False",
            "reason": word.reason,
            "message": word.message,
            "lastTransitionTime": since or from_seconds(self._clock.now()),
        }


def _known(pod: Pod) -> _Word | None:
    """What its status says already."""
    was = pod.status.condition(PodConditionType.SCHEDULED)
    if was is None or was.status != "False":
        return None
    return _Word(was.reason, was.message, pod.status.nominated_node_name)
