"""The NodeMetric and the NodeSLO of every node: made with it, kept in step with the configuration, deleted with it.

Both loops are the same but for the spec that they want. A spec is changed by a patch of what differs, so that the
reports of nodes, which are in the same object, are never written over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Final, Generic, TypeVar

import msgspec

from koord.api.configuration.slo_config import NodeSettings, SloConfig
from koord.api.kinds import NODE_METRICS, NODE_SLOS, Kind
from koord.api.machinery.struct import Struct
from koord.api.protocol.crd.node_metric import NodeMetricSpec
from koord.api.protocol.crd.node_slo import NodeSLO, NodeSLOSpec
from koord.kube.client import Client
from koord.kube.controller import Controller, Requeue
from koord.kube.errors import AlreadyExists, ApiError, Conflict, NotFound
from koord.kube.informer import Informer
from koord.kube.store import Delta
from koord.manager import node_metric, node_slo
from koord.manager.live.config import Configuration
from koord.manager.live.metrics import ManagerMetrics
from koord.manager.live.records import MetricRecord, NodeRecord
from koord.manager.live.sources import Sources
from koord.manager.writes import FIELD_MANAGER

R = TypeVar("R")
S = TypeVar("S", bound=Struct)

WORKERS: Final = 8


class NodeObjectLoop(Generic[R, S]):
    """One object of a kind for each node, named as the node."""

    def __init__(
        self,
        name: str,
        client: Client,
        kind: Kind[Any],
        objects: Informer[R],
        *,
        sources: Sources,
        configuration: Configuration,
        metrics: ManagerMetrics,
        spec_of: Callable[[R], tuple[str, S]],
        wanted: Callable[[SloConfig, NodeSettings, S | None], S],
        needs_colocation: bool,
        workers: int = WORKERS,
    ) -> None:
        """`spec_of` gives the uid and the spec of the existing object; `wanted` the spec that it should have."""
        self._name, self._client, self._kind, self._objects = name, client, kind, objects
        self._sources, self._configuration, self._metrics = sources, configuration, metrics
        self._spec_of, self._wanted, self._needs_colocation = spec_of, wanted, needs_colocation
        self.controller: Controller[str] = Controller(
            name,
            self._reconcile,
            workers=workers,
            queue_observer=metrics.metrics.queue(name),
            observer=metrics.metrics.reconciler(name),
        )
        self.controller.watch(sources.nodes, _of_node)
        self.controller.watch(objects, self._of_object)
        self.stop_listening = configuration.add_handler(self._all)

    def _all(self) -> None:
        for name in self._sources.node_names:
            self.controller.add(name)

    def _of_object(self, delta: Delta[R]) -> Iterable[str]:
        """Reports come every minute and change nothing here."""
        old, new = delta.old, delta.new
        same = old is not None and new is not None and self._spec_of(old) == self._spec_of(new)
        return () if same else (delta.key,)

    async def _reconcile(self, name: str) -> Requeue | None:
        await asyncio.sleep(0)
        config = self._configuration.current
        if self._needs_colocation and config.colocation_state == "unavailable":
            return None
        node, present = self._sources.nodes.get(name), self._objects.get(name)
        try:
            if node is None:
                if present is not None:
                    await self._counted("delete", self._delete(name, self._spec_of(present)[0]))
                return None
            settings = config.for_node(node.facts.labels, node.facts.annotations)
            if present is None:
                await self._counted("create", self._create(name, self._wanted(config, settings, None)))
                return None
            uid, spec = self._spec_of(present)
            changes = node_slo.spec_patch(spec, self._wanted(config, settings, spec))
            if changes is not None:
                patch = {"metadata": {"uid": uid}, "spec": changes}
                await self._counted("update", self._client.patch(self._kind, name, patch, field_manager=FIELD_MANAGER))
        except (AlreadyExists, NotFound):
            # Created or deleted concurrently: the informer will report it.
            return None
        except Conflict:
            return Requeue()
        return None

    async def _create(self, name: str, spec: S) -> None:
        body = {"metadata": {"name": name}, "spec": msgspec.to_builtins(spec)}
        await self._client.create(self._kind, body, field_manager=FIELD_MANAGER)

    async def _delete(self, name: str, uid: str) -> None:
        await self._client.delete(self._kind, name, uid=uid)

    async def _counted(self, verb: str, call: Any) -> None:
        reason = f"{verb}{self._kind.kind}"
        try:
            await call
        except (AlreadyExists, NotFound):
            raise
        except ApiError:
            self._metrics.wrote(self._name, reason, ok=False)
            raise
        self._metrics.wrote(self._name, reason)


def _of_node(delta: Delta[NodeRecord]) -> Iterable[str]:
    if delta.old is not None and delta.new is not None:
        old, new = delta.old.facts, delta.new.facts
        if (old.uid, old.labels, old.annotations) == (new.uid, new.labels, new.annotations):
            return ()
    return (delta.key,)


def node_metric_loop(
    client: Client, sources: Sources, configuration: Configuration, metrics: ManagerMetrics
) -> NodeObjectLoop[MetricRecord, NodeMetricSpec]:
    """Loop `nodemetric`: how each node measures."""
    return NodeObjectLoop(
        "nodemetric",
        client,
        NODE_METRICS,
        sources.metrics,
        sources=sources,
        configuration=configuration,
        metrics=metrics,
        spec_of=lambda record: (record.row.uid, record.spec),
        wanted=lambda config, settings, present: node_metric.wanted_spec(config, settings.colocation, present),
        needs_colocation=True,
    )


def node_slo_loop(
    client: Client, sources: Sources, configuration: Configuration, metrics: ManagerMetrics
) -> NodeObjectLoop[NodeSLO, NodeSLOSpec]:
    """Loop `nodeslo`: how each node protects its services."""
    return NodeObjectLoop(
        "nodeslo",
        client,
        NODE_SLOS,
        sources.slos,
        sources=sources,
        configuration=configuration,
        metrics=metrics,
        spec_of=lambda slo: (slo.metadata.uid, slo.spec),
        wanted=lambda config, settings, present: node_slo.wanted_spec(settings, present, configuration.unusable),
        needs_colocation=False,
    )
