"""The manager's metrics, under the names that dashboards of Koordinator ask for."""

from __future__ import annotations

from koord.kube.metrics import Metrics
from koord.manager.live.metrics import ManagerMetrics
from tests.manager.builders import base, config, outcomes, prepared, state


def test_runs_writes_and_figures_are_told() -> None:
    metrics = Metrics(process=False)
    manager_metrics = ManagerMetrics(metrics)
    given = state(report=base())
    manager_metrics.ran(outcomes(given, config()))
    manager_metrics.lends("n1", prepared(given, config()).figures)
    manager_metrics.wrote("node_resource", "updateNodeStatus")
    manager_metrics.wrote("nodemetric", "createNodeMetric", ok=False)
    manager_metrics.leading.set(1)

    def value(name: str, **labels: str) -> float | None:
        return metrics.registry.get_sample_value(name, labels)

    assert value("koordinator_manager_is_leader") == 1
    prefix = "slo_controller"
    assert value(f"{prefix}_node_resource_reconcile_count", status="succeeded", reason="updateNodeStatus") == 1
    assert value(f"{prefix}_nodemetric_reconcile_count", status="failed", reason="createNodeMetric") == 1
    ran = value(
        f"{prefix}_node_resource_run_plugin_status",
        plugin="BatchResource",
        status="succeeded",
        reason="Calculate",
    )
    assert ran == 1
    gauge = f"{prefix}_node_extended_resource_allocatable_internal"
    assert value(gauge, node="n1", resource="kubernetes.io/batch-cpu", unit="integer") == 26.7
    assert value(gauge, node="n1", resource="kubernetes.io/batch-memory", unit="byte") == 137868450202
    manager_metrics.forget("n1")
    assert value(gauge, node="n1", resource="kubernetes.io/batch-cpu", unit="integer") is None
