"""What the nodes in manifests lend, and how another configuration would change that."""

from __future__ import annotations

import json
from typing import Any

from koord.api.text.manifest import Manifests, parse
from koord.api.text.timestamp import from_seconds
from koord.offline.node_resources import recomputed, slo_config, states

NOW_S = 1_800_000_000.0
CPU = "kubernetes.io/batch-cpu"


def cluster(colocation: Any, namespace: str = "koordinator-system") -> Manifests:
    status = {
        "updateTime": from_seconds(NOW_S),
        "nodeMetric": {"systemUsage": {"resources": {"cpu": "2", "memory": "1Gi"}}},
    }
    objects: list[dict[str, Any]] = [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "10"}}},
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n2"}, "status": {"capacity": {"cpu": "20"}}},
        {
            "apiVersion": "slo.koordinator.sh/v1alpha1",
            "kind": "NodeMetric",
            "metadata": {"name": "n1"},
            "status": status,
        },
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "slo-controller-config", "namespace": namespace},
            "data": {"colocation-config": colocation if isinstance(colocation, str) else json.dumps(colocation)},
        },
    ]
    return parse("\n---\n".join(map(json.dumps, objects)), "test")


def lent(manifests: Manifests, by: Manifests) -> dict[str, int | None]:
    found = recomputed(manifests, slo_config(by), now_s=NOW_S)
    return {name: shown.resources.get(CPU) for name, shown in found.items()}


def test_a_node_without_capacity_has_what_is_allocatable_and_one_without_a_report_lends_nothing() -> None:
    before = cluster({"enable": True})
    assert lent(before, before) == {"n1": 4000, "n2": None}


def test_another_configuration_can_be_tried_on_the_same_nodes() -> None:
    before, after = cluster({"enable": True}), cluster({"enable": True, "cpuReclaimThresholdPercent": 90})
    assert lent(before, after)["n1"] == 7000
    assert lent(before, cluster({"enable": False}))["n1"] is None


def test_a_map_in_another_namespace_is_not_the_configuration_and_it_is_said() -> None:
    manager_configuration = slo_config(cluster({"enable": True}, namespace="default"))
    assert not manager_configuration.config.is_colocation_enabled
    assert "default/slo-controller-config" in manager_configuration.notes[0]


def test_a_section_that_cannot_be_read_is_said_and_lends_nothing_on_a_fresh_start() -> None:
    manager_configuration = slo_config(cluster("{"))
    assert manager_configuration.unusable == {"colocation-config"}
    assert "is not JSON" in manager_configuration.notes[0]
    assert states(cluster("{"), manager_configuration.unusable)["n1"].unusable == manager_configuration.unusable
