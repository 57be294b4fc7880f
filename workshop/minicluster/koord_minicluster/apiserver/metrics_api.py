"""metrics.k8s.io: what `kubectl top` shows, told from the NodeMetric objects that agents report.

There is no metrics server: koord's agents (or hollow nodes) report usage as NodeMetric, and this is another view of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from koord.api.text.timestamp import from_seconds, parse_timestamp
from koord_minicluster.apiserver import computed
from koord_minicluster.apiserver.http import Request
from koord_minicluster.apiserver.resource import Obj, Resource
from koord_minicluster.apiserver.store import Collection
from koord_minicluster.apiserver.wire.answers import Answer

NODE_METRICS = "nodemetrics.slo.koordinator.sh"
DEFAULT_WINDOW_S = 60


class MetricsApi:
    """Handlers of the two virtual resources. `collection` gives None while a kind is not served."""

    def __init__(self, collection: Callable[[str], Collection | None]) -> None:
        self._collection = collection

    def handlers(self) -> dict[tuple[str, str], Callable[[Request, Resource], Any]]:
        return {("nodes.metrics.k8s.io", ""): self.nodes, ("pods.metrics.k8s.io", ""): self.pods}

    async def nodes(self, request: Request, resource: Resource) -> Answer:
        return computed.answer(request, resource, self._nodes())

    async def pods(self, request: Request, resource: Resource) -> Answer:
        namespace = request.info.namespace
        items = (item for item in self._pods() if not namespace or item["metadata"]["namespace"] == namespace)
        return computed.answer(request, resource, items)

    def _reports(self) -> Iterator[Obj]:
        reports = self._collection(NODE_METRICS)
        for entry in reports.entries() if reports is not None else ():
            report: Obj = msgspec.json.decode(entry.value)
            if (report.get("status") or {}).get("updateTime"):
                yield report

    def _nodes(self) -> Iterator[Obj]:
        for report in self._reports():
            usage = ((report["status"].get("nodeMetric") or {}).get("nodeUsage") or {}).get("resources") or {}
            name = report["metadata"]["name"]
            yield {**_head(report, name, "", self._labels("nodes", name)), "usage": usage}

    def _pods(self) -> Iterator[Obj]:
        for report in self._reports():
            for pod in report["status"].get("podsMetric") or ():
                namespace, name = pod.get("namespace", ""), pod.get("name", "")
                usage = (pod.get("podUsage") or {}).get("resources") or {}
                labels = self._labels("pods", f"{namespace}/{name}")
                used_by = (pod.get("extensions") or {}).get("containers") or {self._container(namespace, name): usage}
                containers = [{"name": container, "usage": used} for container, used in used_by.items()]
                yield {**_head(report, name, namespace, labels), "containers": containers}

    def _labels(self, collection: str, key: str) -> dict[str, str]:
        objects = self._collection(collection)
        entry = objects.get(key) if objects is not None else None
        return dict(entry.index.labels) if entry is not None else {}

    def _container(self, namespace: str, name: str) -> str:
        """Where a report does not tell containers apart, the whole is shown under the first."""
        pods = self._collection("pods")
        entry = pods.get(f"{namespace}/{name}") if pods is not None else None
        if entry is None:
            return name
        containers = msgspec.json.decode(entry.value)["spec"]["containers"]
        return str(containers[0]["name"])


def _head(report: Obj, name: str, namespace: str, labels: dict[str, str]) -> Obj:
    updated = report["status"]["updateTime"]
    policy = (report.get("spec") or {}).get("metricCollectPolicy") or {}
    window_s = policy.get("reportIntervalSeconds") or DEFAULT_WINDOW_S
    meta: Obj = {"name": name, "creationTimestamp": from_seconds(parse_timestamp(updated))}
    if namespace:
        meta["namespace"] = namespace
    if labels:
        meta["labels"] = labels
    return {"metadata": meta, "timestamp": updated, "window": f"{window_s}s"}
