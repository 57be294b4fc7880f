"""What interference control decides, told and carried out: evidence and events, moves, and what replicas elsewhere say.

A victim's event is its episode so far as one sentence, with the step as its action; the neighbour that it blames gets
the same sentence. A move is a PodMigrationJob, which the descheduler takes like any other. Replicas are asked about
only when a pod may be slow: the pods of its controller, and the NodeMetrics of at most a few of their nodes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from koord.agent.interference.blame import blame_of
from koord.agent.interference.control import MOVED_AGAIN_S
from koord.agent.interference.episode import NOISY_POD, POD_SLOWED, Finding, Step
from koord.agent.interference.evidence import EvidenceLog
from koord.agent.interference.story import evidence
from koord.agent.live.keeping import add_evidence, read_evidence
from koord.agent.pods import AgentPod
from koord.agent.qos.decision import Move
from koord.agent.report.node_metric import SIGNALS
from koord.api.kinds import NODE_METRICS, POD_MIGRATION_JOBS, PODS
from koord.api.kubernetes.meta import ObjectMeta
from koord.api.protocol.annotations.load import EVICT_REASON, EVICT_TRIGGER, JOB_CREATED_BY
from koord.api.protocol.crd.node_metric import NodeMetric
from koord.api.protocol.slowed_by import MOST_OF_A_POD, Blame, paired
from koord.kube.client import Client
from koord.kube.clock import Clock
from koord.kube.errors import AlreadyExists, ApiError, NotFound
from koord.kube.event_ledger import EventType
from koord.kube.events import EventRecorder, reference_to

log = logging.getLogger(__name__)

FIELD_MANAGER: Final = "koord-agent"
MOST_REPLICAS: Final = 10
ASKED_AGAIN_S: Final = 60.0
TTL: Final = "5m"
MOVE_FAILED: Final = "MoveFailed"
TOLD_S: Final = 600.0
"""For how long a blame is in the reports."""
_OWN_LABELS: Final = ("statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index")
"""What no replica shares."""


class Interfering:
    def __init__(
        self,
        client: Client,
        events: EventRecorder,
        clock: Clock,
        state_dir: Path,
        pods: Callable[[], Mapping[str, AgentPod]],
        replicas: dict[str, Mapping[str, tuple[float, ...]]],
    ) -> None:
        """`replicas` is filled for whoever decides."""
        self._client, self._events, self._clock, self._state_dir = client, events, clock, state_dir
        self._pods, self._replicas = pods, replicas
        self._log: EvidenceLog = read_evidence(state_dir)
        self._metas: dict[str, ObjectMeta] = {}
        "Of pods that were spoken of: one that is gone is still named."
        self._questions: asyncio.Queue[AgentPod] = asyncio.Queue(64)
        self._asked_s: dict[str, float] = {}
        self._blames: dict[str, list[Blame]] = {}
        "By victim, the oldest first."

    def tell(self, finding: Finding) -> None:
        self._metas |= {uid: pod.meta for uid, pod in self._pods().items()}
        offset_s = self._clock.now() - self._clock.monotonic()
        entry = evidence(finding, self._key, lambda at_s: at_s + offset_s)
        self._log.add(entry)
        add_evidence(self._state_dir, self._log, entry)
        episode, step = finding.episode, finding.taken.step
        victim = self._metas.get(episode.victim)
        culprit = episode.suspects.culprit
        blamed = finding.taken.uid or (culprit.uid if culprit else "")
        noisy = self._metas.get(blamed) if blamed != episode.victim else None
        kind: EventType = "Normal" if step in (Step.OVER, Step.BETTER) else "Warning"
        if victim is not None:
            related = None if noisy is None else reference_to(PODS, noisy)
            about = reference_to(PODS, victim)
            self._events.record(about, POD_SLOWED, entry.message, action=step.value, type=kind, related=related)
        if noisy is not None and victim is not None and kind == "Warning":
            about, related = reference_to(PODS, noisy), reference_to(PODS, victim)
            self._events.record(about, NOISY_POD, entry.message, action=step.value, type=kind, related=related)
        log.info("%s", entry.message)
        self._blame(finding, entry.at)
        self._metas = {uid: meta for uid, meta in self._metas.items() if uid in self._pods() or uid == blamed}

    def _blame(self, finding: Finding, at: str) -> None:
        found = blame_of(finding, at, lambda uid: paired(self._metas[uid]) if uid in self._metas else None)
        if found is not None:
            told = self._blames.get(finding.episode.victim, [])
            self._blames[finding.episode.victim] = [*told, found][-MOST_OF_A_POD:]

    def blames(self) -> Mapping[str, Sequence[Blame]]:
        """By victim, for the node's report: it is told so often that one of the reports is heard."""
        if self._blames:
            since_s = self._clock.now() - TOLD_S
            left = {uid: [each for each in told if each.at_s >= since_s] for uid, told in self._blames.items()}
            self._blames = {uid: told for uid, told in left.items() if told and uid in self._pods()}
        return self._blames

    def _key(self, uid: str) -> str:
        meta = self._metas.get(uid)
        return meta.key if meta else f"a pod that is gone ({uid})"

    async def move(self, move: Move) -> bool:
        """Whether somebody was asked. By name, a pod's move is asked for once in the time in which it may be moved
        once, however often the agent starts; a job that came to nothing is not in the way of the next."""
        meta, turn = move.pod.meta, int(self._clock.now() // MOVED_AGAIN_S)
        job = {
            "apiVersion": POD_MIGRATION_JOBS.api_version,
            "kind": POD_MIGRATION_JOBS.kind,
            "metadata": {
                "name": f"interference-{meta.uid}-{turn}",
                "annotations": {
                    EVICT_REASON.key: move.why,
                    EVICT_TRIGGER.key: move.by,
                    JOB_CREATED_BY.key: FIELD_MANAGER,
                },
            },
            "spec": {
                "podRef": {"namespace": meta.namespace, "name": meta.name, "uid": meta.uid},
                "mode": "ReservationFirst",
                "ttl": TTL,
            },
        }
        try:
            await self._client.create(POD_MIGRATION_JOBS, job, field_manager=FIELD_MANAGER)
        except AlreadyExists:
            return True
        except ApiError as error:
            about = reference_to(PODS, meta)
            note = f"the pod cannot be moved away from who slows it down: {error}"
            self._events.record(about, MOVE_FAILED, note, action="Moving", type="Warning")
            log.warning("the move of %s cannot be asked for: %s", meta.key, error)
            return False
        return True

    def ask(self, pod: AgentPod) -> None:
        """About its replicas, soon."""
        now_s = self._clock.monotonic()
        if now_s - self._asked_s.get(pod.uid, float("-inf")) < ASKED_AGAIN_S or self._questions.full():
            return
        self._asked_s = {uid: at_s for uid, at_s in self._asked_s.items() if now_s - at_s < ASKED_AGAIN_S}
        self._asked_s[pod.uid] = now_s
        self._questions.put_nowait(pod)

    async def answer(self) -> None:
        """Until it is cancelled."""
        while True:
            pod = await self._questions.get()
            try:
                found = await self._of_replicas(pod)
            except ApiError as error:
                log.warning("replicas of %s cannot be compared: %s", pod.key, error)
                continue
            living = self._pods()
            for uid in [uid for uid in self._replicas if uid not in living]:
                del self._replicas[uid]
            self._replicas[pod.uid] = found

    async def _of_replicas(self, pod: AgentPod) -> dict[str, tuple[float, ...]]:
        meta = pod.meta
        owner = next((each for each in meta.owner_references if each.controller), None)
        if owner is None:
            return {}
        own = {name: value for name, value in meta.labels.items() if name not in _OWN_LABELS}
        selector = ",".join(f"{name}={value}" for name, value in sorted(own.items()))
        listed = await self._client.list(PODS, namespace=meta.namespace, labels=selector)
        others = [
            each
            for each in listed
            if each.metadata.uid != meta.uid
            and each.spec.node_name
            and any(their.uid == owner.uid for their in each.metadata.owner_references)
        ]
        values: dict[str, list[float]] = {}
        for each in others[:MOST_REPLICAS]:
            try:
                metric = await self._client.get(NODE_METRICS, each.spec.node_name)
            except NotFound:
                continue
            for name, value in _signals(metric, each.metadata.namespace, each.metadata.name).items():
                values.setdefault(name, []).append(value)
        return {name: tuple(found) for name, found in values.items()}


def _signals(metric: NodeMetric, namespace: str, name: str) -> dict[str, float]:
    """Of a pod, as its node's agent reported it."""
    for pod in metric.status.pods_metric:
        if (pod.namespace, pod.name) == (namespace, name):
            found = pod.extensions.get(SIGNALS)
            if isinstance(found, Mapping):
                return {key: float(value) for key, value in found.items() if isinstance(value, int | float)}
    return {}
