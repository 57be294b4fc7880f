"""Carries out and reports decisions of interference control: evidence and events, moves, and queries about replicas.

A victim's event is its episode so far as one sentence, with the step as its action; the neighbour that it blames gets
the same sentence. A move is a PodMigrationJob, which the descheduler takes like any other. Replicas are asked about
only when a pod may be slow: the pods of its controller, and the NodeMetrics of at most a few of their nodes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Final

from koord.agent.interference.blame import blame_of
from koord.agent.interference.control import MOVED_AGAIN_S
from koord.agent.interference.episode import BEGINS, ENDS, NOISY_POD, POD_SLOWED, Finding, Step
from koord.agent.interference.evidence import Evidence, EvidenceLog
from koord.agent.interference.story import evidence, lost
from koord.agent.live.keeping import add_evidence, evidence_so_far
from koord.agent.pods import AgentPod
from koord.agent.qos.decision import Move
from koord.agent.report.node_metric import SIGNALS
from koord.api.kinds import NODE_METRICS, POD_MIGRATION_JOBS, PODS
from koord.api.kubernetes.meta import ObjectMeta
from koord.api.protocol.annotations.load import EVICT_REASON, EVICT_TRIGGER, JOB_CREATED_BY
from koord.api.protocol.crd.node_metric import NodeMetric
from koord.api.protocol.report_age import report_age_s
from koord.api.protocol.slowed_by import MOST_OF_A_POD, Blame, paired
from koord.api.text.timestamp import TimestampError, parse_timestamp
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
FRESH_S: Final = 300.0
"""Reports come every minute by default."""
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
        node: str,
    ) -> None:
        """`replicas` is filled for the decision; `node`: the name of this node."""
        self._node = node
        self._client, self._events, self._clock, self._state_dir = client, events, clock, state_dir
        self._pods, self._replicas = pods, replicas
        self._log: EvidenceLog = evidence_so_far(state_dir)
        self._open: dict[str, Evidence] = {}
        "By victim, the last entry of an episode that has not ended."
        self._noisy: dict[str, dict[str, ObjectMeta | None]] = {}
        "By victim, the pods that its episode has blamed, by namespace and name; None if an earlier agent blamed it."
        for entry in self._log:
            self._follow(entry, None)
        self._left = set(self._open)
        "Victims whose episode an agent before this has left open."
        self._metas: dict[str, ObjectMeta] = {}
        "Of pods that were reported: a pod that is gone is still named."
        self._questions: asyncio.Queue[AgentPod] = asyncio.Queue(64)
        self._asked_s: dict[str, float] = {}
        self._blames: dict[str, list[Blame]] = {}
        "By victim, the oldest first."

    def tell(self, finding: Finding) -> None:
        self._metas |= {uid: pod.meta for uid, pod in self._pods().items()}
        offset_s = self._clock.now() - self._clock.monotonic()
        entry = evidence(finding, self._key, lambda at_s: at_s + offset_s)
        episode = finding.episode
        culprit = episode.suspects.culprit
        blamed = finding.taken.uid or (culprit.uid if culprit else "")
        self._blame(finding, entry.at)
        self._say(entry, self._metas.get(blamed) if blamed != episode.victim else None)

    def watch(self, episodes: Collection[str]) -> None:
        """After each round: victims whose episode goes on. What no one will end is ended here: a pod that is gone, an
        agent before this, a gate that was switched off. It would be called slow for ever."""
        if self._open.keys() <= set(episodes):
            return
        now_s, pods = self._clock.now(), self._pods()
        for uid in [uid for uid in self._open if uid not in episodes]:
            last, has_ended = self._open[uid], uid not in pods and uid not in self._left
            if uid in pods:
                self._metas[uid] = pods[uid].meta
            self._say(lost(last, now_s, has_ended=has_ended), None)

    def _say(self, entry: Evidence, noisy: ObjectMeta | None) -> None:
        """Records the step, with events on the victim and the blamed pod; at the end, on all blamed pods."""
        self._log.add(entry)
        add_evidence(self._state_dir, self._log, entry)
        kind: EventType = "Normal" if entry.step in (Step.OVER, Step.BETTER, Step.LOST) else "Warning"
        victim, noisy_metas = self._metas.get(entry.uid), self._noisy.get(entry.uid, {})
        if victim is not None:
            about, related = reference_to(PODS, victim), None if noisy is None else reference_to(PODS, noisy)
            self._events.record(about, POD_SLOWED, entry.message, action=entry.step, type=kind, related=related)
            blamed = [noisy] if noisy is not None and kind == "Warning" else []
            if entry.step in ENDS:
                blamed = [
                    meta
                    for key, noisy_meta in noisy_metas.items()
                    if (meta := noisy_meta or self._meta(key)) is not None
                ]
            for meta in blamed:
                about, related = reference_to(PODS, meta), reference_to(PODS, victim)
                self._events.record(about, NOISY_POD, entry.message, action=entry.step, type=kind, related=related)
        log.info("%s", entry.message)
        self._follow(entry, noisy)
        self._left.discard(entry.uid)
        spoken_of = {
            meta.uid for noisy_metas in self._noisy.values() for meta in noisy_metas.values() if meta is not None
        }
        spoken_of |= self._open.keys() | self._pods().keys()
        self._metas = {uid: meta for uid, meta in self._metas.items() if uid in spoken_of}

    def _follow(self, entry: Evidence, noisy: ObjectMeta | None) -> None:
        """Tracks the open episodes, and the pods that they blame."""
        if entry.step in BEGINS:
            self._noisy.pop(entry.uid, None)
        if entry.step in ENDS or not entry.began:
            self._open.pop(entry.uid, None)
            self._noisy.pop(entry.uid, None)
            return
        self._open[entry.uid] = entry
        noisy_metas = self._noisy.setdefault(entry.uid, {})
        if noisy is not None:
            noisy_metas[noisy.key] = noisy
        elif entry.suspect:
            noisy_metas.setdefault(entry.suspect, None)

    def _meta(self, key: str) -> ObjectMeta | None:
        return next((pod.meta for pod in self._pods().values() if pod.key == key), None)

    def _blame(self, finding: Finding, at: str) -> None:
        blame = blame_of(finding, at, lambda uid: paired(self._metas[uid]) if uid in self._metas else None)
        if blame is not None:
            blames = self._blames.get(finding.episode.victim, [])
            self._blames[finding.episode.victim] = [*blames, blame][-MOST_OF_A_POD:]

    def blames(self) -> Mapping[str, Sequence[Blame]]:
        """Blames by victim, for the node's report. They are repeated so that at least one report arrives."""
        if self._blames:
            since_s = self._clock.now() - TOLD_S
            left = {uid: [blame for blame in blames if blame.at_s >= since_s] for uid, blames in self._blames.items()}
            self._blames = {uid: blames for uid, blames in left.items() if blames and uid in self._pods()}
        return self._blames

    def _key(self, uid: str) -> str:
        meta = self._metas.get(uid)
        return meta.key if meta else f"a pod that is gone ({uid})"

    async def move(self, move: Move) -> bool:
        """Whether a move was requested. By name, a pod's move is requested once in the time in which it may be moved
        once, however often the agent starts; a failed job does not block the next."""
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
                of_replicas = await self._of_replicas(pod)
            except ApiError as error:
                log.warning("replicas of %s cannot be compared: %s", pod.key, error)
                continue
            living = self._pods()
            for uid in [uid for uid in self._replicas if uid not in living]:
                del self._replicas[uid]
            self._replicas[pod.uid] = of_replicas

    async def _of_replicas(self, pod: AgentPod) -> dict[str, tuple[float, ...]]:
        meta = pod.meta
        owner = next((reference for reference in meta.owner_references if reference.controller), None)
        if owner is None:
            return {}
        own = {name: value for name, value in meta.labels.items() if name not in _OWN_LABELS}
        selector = ",".join(f"{name}={value}" for name, value in sorted(own.items()))
        listed = await self._client.list(PODS, namespace=meta.namespace, labels=selector)
        others = [
            replica
            for replica in listed
            if replica.metadata.uid != meta.uid
            # Replicas on the same node have the same neighbours.
            and replica.spec.node_name not in ("", self._node)
            and any(their.uid == owner.uid for their in replica.metadata.owner_references)
        ]
        values: dict[str, list[float]] = {}
        for replica in others[:MOST_REPLICAS]:
            try:
                metric = await self._client.get(NODE_METRICS, replica.spec.node_name)
            except NotFound:
                continue
            if not self._is_fresh(metric):
                continue
            for name, value in _signals(metric, replica.metadata.namespace, replica.metadata.name).items():
                values.setdefault(name, []).append(value)
        return {name: tuple(of_signal) for name, of_signal in values.items()}

    def _is_fresh(self, metric: NodeMetric) -> bool:
        """Whether a report is of now: an agent that has stopped leaves its last one behind."""
        try:
            at_s = parse_timestamp(metric.status.update_time or "")
        except TimestampError:
            return False
        policy = metric.spec.metric_collect_policy
        every_s = (policy.report_interval_seconds if policy else None) or 0
        return report_age_s(at_s, self._clock.now()) < max(FRESH_S, 3 * every_s)


def _signals(metric: NodeMetric, namespace: str, name: str) -> dict[str, float]:
    """Of a pod, as its node's agent reported it."""
    for pod in metric.status.pods_metric:
        if (pod.namespace, pod.name) == (namespace, name):
            signals = pod.extensions.get(SIGNALS)
            if isinstance(signals, Mapping):
                return {key: float(value) for key, value in signals.items() if isinstance(value, int | float)}
    return {}
