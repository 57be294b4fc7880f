"""What modelled nodes tell Prometheus in place of their agents: usage by node and pod, and what best effort gets.

The names are the agent's, so that dashboards show hollow nodes as they show others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from koord.api.kubernetes.pod import Pod
from koord.api.protocol.priority import priority_class, qos_class
from koord.kube.metrics import Metrics, Table
from koord_minicluster.hollow.load_model import NodeUsage, Usage
from koord_minicluster.hollow.machine import Machine

CORE_MILLI: Final = 1000

Labels = tuple[tuple[str, str], ...]


class Figures:
    def __init__(self, metrics: Metrics) -> None:
        pod = ("pod_namespace", "pod_name", "qos", "priority")
        self._nodes = metrics.table("koordlet_node_usage", "Used by the node", "node", "resource")
        self._pods = metrics.table("koordlet_pod_usage", "Used by a pod", "node", *pod, "resource")
        text = "Of best effort: used, requested and really allowed"
        self._best_effort = metrics.table("koordlet_be_cpu_milli", text, "node", "what")
        self._pods_of: dict[str, set[Labels]] = {}
        "The series of each node's pods."

    def put(
        self, machine: Machine, pods: Sequence[Pod], usage: NodeUsage, best_effort_milli: Mapping[str, int]
    ) -> None:
        """A node's figures of the moment. `best_effort_milli`: used, request and limit."""
        node = machine.name
        _put(self._nodes, (("node", node),), usage.total)
        for what, amount in best_effort_milli.items():
            self._best_effort.put({"node": node, "what": what}, amount)
        present: set[Labels] = set()
        for pod, used in zip(pods, usage.pods, strict=True):
            meta = pod.metadata
            labels: Labels = (
                ("node", node),
                ("pod_namespace", meta.namespace),
                ("pod_name", meta.name),
                ("qos", str(qos_class(pod))),
                ("priority", str(priority_class(pod))),
            )
            _put(self._pods, labels, used)
            present.add(labels)
        for gone in self._pods_of.get(node, set()) - present:
            _put(self._pods, gone, None)
        self._pods_of[node] = present


def _put(table: Table, labels: Labels, used: Usage | None) -> None:
    """`used`: None removes the series."""
    for resource, amount in (
        ("cpu", None if used is None else used.cpu_milli / CORE_MILLI),
        ("memory", None if used is None else float(used.memory_bytes)),
    ):
        table.put({**dict(labels), "resource": resource}, amount)
