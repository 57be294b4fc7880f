"""What does the console cost on a large cluster, and how much do its viewers load?

Without an API server: rows as informers keep them go into the console's table, and the answers that its server sends
come out. A second of the server is its busiest usual one: nodes report, pods come and go, the map and the overview are
sent once for all viewers, and ten viewers reload a list of nodes and a list of pending pods every five seconds. Times
are CPU times.
"""

from __future__ import annotations

import gc
import gzip
import time
import tracemalloc
from typing import Any, Final, TypeVar

import msgspec

from koord.api.configuration.slo_config import SloConfig
from koord.api.configuration.slo_config_types import ColocationConfig
from koord.api.kubernetes.node import Node
from koord.api.machinery.codec import convert
from koord.api.machinery.struct import Struct
from koord.api.protocol.crd.node_metric import NodeMetric
from koord.console import listings
from koord.console.courses import Courses
from koord.console.node_map import delta_of, map_of
from koord.console.overview import Circumstances, overview_of
from koord.console.paging import DEFAULT_LIMIT, PageQuery, page_of
from koord.console.reasons import Reason
from koord.console.rows import PodRow, row_of_metric, row_of_node
from koord.console.table import ClusterTable
from koord_bench.harness import Progress, Report, Result, Size, cpu_times, silent, undisturbed

T = TypeVar("T", bound=Struct)
BENCH: Final = "console"
VIEWERS: Final = 10
REPORT_S: Final = 60
"""A node reports once a minute."""
RELOAD_S: Final = 5
LIVES_S: Final = 600
"""Of a pod."""
PENDING: Final = 0.02
"""Of all pods."""
SECONDS: Final = 10

FULL: Final = Size(nodes=5000, pods_a_node=10)
QUICK: Final = Size(nodes=200, pods_a_node=10)


def run(quick: bool = False, progress: Progress = silent) -> list[Result]:
    report, size = Report(BENCH, quick, progress), QUICK if quick else FULL
    pods = size.nodes * size.pods_a_node
    case = report.case(f"{size.nodes:,} nodes, {pods:,} pods, {VIEWERS} viewers")
    report.progress(f"filling a table with {size.nodes:,} nodes and {pods:,} pods")
    tracemalloc.start()
    cluster = Cluster(size.nodes, size.pods_a_node)
    gc.collect()
    held_bytes = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    case.add("memory of rows and figures", held_bytes / (1 << 20), "MiB", goal=300.0)
    report.progress("answering viewers")
    with undisturbed():
        second_s = sum(cpu_times(cluster.second, SECONDS)) / SECONDS
        load_s = min(cpu_times(cluster.map, 5))
        list_s = min(cpu_times(cluster.list_nodes, 5))
    case.add("CPU of a second", 100 * second_s, "% of a core", goal=20.0)
    case.add("the map, once for all viewers", 1000 * load_s, "ms", goal=500.0)
    case.add("the map, compressed", len(gzip.compress(cluster.map(), 1)) / 1000, "kB", goal=150.0)
    case.add("a list of nodes, sorted", 1000 * list_s, "ms", goal=100.0)
    case.add("an overview, compressed", len(gzip.compress(cluster.overview(), 1)) / 1000, "kB", goal=5.0)
    return report.rows


class Cluster:
    """The state of a console, and what happens to it."""

    def __init__(self, nodes: int, pods_a_node: int) -> None:
        self.now_s = time.time()
        self.table, self.courses = ClusterTable(), Courses(self.now_s)
        self.table.configured(SloConfig(colocation=ColocationConfig(enable=True)))
        self._nodes, self._turn = nodes, 0
        self._pods: list[PodRow] = []
        for i in range(nodes):
            self.table.node(None, row_of_node(_node(i)))
            self.table.metric(None, row_of_metric(_metric(i, 0, pods_a_node)))
            for k in range(pods_a_node):
                self._pods.append(_pod(i, k, pending=(i * pods_a_node + k) % round(1 / PENDING) == 0))
        for pod in self._pods:
            self.table.pod(None, pod)
        self._pods_a_node = pods_a_node
        self.table.refresh(self.now_s)

    def second(self) -> None:
        """What a console does in a second, with its answers to all viewers."""
        self._turn += 1
        for i in range(self._turn % REPORT_S, self._nodes, REPORT_S):
            old = self.table.metrics[f"node-{i:05}"]
            self.table.metric(old, row_of_metric(_metric(i, self._turn, self._pods_a_node)))
        for i in range(self._turn % LIVES_S, len(self._pods), LIVES_S):
            ended = self._pods[i]
            came = msgspec.structs.replace(ended, uid=f"{ended.uid}+", version=str(self._turn))
            self.table.pod(ended, None)
            self.table.pod(None, came)
            self._pods[i] = came
        changed = self.table.refresh(self.now_s)
        self.courses.sample(self.table, self.now_s + self._turn)
        msgspec.json.encode(delta_of(self.table, "bench", self._turn, changed))
        self.overview()
        for _ in range(VIEWERS // RELOAD_S):
            gzip.compress(self.list_nodes(), 1)
            gzip.compress(self.list_pending(), 1)

    def map(self) -> bytes:
        return msgspec.json.encode(map_of(self.table, "bench", self._turn, "pool"))

    def overview(self) -> bytes:
        about = Circumstances(
            epoch="bench",
            rev=self._turn,
            now_s=self.now_s,
            started_at_s=self.now_s,
            cluster="bench",
            pending=self._pending(),
        )
        return msgspec.json.encode(overview_of(self.table, about))

    def list_nodes(self) -> bytes:
        return _page(listings.nodes(self.table, self.now_s), "-usedPermille")

    def list_pending(self) -> bytes:
        return _page(listings.pending(self._pending(), self.now_s, lambda namespace: True), "")

    def _pending(self) -> list[tuple[PodRow, Reason]]:
        return [(pod, Reason("NodeResourcesFit", "NodeResourcesFit", 10, 0.0)) for pod in self.table.pending.values()]


def _page(listing: listings.Listing, sort: str) -> bytes:
    return msgspec.json.encode(
        page_of(listing.columns, listing.keys, PageQuery((), "", sort, DEFAULT_LIMIT, "")).columns
    )


def _node(i: int) -> Node:
    lent = {"kubernetes.io/batch-cpu": "12000", "kubernetes.io/batch-memory": "40Gi"}
    has = {"cpu": "32", "memory": "128Gi", "pods": "110", **lent}
    ready = {"type": "Ready", "status": "True"}
    return _made(
        Node, f"node-{i:05}", labels={"pool": f"pool-{i % 8}"}, capacity=has, allocatable=has, conditions=[ready]
    )


def _metric(i: int, turn: int, pods: int) -> NodeMetric:
    milli = 400 + (i * 7 + turn * 13) % 1200
    used: list[dict[str, Any]] = [
        {
            "namespace": f"team-{i % 20}",
            "name": f"pod-{i}-{k}",
            "podUsage": {"resources": {"cpu": f"{milli}m", "memory": "1Gi"}},
        }
        for k in range(pods)
    ]
    whole = {
        "nodeUsage": {"resources": {"cpu": f"{milli * pods + 900}m", "memory": f"{pods + 2}Gi"}},
        "systemUsage": {"resources": {"cpu": "900m", "memory": "2Gi"}},
    }
    return _made(NodeMetric, f"node-{i:05}", updateTime=_NOW, nodeMetric=whole, podsMetric=used)


_NOW: Final = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _made(kind: type[T], name: str, labels: dict[str, str] | None = None, **status: object) -> T:
    return convert(kind, {"metadata": {"name": name, "labels": labels or {}}, "status": status})


def _pod(i: int, k: int, *, pending: bool) -> PodRow:
    namespace, name, band = f"team-{i % 20}", f"pod-{i}-{k}", "batch" if k % 3 == 0 else "prod"
    return PodRow(
        key=f"{namespace}/{name}",
        uid=name,
        version="1",
        namespace=namespace,
        name=name,
        node="" if pending else f"node-{i:05}",
        band=band,
        qos="BE" if band == "batch" else "LS",
        phase="Pending" if pending else "Running",
        ready=not pending,
        ends=False,
        cpu_milli=2000,
        memory_bytes=1 << 30,
        created_at_s=0.0,
        scheduled_at_s=None if pending else 1.0,
        since_at_s=0.0,
        quota="",
        gang="",
        owner=f"ReplicaSet/app-{k}",
        scheduler_name="koord-scheduler",
        priority=5500 if band == "batch" else 9500,
        reason="Unschedulable" if pending else "",
        message="",
    )
