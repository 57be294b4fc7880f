"""What the manager tells Prometheus, under the names that Koordinator's users know.

Counts are exported as gauges, because a counter's name would get a suffix that Koordinator's metric does not have.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Final

from prometheus_client import Gauge

from koord.kube.metrics import Metrics, Tracked
from koord.manager.figures import Figure
from koord.manager.plugin import PluginOutcome

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
        self._reports: dict[str, str] = {}
        by_report = metrics.gauge(
            "koord_manager_nodes", "Nodes by their report: fresh, stale (nothing is lent) or missing", "report"
        )
        for word in REPORTS:
            by_report.labels(word).set_function(partial(self._with_report, word))
        self.configuration_faults = metrics.gauge(
            "koord_manager_configuration_faults",
            "Sections of slo-controller-config that cannot be used; the last valid value of each stays in force",
        )
        self._shares = metrics.table(
            "koord_manager_rollout_percent", "Share of the nodes that a roll-out has reached", "feature"
        )
        self._stopped = metrics.table(
            "koord_manager_rollout_stopped", "1 while a roll-out is stopped, else 0", "feature"
        )
        self._children: dict[tuple[str, ...], Gauge] = {}

    def wrote(self, what: str, reason: str, *, ok: bool = True) -> None:
        """A write of a controller: what it was for, and whether it came through."""
        self._counted(self._reconciled[what], what, "succeeded" if ok else "failed", reason)

    def ran(self, outcomes: Iterable[PluginOutcome]) -> None:
        """Plugins have run for a node."""
        for outcome in outcomes:
            status = "failed" if outcome.failed else "succeeded"
            self._counted(self._plugins, outcome.plugin, outcome.plugin, status, "Calculate")

    def lends(self, node: str, figures: Iterable[Figure]) -> None:
        """Exports the lent resources of a node; milli-cores are converted to cores."""
        for figure in figures:
            unit = _UNITS.get(figure.resource, "integer")
            amount = figure.amount / 1000 if figure.resource.endswith("-cpu") else figure.amount
            self._lent.of(node, node, figure.resource, unit).set(amount)

    def reported(self, node: str, distrust: str, *, has_report: bool) -> None:
        """`distrust`: why the node's report is not believed; empty where it is."""
        self._reports[node] = FRESH if not distrust else STALE if has_report else MISSING

    def _with_report(self, word: str) -> int:
        # Scrapes run in a thread: a copy in one step, since nodes may join concurrently.
        return list(self._reports.values()).count(word)

    def rolls_out(self, feature: str, percent: int | None, *, is_stopped: bool = False) -> None:
        """How far a roll-out is; None: there is none."""
        self._shares.put({"feature": feature}, percent)
        self._stopped.put({"feature": feature}, None if percent is None else is_stopped)

    def forget(self, node: str) -> None:
        self._lent.forget(node)
        self._reports.pop(node, None)

    def _counted(self, family: Gauge, what: str, *labels: str) -> None:
        child = self._children.get((what, *labels))
        if child is None:
            child = self._children[what, *labels] = family.labels(*labels)
        child.inc()


FRESH, STALE, MISSING = "fresh", "stale", "missing"
REPORTS: Final = (FRESH, STALE, MISSING)
_OUTCOME: Final = ("status", "reason")
