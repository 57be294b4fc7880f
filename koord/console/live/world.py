"""What the console follows: informers, one per kind for all viewers, and once a second what changed.

Rows go into the `ClusterTable`; changes of the map and of the overview go into the ring that feeds browsers. An
informer that loses the API server keeps its rows, and the overview says since when they are old.
"""

from __future__ import annotations

import asyncio
import logging
import math
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from koord.api.configuration.slo_config import SloConfig
from koord.api.kinds import (
    CONFIG_MAPS,
    ELASTIC_QUOTAS,
    EVENTS,
    NODE_METRICS,
    NODES,
    PODS,
    Kind,
)
from koord.api.kubernetes.core import ConfigMap
from koord.api.machinery.faults import BadInput
from koord.api.protocol import names
from koord.api.protocol.crd.elastic_quota import ElasticQuota
from koord.console import rows
from koord.console.courses import Courses
from koord.console.node_map import delta_of
from koord.console.overview import Circumstances, overview_of
from koord.console.reasons import Reason, SchedulerReason, reason_of
from koord.console.ring import KEPT_S, Event, Ring
from koord.console.rows import EventRow, MetricRow, NodeRow, PodRow
from koord.console.shapes import Changed, Overview
from koord.console.table import ClusterTable
from koord.kube.client import Client
from koord.kube.clock import SystemClock
from koord.kube.informer import Informer
from koord.kube.informers import Informers
from koord.kube.pages import item_of
from koord.kube.served import until_served
from koord.kube.store import Delta
from koord.manager.config_in_force import in_force, last_valid
from koord.manager.rollout.state import Rollout, parse
from koord.offline.quotas import QuotaTop, quota_of_pods, quotas_of
from koord.operate.endpoints import Endpoints, read_endpoints
from koord.operate.facts import Facts
from koord.operate.health import Status, judge
from koord.operate.live.survey import survey

log = logging.getLogger(__name__)

TICK_S: Final = 1.0
SURVEY_S: Final = 30.0
MANY_PODS: Final = 2000
PODS_A_SECOND: Final = 100
"""A cluster of 50,000 pods is examined every 500 s."""
IDLE_SURVEY_S: Final = 300.0
"""Without viewers."""
VISIT_S: Final = 60.0
OVERVIEW_S: Final = 10.0
"""An overview is sent at least this often, since its ages change."""
HOUR_S: Final = 3600.0
LOST_S: Final = 15.0
HISTORY_KEPT: Final = 200
NOISY: Final = (
    *("Scheduled", "FailedScheduling", "Pulling", "Pulled", "Created", "Started", "Killing", "BackOff"),
    *("SuccessfulCreate", "SuccessfulDelete", "ScalingReplicaSet", "Completed", "NodeHasSufficientMemory"),
)
"""Frequent events that no page shows; the API server leaves them out."""
SHARED: Final = frozenset({"overview", "map"})
"""Topics of all viewers."""
Listener = Callable[[Event], None]


def pod_row(raw: msgspec.Raw) -> PodRow:
    return rows.row_of_pod(item_of(PODS, raw))


def node_row(raw: msgspec.Raw) -> NodeRow:
    return rows.row_of_node(item_of(NODES, raw))


def metric_row(raw: msgspec.Raw) -> MetricRow:
    return rows.row_of_metric(item_of(NODE_METRICS, raw))


def event_row(raw: msgspec.Raw) -> EventRow:
    return rows.row_of_event(item_of(EVENTS, raw))


class World:
    """State of the cluster, shared by all viewers."""

    def __init__(
        self,
        client: Client,
        cluster: str,
        data_dir: Path | None = None,
        status: Callable[[], Awaitable[Any]] | None = None,
    ) -> None:
        """`status`: what `koord status -o json` prints. It is asked in the place of our own look at a large cluster:
        that lists all pods, which must not cost this process memory."""
        self.client, self.cluster, self.data_dir = client, cluster, data_dir
        self._status_command = status
        self.epoch = secrets.token_hex(4)
        self.started_at_s = time.time()
        self.table = ClusterTable()
        self.ring = Ring(self.epoch)
        self.courses = Courses(self.started_at_s)
        self.events: dict[str, EventRow] = {}
        self.quota_objects: dict[str, ElasticQuota] = {}
        self.quotas: list[QuotaTop] = []
        self._quotas_changed = False
        self.rollouts: dict[str, Rollout] = {}
        self.rollout_faults: list[str] = []
        self.acts: Mapping[str, str] = {}
        "The stored records of acts."
        self.config: SloConfig | None = None
        self.config_data: Mapping[str, str] = {}
        "slo-controller-config as stored."
        self.config_faults: tuple[str, ...] = ()
        self.reasons: Mapping[str, SchedulerReason] = {}
        "By uid of pod, as the scheduler lists them."
        self.status: Status | None = None
        self.viewers = 0
        self.visited_s = -math.inf
        "When a page last asked for something, by the monotonic clock."
        self._listeners: set[Listener] = set()
        self._watched: dict[str, int] = {}
        self._left_s: dict[str, float] = {}
        "When the last reader of a topic left."
        self._config_maps: dict[str, ConfigMap] = {}
        self._dirty = True
        self._touched_pods: set[str] = set()
        self._sent_overview = 0.0
        self._overview: Overview | None = None
        self._informers: list[Informer[Any]] = []
        self._ready = asyncio.Event()
        self._survey_now = asyncio.Event()

    # Following the cluster.

    async def run(self, ready: Callable[[], None]) -> None:
        """Until cancelled."""
        async with Informers(self.client) as informers, asyncio.TaskGroup() as tasks:
            nodes = informers.get(NODES, transform=node_row, identity=rows.identity)
            nodes.add_handler(self._node)
            pods = informers.get(PODS, transform=pod_row, identity=rows.identity)
            pods.add_handler(self._pod)
            config = informers.get(CONFIG_MAPS, namespace=names.NAMESPACE_KOORDINATOR)
            config.add_handler(self._config_map)
            fields = ",".join(f"reason!={reason}" for reason in NOISY)
            events = informers.get(EVENTS, transform=event_row, identity=rows.identity, fields=fields)
            events.add_handler(self._event)
            self._informers = [nodes, pods, config, events]
            for kind, join in (
                (NODE_METRICS, self._join_metrics),
                (ELASTIC_QUOTAS, self._join_quotas),
            ):
                tasks.create_task(self._late(informers, kind, join), name=kind.plural)
            await informers.synced(freeze=True)
            self._tick()
            self._ready.set()
            ready()
            tasks.create_task(self._survey(), name="survey")
            while True:
                await asyncio.sleep(TICK_S)
                self._tick()

    async def _late(self, informers: Informers, kind: Kind[Any], join: Callable[[Informers], None]) -> None:
        """koord's own kinds may be defined later, or never."""
        await until_served(self.client, (kind,), SystemClock())
        join(informers)

    def _join_metrics(self, informers: Informers) -> None:
        metrics = informers.get(NODE_METRICS, transform=metric_row, identity=rows.identity)
        metrics.add_handler(self._metric)
        self._informers.append(metrics)

    def _join_quotas(self, informers: Informers) -> None:
        quotas = informers.get(ELASTIC_QUOTAS)
        quotas.add_handler(self._quota)
        self._informers.append(quotas)

    def _node(self, delta: Delta[NodeRow]) -> None:
        self.table.node(delta.old, delta.new)
        self._dirty = True

    def _pod(self, delta: Delta[PodRow]) -> None:
        self.table.pod(delta.old, delta.new)
        self._dirty = True
        if f"pod/{delta.key}" in self._watched:
            self._touched_pods.add(delta.key)

    def _metric(self, delta: Delta[MetricRow]) -> None:
        self.table.metric(delta.old, delta.new)
        self._dirty = True

    def _event(self, delta: Delta[EventRow]) -> None:
        if delta.new is not None and delta.new.reason:
            self.events[delta.key] = delta.new
            self._dirty = True
        elif delta.new is None:
            self.events.pop(delta.key, None)

    def _quota(self, delta: Delta[ElasticQuota]) -> None:
        if delta.new is None:
            self.quota_objects.pop(delta.key, None)
        else:
            self.quota_objects[delta.key] = delta.new
        self._quotas_changed = self._dirty = True

    def _config_map(self, delta: Delta[ConfigMap]) -> None:
        name = delta.key.partition("/")[2]
        data = delta.new.data if delta.new is not None else {}
        if delta.new is None:
            self._config_maps.pop(name, None)
        else:
            self._config_maps[name] = delta.new
        if name in (names.CONFIGMAP_SLO_CONTROLLER, names.CONFIGMAP_SLO_IN_FORCE):
            self._configure()
        elif name == names.CONFIGMAP_ROLLOUTS:
            self._read_rollouts(data)
        elif name == names.CONFIGMAP_CONSOLE_ACTS:
            self.acts = data
        else:
            return
        self._dirty = True

    def _configure(self) -> None:
        published = self._config_maps.get(names.CONFIGMAP_SLO_IN_FORCE)
        stored = self._config_maps.get(names.CONFIGMAP_SLO_CONTROLLER)
        self.config_data = stored.data if stored is not None else {}
        last = last_valid(published.data if published is not None else None)
        held = in_force(last, stored.data if stored is not None else None)
        self.config, self.config_faults = held.config, tuple(map(str, held.problems))
        self.table.configured(self.config)

    def _read_rollouts(self, data: Mapping[str, str]) -> None:
        self.rollouts, self.rollout_faults = {}, []
        for feature, text in data.items():
            try:
                self.rollouts[feature] = parse(feature, text)
            except BadInput as error:
                self.rollout_faults.append(f"ConfigMap {names.CONFIGMAP_ROLLOUTS}: {error}")

    # Once a second.

    def _tick(self) -> None:
        now_s = time.time()
        if self._quotas_changed:
            self._quotas_changed = False
            self.quotas = quotas_of(self.quota_objects.values())
            self.table.quotas_changed(quota_of_pods(self.quota_objects.values()))
        if self.config is None and self._ready_config():
            self._configure()
        changed = self.table.refresh(now_s)
        self.courses.sample(self.table, now_s)
        if changed and self._watches("map"):
            self._publish("map", delta_of(self.table, self.epoch, self.ring.rev + 1, changed), now_s)
        elif changed:
            # No page reads deltas: the next one loads the whole map.
            self.ring.skip()
        for row in changed:
            topic = f"node/{self.table.names[row]}"
            if topic in self._watched:
                self._publish(topic, Changed(epoch=self.epoch, rev=self.ring.rev + 1), now_s)
        for key in self._touched_pods:
            self._publish(f"pod/{key}", Changed(epoch=self.epoch, rev=self.ring.rev + 1), now_s)
        self._touched_pods.clear()
        if self._dirty or changed or now_s - self._sent_overview >= OVERVIEW_S:
            self._dirty = False
            self._overview = None
            if self._watches("overview"):
                self._sent_overview = now_s
                self._publish("overview", self.overview(rev=self.ring.rev + 1), now_s)

    def _ready_config(self) -> bool:
        return all(informer.has_synced for informer in self._informers)

    def _publish(self, topic: str, shape: msgspec.Struct, now_s: float) -> None:
        self.publish(topic, msgspec.json.encode(shape), now_s)

    def publish(self, topic: str, data: bytes, now_s: float) -> None:
        event = self.ring.add(topic, data, now_s)
        for listener in tuple(self._listeners):
            listener(event)

    def overview(self, rev: int | None = None, may_list: Callable[[str], bool] | None = None) -> Overview:
        """The current one. Events carry one without names of pods; `may_list` adds those that a viewer may list."""
        if may_list is None and rev is None and self._overview is not None:
            return self._overview
        now_s = time.time()
        stale_s, why = self.lost()
        about = Circumstances(
            epoch=self.epoch,
            rev=self.ring.rev if rev is None else rev,
            now_s=now_s,
            started_at_s=self.started_at_s,
            cluster=self.cluster,
            events=self.events_since(now_s - HOUR_S),
            quotas=self.quotas,
            status=self.status,
            rollouts=self.rollouts,
            pending=self.pending(),
            detects=self.detects,
            stale_since_at_s=stale_s,
            stale_why=why,
            may_list=may_list or (lambda namespace: False),
        )
        overview = overview_of(self.table, about)
        if may_list is None:
            self._overview = overview
        return overview

    @property
    def is_ready(self) -> bool:
        return self._ready.is_set()

    def pending(self) -> list[tuple[PodRow, Reason]]:
        return [(pod, reason_of(pod, self.reasons)) for pod in self.table.pending.values()]

    def namespaces(self) -> set[str]:
        return set(self.table.pods_in)

    def hidden_pods(self, may_list: Callable[[str], bool]) -> int:
        return sum(count for namespace, count in self.table.pods_in.items() if not may_list(namespace))

    def explained(self, reasons: Mapping[str, SchedulerReason]) -> None:
        """The scheduler's list, by uid of pod."""
        self.reasons = reasons
        self._dirty = True

    def events_since(self, since_s: float) -> list[EventRow]:
        return [event for event in self.events.values() if event.at_s >= since_s]

    def events_about(self, namespace: str, name: str, kind: str = "Pod") -> list[EventRow]:
        return sorted(
            (
                event
                for event in self.events.values()
                if event.name == name and event.kind == kind and (event.namespace == namespace or kind == "Node")
            ),
            key=lambda event: -event.at_s,
        )[:HISTORY_KEPT]

    def events_on(self, node: str) -> list[EventRow]:
        """About a node, and about pods that are on it."""
        pods = self.table.on_node.get(node, {})
        return [
            event
            for event in self.events.values()
            if (event.kind == "Node" and event.name == node)
            or (event.kind == "Pod" and f"{event.namespace}/{event.name}" in pods)
        ][:HISTORY_KEPT]

    @property
    def detects(self) -> bool:
        """Whether interference detection works: an agent has reported a slowdown while events are kept."""
        return any(event.reason == "PodSlowed" for event in self.events.values())

    def lost(self) -> tuple[float | None, str]:
        """Since when the API server does not answer, and why; None if it does."""
        broken = [informer for informer in self._informers if informer.last_error is not None]
        silent = [informer for informer in broken if informer.staleness_s > LOST_S]
        if not silent:
            return None, ""
        longest = max(informer.staleness_s for informer in silent)
        since_s = time.time() - longest if longest != float("inf") else self.started_at_s
        return since_s, str(silent[0].last_error)

    # The health of koord itself.

    def leads(self, lease: str) -> bool:
        """Whether a component holds its lease, by the last look at koord's health; True if that is not known."""
        if self.status is None:
            return True
        return any(leader.lease.endswith(lease) and not leader.expired for leader in self.status.facts.leaders)

    def endpoints(self) -> Endpoints | None:
        if self.data_dir is None:
            return None
        try:
            return read_endpoints(self.data_dir)
        except BadInput as error:
            log.warning("%s", error)
            return None

    async def look_at_health(self) -> Status:
        if self._status_command is not None and len(self.table.pods) > MANY_PODS:
            facts = msgspec.convert(await self._status_command(), Facts)
        else:
            facts = await survey(self.client, self.client.config.server, self.data_dir, self.endpoints())
        # What the console may not read says nothing about koord.
        unread = tuple(why for why in facts.unread if "forbidden" not in why)
        self.status = judge(msgspec.structs.replace(facts, unread=unread))
        self._dirty = True
        return self.status

    @property
    def _survey_s(self) -> float:
        """How long a look at koord's health counts: longer on a large cluster, where it takes seconds of a core."""
        return max(SURVEY_S, len(self.table.pods) / PODS_A_SECOND)

    @property
    def is_visited(self) -> bool:
        return bool(self.viewers) or time.monotonic() - self.visited_s < VISIT_S

    def ask_for_health(self) -> None:
        """A viewer opened a page: the next look is due now if the last one is old."""
        self._survey_now.set()

    async def _survey(self) -> None:
        """The checks of `koord status`, less often without viewers."""
        while True:
            try:
                await self.look_at_health()
            except BadInput as error:
                log.warning("koord's health cannot be examined: %s", error)
            self._survey_now.clear()
            looked_s = time.monotonic()
            while time.monotonic() - looked_s < (
                self._survey_s if self.viewers else max(IDLE_SURVEY_S, self._survey_s)
            ):
                try:
                    await asyncio.wait_for(self._survey_now.wait(), SURVEY_S)
                except TimeoutError:
                    continue
                self._survey_now.clear()
                if time.monotonic() - looked_s >= self._survey_s:
                    break

    # Readers of events.

    def listen(self, listener: Listener, topics: Iterable[str]) -> Callable[[], None]:
        """From here on `listener` gets every event. Returns what ends that."""
        watched = list(topics)
        for topic in watched:
            self._watched[topic] = self._watched.get(topic, 0) + 1
        self._listeners.add(listener)
        self.viewers += 1

        def end() -> None:
            self._listeners.discard(listener)
            self.viewers -= 1
            for topic in watched:
                self._watched[topic] -= 1
                if not self._watched[topic]:
                    del self._watched[topic]
                    if topic in SHARED:
                        self._left_s[topic] = time.monotonic()

        return end

    def _watches(self, topic: str) -> bool:
        """Whether a page reads a topic, or did so lately: a page that reconnects resumes."""
        return topic in self._watched or time.monotonic() - self._left_s.get(topic, -math.inf) < KEPT_S
