"""Records a running cluster: the reports of its nodes as they come, with sizes and requests from the API."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from koord.api import kinds
from koord.api.protocol.crd.node_metric import NodeMetric
from koord.kube.client import Client
from koord.kube.errors import ApiError, Forbidden, NotFound
from koord.sim.history.reports import add_report, facts_of_node, facts_of_pod, report_time_s, uses_of
from koord.sim.history.rows import Lines, NodeFacts, PodFacts
from koord.sim.live.recording_folder import RecordingFolder

FACTS_WITHIN_S: Final = 60.0
FEW_PODS: Final = 50
"New pods in a round that are read one by one; of more, all pods are listed."
NODES_AGAIN_S: Final = 3600.0
FORGET_S: Final = 3600.0
"A pod without a report for this time is read again if it comes back."


@dataclass(frozen=True, slots=True)
class Recorded:
    """How far a recording is."""

    rounds: int
    reports: int
    nodes: int
    pods: int
    unknown_pods: int
    bytes: int
    fault: str = ""
    "Why the last round failed; the next one tries again."


@dataclass(slots=True)
class ClusterRecording:
    client: Client
    folder: RecordingFolder
    pool_label: str = ""
    lines: Lines = field(default_factory=Lines)
    reports: int = 0
    rounds: int = 0
    _pods: dict[str, PodFacts | None] = field(default_factory=dict)
    _nodes: dict[str, NodeFacts | None] = field(default_factory=dict)
    _nodes_read_s: float = -NODES_AGAIN_S
    _last_s: dict[str, float] = field(default_factory=dict)
    "When a report last named a pod."

    async def run(
        self,
        every_s: float,
        now_s: Callable[[], float],
        until_s: float | None,
        stop: asyncio.Event,
        progress: Callable[[Recorded], None],
    ) -> Recorded:
        """Rounds until a time, a signal, or a full folder. A round that fails is retried at the next one, except the
        first: a mistake in an option must not wait."""
        while True:
            fault = ""
            try:
                await self.round(now_s())
            except (ApiError, OSError, TimeoutError) as error:
                if not self.rounds:
                    raise
                fault = str(error)
            recorded = self.recorded(fault)
            progress(recorded)
            rest_s = every_s if until_s is None else min(every_s, until_s - now_s())
            if self.folder.is_full or rest_s <= 0 or stop.is_set():
                return recorded
            try:
                async with asyncio.timeout(rest_s):
                    await stop.wait()
            except TimeoutError:
                continue

    async def round(self, now_s: float) -> None:
        """Appends all reports that are new since the last round, and the pods that they mention."""
        new: list[tuple[NodeMetric, int]] = []
        written_s = self.folder.state.until_s
        async for page in self.client.typed_pages(kinds.NODE_METRICS):
            for report in page.items:
                time_s = report_time_s(report)
                if time_s is not None and time_s > written_s.get(report.metadata.name, -1.0):
                    new.append((report, time_s))
        await self._read_nodes({report.metadata.name for report, _ in new}, now_s)
        await self._read_pods({use.pod for report, time_s in new for use in uses_of(report, time_s)}, now_s)
        for report, time_s in new:
            add_report(self.lines, report, time_s, self._nodes.get(report.metadata.name), self._pods.get)
        times = {report.metadata.name: float(time_s) for report, time_s in new}
        self.folder.append(self.lines.taken(), times, tuple(times.values()))
        self.reports += len(new)
        self.rounds += 1

    def recorded(self, fault: str = "") -> Recorded:
        pods, unknown_pods = self.lines.pods, self.lines.unknown_pods
        nodes = len(self.folder.state.until_s)
        return Recorded(self.rounds, self.reports, nodes, pods, unknown_pods, self.folder.bytes, fault)

    async def _read_nodes(self, names: Iterable[str], now_s: float) -> None:
        is_due = now_s - self._nodes_read_s >= NODES_AGAIN_S
        if is_due or any(name not in self._nodes for name in names):
            async for page in self.client.typed_pages(kinds.NODES):
                self._nodes |= {node.metadata.name: facts_of_node(node, self.pool_label) for node in page.items}
            self._nodes |= {name: None for name in names if name not in self._nodes}
            self._nodes_read_s = now_s

    async def _read_pods(self, wanted: set[str], now_s: float) -> None:
        """Pods that are new. Pods that ended are forgotten after a time."""
        self._last_s |= dict.fromkeys(wanted, now_s)
        for name in [name for name, last_s in self._last_s.items() if now_s - last_s > FORGET_S]:
            del self._last_s[name]
            self._pods.pop(name, None)
            self.lines.started.discard(name)
        missing = sorted(wanted - self._pods.keys())
        if len(missing) > FEW_PODS:
            async for page in self.client.typed_pages(kinds.PODS):
                facts: Mapping[str, PodFacts] = {
                    f"{pod.metadata.namespace}/{pod.metadata.name}": facts_of_pod(pod) for pod in page.items
                }
                self._pods |= {name: facts[name] for name in facts.keys() & wanted}
            self._pods |= {name: None for name in missing if name not in self._pods}
            return
        for key in missing:
            namespace, _, name = key.partition("/")
            try:
                self._pods[key] = facts_of_pod(await self.client.get(kinds.PODS, name, namespace=namespace))
            except NotFound:
                self._pods[key] = None


def missing_right(error: ApiError) -> str:
    """What a user must be allowed to do, for a refusal."""
    needed = "list nodemetrics.slo.koordinator.sh, nodes and pods in all namespaces, and get pods"
    return f"{error}; koord sim record needs the rights to {needed}" if isinstance(error, Forbidden) else str(error)


async def facts_of_cluster(
    kubeconfig: str | None, context: str | None, pool_label: str
) -> tuple[dict[str, PodFacts], dict[str, NodeFacts]]:
    """What the API says about all pods and nodes, by their names."""
    pods: dict[str, PodFacts] = {}
    nodes: dict[str, NodeFacts] = {}
    async with asyncio.timeout(FACTS_WITHIN_S), Client.from_config(kubeconfig, context) as whole:
        client = whole.limited(attempts=1)
        async for page in client.typed_pages(kinds.PODS):
            pods |= {f"{pod.metadata.namespace}/{pod.metadata.name}": facts_of_pod(pod) for pod in page.items}
        async for nodes_page in client.typed_pages(kinds.NODES):
            for node in nodes_page.items:
                if (facts := facts_of_node(node, pool_label)) is not None:
                    nodes[node.metadata.name] = facts
    return pods, nodes
