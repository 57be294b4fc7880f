"""What the operator tells Prometheus, under the names that Koordinator's users know."""

from __future__ import annotations

from collections.abc import Collection

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

        self._unconfirmed = metrics.table(
            "koord_yarn_cap_unconfirmed_seconds",
            "For how long a cap that was told to YARN has not been seen in force; 0 where none is open",
            "node_manager",
            "cluster",
        )
        self._since_s: dict[tuple[str, str], float] = {}
        self._noted: set[tuple[str, str]] = set()

    def confirmed(self, cluster: str, node_id: str, *, is_open: bool, now_s: float) -> None:
        """`is_open`: whether a cap was sent and is not confirmed yet."""
        key = cluster, node_id
        if is_open:
            self._since_s.setdefault(key, now_s)
        else:
            self._since_s.pop(key, None)
        open_s = now_s - self._since_s.get(key, now_s)
        self._unconfirmed.put({"node_manager": node_id, "cluster": cluster}, open_s)

    def keep(self, keys: Collection[tuple[str, str]]) -> None:
        """No other NodeManager is of a node that exists."""
        for cluster, node_id in self._noted - set(keys):
            self.forget(cluster, node_id)
            self._unconfirmed.put({"node_manager": node_id, "cluster": cluster}, None)
            self._since_s.pop((cluster, node_id), None)
        self._noted = set(keys)

    def node(self, cluster: str, report: NodeReport) -> None:
        amounts = (report.cap.vcores, report.cap.memory_bytes, report.used.vcores, report.used.memory_bytes)
        for gauge, amount in zip(self._gauges.values(), amounts, strict=True):
            gauge.labels(report.node_id, cluster).set(amount)

    def forget(self, cluster: str, node_id: str) -> None:
        for gauge in self._gauges.values():
            gauge.remove(node_id, cluster)
