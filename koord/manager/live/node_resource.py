"""The node_resource loop: looks at a node when something about it has changed, or when its report goes stale.

However many reports come at once, a node is in the queue once, and a bounded number of writes is under way. What was
just written is shown until the informer has it, lest it be written twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeGuard, TypeVar

from msgspec.structs import replace

from koord.api.configuration.lending_policies import ADAPTIVE
from koord.api.kinds import NODE_RESOURCE_TOPOLOGIES, NODES
from koord.api.machinery.struct import EMPTY
from koord.api.text.whole_number import natural_number
from koord.kube.client import Client
from koord.kube.clock import Clock
from koord.kube.controller import Controller, Requeue
from koord.kube.errors import ApiError, Conflict, NotFound
from koord.kube.informer import Informer
from koord.kube.store import Delta
from koord.manager.colocation_settings import given
from koord.manager.lending.freshness import distrust
from koord.manager.live.config import Configuration
from koord.manager.live.metrics import ManagerMetrics
from koord.manager.live.records import MetricRecord, NodeRecord
from koord.manager.live.sources import NODE, Sources
from koord.manager.node_resource.plugins import calculate
from koord.manager.node_resource.prepare import prepare
from koord.manager.node_resource.requeue import requeue_at_s, wait_for_report_s
from koord.manager.node_resource.writing import WriteDecision, decide, firm_parts, zone_changes
from koord.manager.node_state import (
    DeviceFacts,
    MetricRow,
    NodeFacts,
    NodeState,
    PodRow,
    TopologyFacts,
    node_facts,
)
from koord.manager.plugin import Plugin
from koord.manager.writes import FIELD_MANAGER

WORKERS: Final = 16

Named = TypeVar("Named", TopologyFacts, DeviceFacts)
Versioned = TypeVar("Versioned", TopologyFacts, DeviceFacts, NodeFacts, MetricRow)


class NodeResourceLoop:
    def __init__(
        self,
        client: Client,
        sources: Sources,
        configuration: Configuration,
        plugins: Sequence[Plugin],
        clock: Clock,
        metrics: ManagerMetrics,
        *,
        workers: int = WORKERS,
    ) -> None:
        self._client, self._sources, self._configuration = client, sources, configuration
        self._plugins, self._clock, self._metrics = plugins, clock, metrics
        self._written_s: dict[str, float] = {}
        self._firm: dict[str, Mapping[str, int]] = {}
        self._heard_s: dict[str, float] = {}
        self._seen_s: dict[str, float] = {}
        self._own: dict[str, NodeFacts] = {}
        self.controller: Controller[str] = Controller(
            "noderesource",
            self._reconcile,
            workers=workers,
            queue_observer=metrics.metrics.queue("noderesource"),
            observer=metrics.metrics.reconciler("noderesource"),
        )
        self.controller.watch(sources.nodes, _of_node)
        self.controller.watch(sources.metrics, self._of_metric)
        self.controller.watch(sources.pods, self._of_pod)
        sources.when_there("topologies", self._follow)
        sources.when_there("devices", self._follow)
        self.stop_listening = configuration.add_handler(self._all)

    def _all(self) -> None:
        for name in self._sources.node_names:
            self.controller.add(name)

    def _follow(self, informer: Informer[Any]) -> None:
        self.controller.watch(informer, _of_named)

    def _of_metric(self, delta: Delta[MetricRecord]) -> Iterable[str]:
        if delta.new is None:
            self._heard_s.pop(delta.key, None)
            return (delta.key,)
        old = None if delta.old is None else delta.old.row
        if old is not None and _same(old, delta.new.row):
            return ()
        self._heard_s[delta.key] = self._clock.now()
        # A NodeMetric without a report is as good as none.
        return () if old is None and delta.new.row.updated_s is None else (delta.key,)

    def _of_pod(self, delta: Delta[PodRow]) -> Iterable[str]:
        """Where the sum of batch requests is a part of what is published, it must not lag behind."""
        if not self._configuration.current.may_lend_by(ADAPTIVE):
            return ()
        sides = [
            (row.node, row.batch_cpu_milli, row.batch_memory_bytes) for row in (delta.old, delta.new) if _buys(row)
        ]
        return () if len(sides) == 2 and sides[0] == sides[1] else tuple(dict.fromkeys(node for node, _, _ in sides))

    async def _reconcile(self, name: str) -> Requeue | None:
        # Thousands of nodes that need no write would otherwise be one long step, and all else would wait.
        await asyncio.sleep(0)
        config = self._configuration.current
        if config.colocation_state == "unavailable":
            return None
        node = self._node(name)
        if node is None:
            self._forget(name)
            return None
        state = self._state(node)
        settings = config.for_node(node.labels, node.annotations)
        now_s = self._clock.now()
        outcomes = calculate(state, config, settings, self._plugins, now_s)
        self._metrics.ran(outcomes)
        prepared = prepare(node, outcomes)
        self._metrics.lends(name, prepared.figures)
        strategy = settings.colocation
        has_report = state.reported_s is not None
        self._metrics.reported(name, distrust(state, strategy, now_s), has_report=has_report)
        zones = None
        if state.topology is not None:
            zones = zone_changes(state.topology, prepared.zones, given(strategy.resource_diff_threshold))
        firm = self._firm.get(name, EMPTY)
        decision = decide(node, prepared, strategy, self._written_s.get(name), now_s, firm)
        seen_s = self._seen_s.setdefault(name, now_s)
        wait_s = wait_for_report_s(state, decision, seen_s=seen_s, now_s=now_s)
        if wait_s is not None:
            return Requeue(wait_s)
        try:
            if zones is not None:
                await self._write_zones(name, zones)
            if decision.patch is not None:
                await self._write(name, decision, now_s)
                if decision.status:
                    self._firm[name] = firm_parts(prepared)
        except NotFound:
            return None
        except Conflict:
            return Requeue()
        written_s = self._written_s.get(name)
        pending = decision.pending and not decision.status
        again_s = requeue_at_s(state, strategy, pending=pending, written_s=written_s, now_s=now_s)
        return None if again_s is None else Requeue(max(0.1, again_s - self._clock.now()))

    def _state(self, node: NodeFacts) -> NodeState:
        sources, name = self._sources, node.name
        metric = sources.metrics.get(name)
        return NodeState(
            node,
            sources.pods.by_index(NODE, name),
            None if metric is None else metric.row,
            None if sources.topologies is None else sources.topologies.get(name),
            None if sources.devices is None else sources.devices.get(name),
            self._heard_s.get(name),
            self._configuration.unusable,
        )

    def _node(self, name: str) -> NodeFacts | None:
        """The newest that is known: the informer's, or the server's answer to our own write."""
        record = self._sources.nodes.get(name)
        own = self._own.get(name)
        if record is None:
            return None
        if own is None:
            return record.facts
        if own.uid == record.facts.uid and _number(own.version) > _number(record.facts.version):
            return own
        del self._own[name]
        return record.facts

    async def _write(self, name: str, decision: WriteDecision, now_s: float) -> None:
        reason = "updateNodeStatus" if decision.status else "patchNodeMeta"
        try:
            answer = await self._client.patch(
                NODES,
                name,
                decision.patch,
                type="strategic",
                subresource="status" if decision.status else "",
                field_manager=FIELD_MANAGER,
            )
        except ApiError:
            self._metrics.wrote("node_resource", reason, ok=False)
            raise
        self._own[name] = node_facts(answer)
        if decision.status:
            self._written_s[name] = now_s
        self._metrics.wrote("node_resource", reason)

    async def _write_zones(self, name: str, patch: Mapping[str, Any]) -> None:
        try:
            await self._client.patch(NODE_RESOURCE_TOPOLOGIES, name, patch, field_manager=FIELD_MANAGER)
        except ApiError:
            self._metrics.wrote("node_resource", "updateNodeResourceTopology", ok=False)
            raise
        self._metrics.wrote("node_resource", "updateNodeResourceTopology")

    def _forget(self, name: str) -> None:
        for by_node in (self._written_s, self._firm, self._heard_s, self._seen_s, self._own):
            by_node.pop(name, None)
        self._metrics.forget(name)


def _buys(row: PodRow | None) -> TypeGuard[PodRow]:
    return row is not None and row.active and bool(row.batch_cpu_milli or row.batch_memory_bytes)


def _of_node(delta: Delta[NodeRecord]) -> Iterable[str]:
    """A heartbeat by itself is no cause to look."""
    old, new = delta.old, delta.new
    return () if old is not None and new is not None and _same(old.facts, new.facts) else (delta.key,)


def _of_named(delta: Delta[Named]) -> Iterable[str]:
    old, new = delta.old, delta.new
    return () if old is not None and new is not None and _same(old, new) else (delta.key,)


def _same(old: Versioned, new: Versioned) -> bool:
    """Whether nothing that counts has changed."""
    return replace(old, version="") == replace(new, version="")


def _number(version: str) -> int:
    return natural_number(version) or 0
