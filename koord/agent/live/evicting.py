"""Evictions, carried out: through the API, so that budgets and graceful endings hold.

Rounds do not wait for that: requests run beside them (`api_requests`), and a pod counts as leaving until its
eviction is answered. A refusal, or no answer in time, is reported as an event on the pod, and the next round tries
others first; only accepted evictions count as released. In an emergency, when the node is about to run out of memory,
the processes of the chosen pod are killed at once, and the API is asked afterwards. Before a pod goes, its band is
noted on the node: the scheduler then places no pod of that band there for a while.

A pod that asks for notice gets it for as long as the strategy can wait, and is evicted if that is still wanted at the
end. If the node has cooled down by then, the notice is withdrawn.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from koord.agent.executor.audit import Audit
from koord.agent.host.cgroups import Cgroups
from koord.agent.host.killing import kill_all
from koord.agent.live.api_requests import ApiRequests
from koord.agent.live.copilot import CopilotClient, CopilotError
from koord.agent.pods import AgentPod
from koord.agent.qos.decision import Eviction
from koord.agent.qos.evicting import WANTED_S
from koord.api.kinds import NODES, PODS
from koord.api.kubernetes.node import Node
from koord.api.machinery.shield import Shield
from koord.api.protocol.annotations.load import LAST_EVICTIONS
from koord.api.protocol.annotations.notice import EVICTION_ASKED_BY
from koord.api.protocol.eviction_notice import Asker, Go, Tell, concerns, is_told
from koord.api.protocol.priority import PriorityClass
from koord.api.text.timestamp import from_seconds as timestamp
from koord.kube.client import Client
from koord.kube.clock import Clock
from koord.kube.errors import ApiError, NotFound
from koord.kube.events import EventRecorder, reference, reference_to
from koord.kube.eviction_notice import ask, withdraw

log = logging.getLogger(__name__)

FIELD_MANAGER: Final = "koord-agent"
ANSWER_S: Final = 10.0
"""For all that an eviction asks for together: the note on the node, the notice, the eviction."""
NOTED_AGAIN_S: Final = 5.0
"""Of evictions that follow closely, not each is noted: the scheduler waits for much longer than that."""
REFUSED_NOTED_AGAIN_S: Final = 60.0
"""The same of a pod whose eviction was refused, and is asked for each second."""


class Evictor:
    def __init__(
        self,
        client: Client,
        requests: ApiRequests,
        events: EventRecorder,
        audit: Audit,
        clock: Clock,
        cgroups: Cgroups,
        done: Callable[[Eviction], None],
        node: Callable[[], Node | None],
        kept: Callable[[Eviction], None] = lambda eviction: None,
        on_notice: Callable[[Eviction], None] = lambda eviction: None,
        copilot: CopilotClient | None = None,
        shield: Shield | None = None,
    ) -> None:
        """`done` and `kept` are called with the result, `told` when a pod gets notice; `node` is where it runs."""
        self._requests, self._shield = requests, shield or Shield()
        self.unanswered: set[str] = set()
        "Uids of pods whose eviction was requested and not answered yet."
        self._client, self._events, self._audit, self._clock, self._done = client, events, audit, clock, done
        self._cgroups, self._node, self._kept, self._tell = cgroups, node, kept, on_notice
        self._copilot = copilot
        self._wanted_s: dict[tuple[str, str], float] = {}
        "By uid and feature, when a pod that has notice was last wanted gone."
        self._began_s = clock.monotonic()
        self._noted_s: dict[str, float] = {}
        self._refused = ""
        "The uid of the pod whose eviction was refused last."

    def evict(self, eviction: Eviction) -> None:
        """Never waits: the API server, or the copilot, is asked beside the rounds. In an emergency that comes after the
        pod's processes were killed."""
        if eviction.is_emergency:
            self._kill(eviction)
        key, uid = ("evict", eviction.pod.uid), eviction.pod.uid
        if key in self._requests:
            return
        if not self._requests.put(key, partial(self._ask, eviction)):
            self._keep(eviction, "too many requests are waiting for an answer")
            return
        self.unanswered.add(uid)

    async def _ask(self, eviction: Eviction) -> None:
        with self._shield.about("evict it", PODS, eviction.pod.meta):
            try:
                async with asyncio.timeout(ANSWER_S):
                    if self._copilot is not None and eviction.pod.uid in self._copilot.guests:
                        await self._end_guest(self._copilot, eviction)
                    else:
                        await self._end_pod(eviction)
            except TimeoutError:
                self._keep(eviction, f"no answer within {ANSWER_S:g} s")
            finally:
                self.unanswered.discard(eviction.pod.uid)

    async def _end_pod(self, eviction: Eviction) -> None:
        pod = eviction.pod
        await self._note(pod.band, REFUSED_NOTED_AGAIN_S if pod.uid == self._refused else NOTED_AGAIN_S)
        try:
            if concerns(pod.meta) and eviction.notice_s > 0 and await self._waits(eviction):
                self._tell(eviction)
                return
            await self._client.evict(pod.meta.namespace, pod.meta.name, uid=pod.uid)
        except NotFound:
            if not eviction.is_emergency:
                self._done(eviction)
        except ApiError as error:
            self._keep(eviction, str(error))
        else:
            self._goes(eviction)
            self._record(eviction, "evictPodSuccess", _note(eviction))

    async def _end_guest(self, copilot: CopilotClient, eviction: Eviction) -> None:
        """Ends a YARN container. It has no API object, so the event is on the node."""
        try:
            await copilot.kill(eviction.pod.uid)
        except CopilotError as error:
            self._keep(eviction, str(error))
            return
        self._goes(eviction)
        node = self._node()
        if node is not None:
            text = f"ended YARN's container {eviction.pod.uid}: {_note(eviction)}"
            self._events.record(reference(NODES, node), "YarnContainerEnded", text, action="Evicting", type="Warning")

    def _goes(self, eviction: Eviction) -> None:
        if not eviction.is_emergency:
            # A pod that was killed in an emergency already counts as gone.
            self._done(eviction)
        self._audit_of("evict", eviction, _note(eviction))
        log.info("evicted %s: %s", eviction.pod.key, _note(eviction))

    def _keep(self, eviction: Eviction, why: str) -> None:
        """The eviction failed. If the pod's processes were killed, kubelet restarts them."""
        is_pod = self._copilot is None or eviction.pod.uid not in self._copilot.guests
        self._audit_of("refused", eviction, f"{_note(eviction)}; refused: {why}")
        log.warning("cannot evict %s: %s", eviction.pod.key, why)
        if eviction.is_emergency:
            return
        self._kept(eviction)
        if is_pod:
            self._refused = eviction.pod.uid
            self._record(eviction, "evictPodFail", f"{_note(eviction)}; {why}")

    async def _waits(self, eviction: Eviction) -> bool:
        """Whether the pod has notice, and it is not over."""
        meta, asker = eviction.pod.meta, _asker(eviction.by, eviction.why)
        self._wanted_s[meta.uid, asker.reason] = self._clock.monotonic()
        pod = await self._client.get(PODS, meta.name, namespace=meta.namespace)
        if pod.metadata.uid != meta.uid:
            return False
        verdict = await ask(self._client, pod, asker, self._clock.now(), eviction.notice_s)
        if isinstance(verdict, Go):
            return False
        if isinstance(verdict, Tell) and verdict.is_new:
            until = timestamp(verdict.until_s)
            note = f"{eviction.by}: {eviction.why}. The pod goes at {until}, or when it says that it is ready."
            self._audit_of("notice", eviction, note)
            self._record(eviction, "EvictionNotice", note)
        return True

    def let_stay(self, pods: Iterable[AgentPod]) -> None:
        """Withdraws notices that no strategy wants any more. Never waits."""
        now_s = self._clock.monotonic()
        for pod in pods:
            if not is_told(pod.meta) or not pod.is_active:
                continue
            for entry in EVICTION_ASKED_BY.read(pod.meta):
                last_s = self._wanted_s.get((pod.uid, entry.reason), self._began_s)
                if entry.by != FIELD_MANAGER or now_s - last_s < WANTED_S:
                    continue
                key = ("withdraw", pod.uid, entry.reason)
                if key not in self._requests:
                    self._requests.put(key, partial(self._withdraw, pod, entry.reason))
        self._wanted_s = {key: at_s for key, at_s in self._wanted_s.items() if now_s - at_s < 2 * WANTED_S}

    async def _withdraw(self, pod: AgentPod, reason: str) -> None:
        with self._shield.about("withdraw its notice", PODS, pod.meta):
            try:
                async with asyncio.timeout(ANSWER_S):
                    current = await self._client.get(PODS, pod.meta.name, namespace=pod.meta.namespace)
                    await withdraw(self._client, current, _asker(reason, ""), self._clock.now())
            except (ApiError, TimeoutError) as error:
                why = str(error) or f"no answer within {ANSWER_S:g} s"
                log.warning("notice of %s is not withdrawn: %s", pod.key, why)

    def _kill(self, eviction: Eviction) -> None:
        """Pods by their containers; what has none, like one of YARN's, as a whole."""
        pod, note = eviction.pod, _note(eviction)
        own = [container.directory for container in pod.containers if container.directory]
        killed = kill_all(self._cgroups, own or [pod.directory])
        self._done(eviction)
        self._audit_of("kill", eviction, note)
        self._record(eviction, "evictPodSuccess", f"{note}; killed", action="Killing")
        log.warning("killed %d processes of %s: %s", killed, pod.key, note)

    def _record(self, eviction: Eviction, reason: str, note: str, action: str = "Evicting") -> None:
        about = reference_to(PODS, eviction.pod.meta)
        self._events.record(about, reason, note, action=action, type="Warning")

    async def _note(self, band: PriorityClass, again_s: float) -> None:
        """Before the eviction, so that no pod can be placed in between. A failure does not stop the eviction."""
        node, now_s = self._node(), self._clock.now()
        if node is None or band is PriorityClass.NONE or now_s - self._noted_s.get(band, 0.0) < again_s:
            return
        times = {**LAST_EVICTIONS.read(node.metadata, "Node"), band.value: timestamp(now_s)}
        times |= {other: timestamp(at_s) for other, at_s in self._noted_s.items() if other != band}
        patch = {"metadata": {"annotations": {LAST_EVICTIONS.key: LAST_EVICTIONS.render(times)}}}
        try:
            await self._client.patch(NODES, node.metadata.name, patch, field_manager=FIELD_MANAGER)
        except ApiError as error:
            log.warning("the scheduler cannot be told that pods are evicted: %s", error)
        else:
            self._noted_s[band] = now_s

    def _audit_of(self, type: str, eviction: Eviction, message: str) -> None:
        meta = eviction.pod.meta
        self._audit.add(
            timestamp(self._clock.now()), type, eviction.by, message, namespace=meta.namespace, name=meta.name
        )


def _note(eviction: Eviction) -> str:
    return f"{eviction.by}: {eviction.why}"


def _asker(feature: str, why: str) -> Asker:
    return Asker(FIELD_MANAGER, feature, why)
