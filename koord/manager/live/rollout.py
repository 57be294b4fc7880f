"""The rollout loop: has roll-outs grow, stop and complete. The leader's work.

Each round writes the roll-out first and labels after it, so that after a crash or the loss of the lease
the successor comes to the same labels. Pods are followed from the first running roll-out on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import Final

import msgspec

from koord.api.kinds import CONFIG_MAPS, NODES, PODS
from koord.api.kubernetes.core import ConfigMap
from koord.api.kubernetes.pod import Pod
from koord.api.kubernetes.words import PodConditionType
from koord.api.machinery.codec import decode
from koord.api.machinery.faults import BadInput
from koord.api.machinery.struct import Struct
from koord.api.protocol import names
from koord.api.protocol.priority import QoSClass, qos_class
from koord.api.protocol.slowed_by import Verdict
from koord.api.text.timestamp import TimestampError, parse_timestamp
from koord.kube.client import Client
from koord.kube.clock import Clock
from koord.kube.controller import Controller, Requeue
from koord.kube.errors import Conflict, NotFound
from koord.kube.events import EventRecorder, reference
from koord.kube.informer import Informer
from koord.kube.informers import Informers
from koord.kube.store import Delta, Identity
from koord.manager.config_in_force import STORED
from koord.manager.live.config import Configuration
from koord.manager.live.metrics import ManagerMetrics
from koord.manager.live.records import ON_NODE, NodeRecord
from koord.manager.live.sources import Sources
from koord.manager.rollout.features import Feature, feature_of, obstacle
from koord.manager.rollout.state import Rollout, Suffering, chosen, parse, render
from koord.manager.rollout.steps import PodHealth, SlowedService, began_s, next_of, stopped, suffering
from koord.manager.writes import FIELD_MANAGER

log = logging.getLogger(__name__)

NAME: Final = "rollout"
LOOK_S: Final = 10.0
AT_REST_S: Final = 60.0
"""How often a roll-out is looked at that does not grow, for nodes that have come."""
AT_ONCE: Final = 16
ROLLOUTS: Final = f"{names.NAMESPACE_KOORDINATOR}/{names.CONFIGMAP_ROLLOUTS}"
ON: Final = "on"


class HealthRecord(Struct):
    health: PodHealth
    version: str


def health_record(raw: msgspec.Raw) -> HealthRecord:
    pod = decode(Pod, memoryview(raw))
    return HealthRecord(pod_health(pod), pod.metadata.resource_version)


def pod_health(pod: Pod) -> PodHealth:
    meta, ready = pod.metadata, pod.status.condition(PodConditionType.READY)
    target = pod.status.condition(PodConditionType.DISRUPTION_TARGET)
    leaving = meta.deletion_timestamp is not None
    evicted = target is not None and target.status == "True" and leaving
    return PodHealth(
        meta.key,
        meta.uid,
        pod.spec.node_name,
        is_service=qos_class(pod) is not QoSClass.BE,
        ready=ready is None or ready.status == "True",
        turned_s=_seconds(ready.last_transition_time if ready is not None else None),
        started_s=_seconds(pod.status.start_time),
        leaving=leaving,
        evicted_s=_seconds(target.last_transition_time) if evicted and target is not None else 0.0,
    )


def _seconds(text: str | None) -> float:
    try:
        return parse_timestamp(text) if text else 0.0
    except TimestampError:
        return 0.0


def _identity(record: HealthRecord) -> Identity:
    return record.health.key, record.health.uid, record.version


class RolloutLoop:
    def __init__(
        self,
        client: Client,
        informers: Informers,
        sources: Sources,
        configuration: Configuration,
        events: EventRecorder,
        clock: Clock,
        metrics: ManagerMetrics,
        *,
        look_s: float = LOOK_S,
    ) -> None:
        self._client, self._informers, self._sources = client, informers, sources
        self._configuration, self._events, self._clock, self._look_s = configuration, events, clock, look_s
        self._stored: Informer[ConfigMap] = informers.get(
            CONFIG_MAPS, namespace=names.NAMESPACE_KOORDINATOR, fields=f"metadata.name={names.CONFIGMAP_ROLLOUTS}"
        )
        self._metrics = metrics
        self._pods: Informer[HealthRecord] | None = None
        self._evicted: dict[str, tuple[str, float]] = {}
        "By the pod's uid: where and when."
        self._counted_before: dict[str, tuple[float, int]] = {}
        "By feature: evictions of a step that a manager before this one has counted."
        self._lacking_s: dict[str, float] = {}
        "By feature: when nodes of its step were last seen without it."
        self._told: dict[str, str] = {}
        self.controller: Controller[str] = Controller(
            NAME,
            self._reconcile,
            timeout_s=600.0,
            queue_observer=metrics.metrics.queue(NAME),
            observer=metrics.metrics.reconciler(NAME),
        )
        self.controller.watch(self._stored, _features)

    def stop_listening(self) -> None:
        """Nothing but what the controller watches."""

    async def _reconcile(self, name: str) -> Requeue | None:
        config_map = self._stored.get(ROLLOUTS)
        text = config_map.data.get(name) if config_map is not None else None
        if config_map is None or text is None:
            self._metrics.rolls_out(name, None)
            self._counted_before.pop(name, None)
            self._lacking_s.pop(name, None)
            return None
        try:
            feature, rollout = feature_of(name), parse(name, text)
        except BadInput as error:
            self._tell(
                config_map, "RolloutInvalid", f"{names.CONFIGMAP_ROLLOUTS}: {error}; nothing is rolled out by it"
            )
            return None
        after = await self._next(feature, rollout)
        if after != rollout:
            try:
                await self._write(config_map, feature, after)
            except (Conflict, NotFound):
                # Another writer was faster: the informer will report it.
                return Requeue()
            self._say(config_map, feature, rollout, after)
        self._metrics.rolls_out(name, after.percent, is_stopped=after.state == "stopped")
        await self._label(feature, after)
        return Requeue(self._look_s if after.state == "running" else AT_REST_S)

    async def _next(self, feature: Feature, rollout: Rollout) -> Rollout:
        now_s = self._clock.now()
        if rollout.state != "running":
            return rollout
        config = self._configuration.informer.get(STORED)
        why = obstacle(config.data if config is not None else {}, feature)
        if why:
            return stopped(rollout, now_s, f"{names.CONFIGMAP_SLO_CONTROLLER}: {why}")
        trouble = await self._suffering(feature, rollout)
        wanted, labelled = self._nodes(feature, rollout)
        if not wanted or not wanted <= labelled:
            self._lacking_s[feature.name] = now_s
        return next_of(rollout, trouble, now_s, lacking_s=self._lacking_s.get(feature.name, 0.0))

    def _nodes(self, feature: Feature, rollout: Rollout) -> tuple[set[str], set[str]]:
        """Those that should have the feature by now, and those that have it."""
        matcher = rollout.matcher
        listed = self._sources.nodes.list()
        pool = [node.facts.name for node in listed if matcher is None or matcher.matches(node.facts.labels)]
        labelled = {node.facts.name for node in listed if feature.label in node.facts.labels}
        if rollout.state == "stopped":
            return labelled - set(rollout.taken_back), labelled
        return set(chosen(pool, rollout.percent, labelled, rollout.taken_back)), labelled

    async def _suffering(self, feature: Feature, rollout: Rollout) -> Suffering:
        if self._pods is None:
            self._pods = self._informers.get(PODS, transform=health_record, identity=_identity, fields=ON_NODE)
            self._pods.add_handler(self._hear)
            await self._pods.synced()
        inside = {node.facts.name for node in self._sources.nodes.list() if feature.label in node.facts.labels}
        since_s, before = self._counted_before.get(feature.name, (-1.0, 0))
        if since_s != rollout.since_s:
            before = rollout.found.evictions
            self._counted_before[feature.name] = (rollout.since_s, before)
        first_s = min((began_s(rollout) for rollout in self._stored_rollouts()), default=0.0)
        self._evicted = {uid: evicted for uid, evicted in self._evicted.items() if evicted[1] >= first_s}
        evicted = sum(node in inside and at_s >= began_s(rollout) for node, at_s in self._evicted.values())
        pods = (pod.health for pod in self._pods.list() if pod.health.node in inside)
        return suffering(rollout, pods, self._slowed(inside), before + evicted)

    def _stored_rollouts(self) -> Iterator[Rollout]:
        config_map = self._stored.get(ROLLOUTS)
        for name, text in (config_map.data if config_map is not None else {}).items():
            try:
                yield parse(name, text)
            except BadInput:
                continue

    def _slowed(self, inside: set[str]) -> Iterator[SlowedService]:
        for record in self._sources.metrics.list():
            if record.row.name not in inside:
                continue
            for blame in record.blames:
                if blame.verdict is not Verdict.CLEARED:
                    victim = blame.victim
                    yield SlowedService(f"{victim.namespace}/{victim.name}", record.row.name, blame.at_s)

    def _hear(self, delta: Delta[HealthRecord]) -> None:
        """Evictions that are seen to happen; those from before are in what is stored."""
        new, old = delta.new, delta.old
        if new is None or old is None or not new.health.evicted_s or old.health.evicted_s:
            return
        node = self._sources.nodes.get(new.health.node)
        # A node that is being drained loses its pods for other reasons.
        if node is not None and node.part.takes_pods:
            self._evicted[new.health.uid] = (new.health.node, new.health.evicted_s)

    async def _write(self, config_map: ConfigMap, feature: Feature, rollout: Rollout) -> None:
        version = {"uid": config_map.metadata.uid, "resourceVersion": config_map.metadata.resource_version}
        await self._client.patch(
            CONFIG_MAPS,
            config_map.metadata.name,
            {"metadata": version, "data": {feature.name: render(rollout)}},
            namespace=config_map.metadata.namespace,
            field_manager=FIELD_MANAGER,
        )

    def _say(self, config_map: ConfigMap, feature: Feature, before: Rollout, after: Rollout) -> None:
        regarding = reference(CONFIG_MAPS, config_map)
        if after.state == "stopped":
            back = f"; taken back: {', '.join(after.taken_back)}" if after.taken_back else ""
            note = f"the roll-out of {feature.name} stopped at {after.percent}%: {after.reason}{back}"
            log.warning(note)
            self._events.record(regarding, "RolloutStopped", note, type="Warning")
        elif after.state == "complete" and before.state != "complete":
            self._events.record(regarding, "RolloutComplete", f"the roll-out of {feature.name} is at {after.percent}%")
        elif after.step != before.step:
            note = f"the roll-out of {feature.name} goes on from {before.percent}% to {after.percent}%"
            log.info(note)
            self._events.record(regarding, "RolloutStep", note)

    def _tell(self, config_map: ConfigMap, reason: str, note: str) -> None:
        if self._told.get(reason) != note:
            self._told[reason] = note
            log.warning(note)
            self._events.record(reference(CONFIG_MAPS, config_map), reason, note, type="Warning")

    async def _label(self, feature: Feature, rollout: Rollout) -> None:
        """Nodes of the roll-out have the label, others do not."""
        wanted, labelled = self._nodes(feature, rollout)
        slots = asyncio.Semaphore(AT_ONCE)
        async with asyncio.TaskGroup() as tasks:
            for node in self._sources.nodes.list():
                if (node.facts.name in wanted) != (node.facts.name in labelled):
                    tasks.create_task(self._set(node, feature, slots, on=node.facts.name in wanted))

    async def _set(self, node: NodeRecord, feature: Feature, slots: asyncio.Semaphore, *, on: bool) -> None:
        patch = {"metadata": {"uid": node.facts.uid, "labels": {feature.label: ON if on else None}}}
        async with slots:
            try:
                await self._client.patch(NODES, node.facts.name, patch, field_manager=FIELD_MANAGER)
            except (NotFound, Conflict):
                # It is gone, or another of the same name has come.
                return


def _features(delta: Delta[ConfigMap]) -> Iterator[str]:
    old, new = (config_map.data if config_map is not None else {} for config_map in (delta.old, delta.new))
    return (name for name in {**old, **new} if old.get(name) != new.get(name))
