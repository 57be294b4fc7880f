"""What the operator tells Prometheus, under the names that Koordinator's users know."""

from __future__ import annotations

from koord.kube.metrics import Metrics
from koord.yarn.hadoop.messages import NodeReport


class YarnMetrics:
    def __init__(self, metrics: Metrics) -> None:
        self.metrics = metrics
        self._gauges = {
            name: metrics.gauge(name, text, "instance", "cluster")
            for name, text in (
                ("yarn_node_cpu_resource", "vcores that a NodeManager may use"),
                ("yarn_node_memory_resource", "Bytes that a NodeManager may use"),
                ("yarn_node_cpu_allocated_resource", "vcores of a NodeManager's containers"),
                ("yarn_node_memory_allocated_resource", "Bytes of a NodeManager's containers"),
            )
        }

    def node(self, cluster: str, report: NodeReport) -> None:
        amounts = (report.cap.vcores, report.cap.memory_bytes, report.used.vcores, report.used.memory_bytes)
        for gauge, amount in zip(self._gauges.values(), amounts, strict=True):
            gauge.labels(report.node_id, cluster).set(amount)

    def forget(self, cluster: str, node_id: str) -> None:
        for gauge in self._gauges.values():
            gauge.remove(node_id, cluster)
