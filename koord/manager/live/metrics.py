"""What the manager tells Prometheus, under the names that Koordinator's users know.

What is counted is told as a gauge, because a counter's name would get an ending that the one in Koordinator does not
have.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from prometheus_client import Gauge

from koord.kube.metrics import Metrics, Tracked
from koord.manager.node_resource.outcome import PluginOutcome
from koord.manager.node_resource.terms import Figure

_UNITS: Final = {"kubernetes.io/batch-memory": "byte", "kubernetes.io/mid-memory": "byte"}


class ManagerMetrics:
    def __init__(self, metrics: Metrics) -> None:
        self.metrics = metrics
        self.leading = metrics.gauge("koordinator_manager_is_leader", "1 while this process leads, else 0")
        self._reconciled = {
            name: metrics.gauge(f"slo_controller_{name}_reconcile_count", f"Writes of {name} by outcome", *_OUTCOME)
            for name in ("node_resource", "nodemetric", "nodeslo", "recommendation", "interferencepair")
        }
        self._plugins = metrics.gauge(
            "slo_controller_node_resource_run_plugin_status", "Runs of plugins by outcome", "plugin", *_OUTCOME
        )
        self._lent = Tracked(
            metrics.gauge(
                "slo_controller_node_extended_resource_allocatable_internal",
                "What a node lends as recomputed, published or not",
                "node",
                "resource",
                "unit",
            )
        )
        self._children: dict[tuple[str, ...], Gauge] = {}

    def wrote(self, what: str, reason: str, *, ok: bool = True) -> None:
        """A write of a controller: what it was for, and whether it came through."""
        self._counted(self._reconciled[what], what, "succeeded" if ok else "failed", reason)

    def ran(self, outcomes: Iterable[PluginOutcome]) -> None:
        """Plugins have run for a node."""
        for each in outcomes:
            status = "failed" if each.failed else "succeeded"
            self._counted(self._plugins, each.plugin, each.plugin, status, "Calculate")

    def lends(self, node: str, figures: Iterable[Figure]) -> None:
        """Milli-cores are told in cores."""
        for each in figures:
            unit = _UNITS.get(each.resource, "integer")
            amount = each.amount / 1000 if each.resource.endswith("-cpu") else each.amount
            self._lent.of(node, node, each.resource, unit).set(amount)

    def forget(self, node: str) -> None:
        self._lent.forget(node)

    def _counted(self, family: Gauge, what: str, *labels: str) -> None:
        child = self._children.get((what, *labels))
        if child is None:
            child = self._children[what, *labels] = family.labels(*labels)
        child.inc()


_OUTCOME: Final = ("status", "reason")
