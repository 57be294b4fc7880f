"""The state of a cluster as the console keeps it: a table with a row for each node, and counts of pods.

Rows of objects come in, one change at a time; `refresh` recomputes the nodes that changed. The figures of a node are
those of `koord top` (`koord.operate.top.node_top`), as one row of integers, so that sums over all nodes are one
addition. A node keeps its row until the process ends; a row without a node is empty.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from koord.api.configuration.slo_config import SloConfig
from koord.api.protocol.annotations.colocation import COLOCATION_STRATEGY
from koord.console import shapes
from koord.console.rows import MetricRow, NodeRow, PodRow, pod_top
from koord.console.shapes import CORDONED, LENDING_OFF, NEEDS_ATTENTION, NO_REPORT, NOT_READY, ByBand, ResourceSummary
from koord.manager.colocation_switch import standing
from koord.operate.facts import FIRST_REPORT_S
from koord.operate.top import NO_USAGE, NodeTop, node_top

Integers = NDArray[np.int64]
RESOURCES: Final = ("cpu", "memory")
BANDS: Final = ("prod", "mid", "batch", "free")
_OF_EACH: Final = (
    *("capacity", "allocatable", "used_in_all"),
    *(f"used_{band}" for band in shapes.BANDS),
    *(f"asked_{band}" for band in BANDS),
    *("lent", "lent_left"),
)
FIELDS: Final = (*(f"{resource}_{name}" for resource in RESOURCES for name in _OF_EACH), "cpu_held_back", "pods")
COLUMN: Final[Mapping[str, int]] = {name: number for number, name in enumerate(FIELDS)}
FIRST_ROWS: Final = 64
LABELS: Final = {"zone": "topology.kubernetes.io/zone", "region": "topology.kubernetes.io/region"}
"""Short names of labels to group nodes by."""


class ClusterTable:
    """Nodes as rows of integers, and what else the pages count."""

    def __init__(self) -> None:
        self.names: list[str] = []
        "By row; empty for rows without a node."
        self.row_of: dict[str, int] = {}
        self.figures: Integers = np.zeros((FIRST_ROWS, len(FIELDS)), np.int64)
        self.marks: Integers = np.zeros(FIRST_ROWS, np.int64)
        self.reports: NDArray[np.bool_] = np.zeros(FIRST_ROWS, np.bool_)
        "Whether the node's report counts."
        self.knows_held_back: NDArray[np.bool_] = np.zeros(FIRST_ROWS, np.bool_)
        self._silent_at: NDArray[np.float64] = np.full(FIRST_ROWS, np.inf)
        self.nodes: dict[str, NodeRow] = {}
        self.metrics: dict[str, MetricRow] = {}
        self.tops: dict[str, NodeTop] = {}
        self.why_off: dict[str, str] = {}
        self.pods: dict[str, PodRow] = {}
        self.on_node: dict[str, dict[str, PodRow]] = {}
        self.pending: dict[str, PodRow] = {}
        self.pods_in: Counter[str] = Counter()
        "Pods by namespace."
        self.services_ready = self.services_total = 0
        self._quota_of: Callable[[str, str], str] = lambda label, namespace: label
        self._quotas: dict[tuple[str, str], str] = {}
        "Quotas by label and namespace of pods, as far as pods asked."
        self._labels: dict[str, str] = {}
        "The quota in the label of a pod, by key, where another one counts it."
        self._config: SloConfig | None = None
        self._stale: set[str] = set()
        "Names of nodes to recompute."

    # What informers say.

    def node(self, old: NodeRow | None, new: NodeRow | None) -> None:
        if new is not None:
            self.nodes[new.key] = new
        elif old is not None:
            self.nodes.pop(old.key, None)
        for row in (old, new):
            if row is not None:
                self._stale.add(row.key)

    def metric(self, old: MetricRow | None, new: MetricRow | None) -> None:
        if new is not None:
            self.metrics[new.key] = new
        elif old is not None:
            self.metrics.pop(old.key, None)
        for row in (old, new):
            if row is not None:
                self._stale.add(row.key)

    def pod(self, old: PodRow | None, new: PodRow | None) -> None:
        if old is not None:
            self._forget(old)
        if new is None:
            return
        new = self._counted(new)
        self.pods[new.key] = new
        self.pods_in[new.namespace] += 1
        if new.node and not new.ends:
            self.on_node.setdefault(new.node, {})[new.key] = new
            self._stale.add(new.node)
        if new.is_pending:
            self.pending[new.key] = new
        if new.is_service:
            self.services_total += 1
            self.services_ready += new.ready

    def _forget(self, old: PodRow) -> None:
        if self.pods.pop(old.key, None) is not None:
            self.pods_in[old.namespace] -= 1
            if not self.pods_in[old.namespace]:
                del self.pods_in[old.namespace]
        self.pending.pop(old.key, None)
        self._labels.pop(old.key, None)
        if old.node:
            self.on_node.get(old.node, {}).pop(old.key, None)
            self._stale.add(old.node)
        if old.is_service:
            self.services_total -= 1
            self.services_ready -= old.ready

    def _counted(self, pod: PodRow) -> PodRow:
        """The pod with the quota that counts it."""
        pair = (pod.quota, pod.namespace)
        quota = self._quotas.get(pair)
        if quota is None:
            quota = self._quotas[pair] = self._quota_of(*pair)
        if quota == pod.quota:
            return pod
        self._labels[pod.key] = pod.quota
        return msgspec.structs.replace(pod, quota=quota)

    def quotas_changed(self, quota_of: Callable[[str, str], str]) -> None:
        """`quota_of`: the quota of a pod, by label and namespace."""
        before, self._quota_of = self._quotas, quota_of
        self._quotas = {pair: quota_of(*pair) for pair in before}
        if self._quotas == before:
            return
        for key, pod in tuple(self.pods.items()):
            label = self._labels.get(key, pod.quota)
            if before[label, pod.namespace] == self._quotas[label, pod.namespace]:
                continue
            raw = msgspec.structs.replace(pod, quota=label)
            self._labels.pop(key, None)
            counted = self.pods[key] = self._counted(raw)
            for pods in (self.pending, self.on_node.get(pod.node, {})):
                if key in pods:
                    pods[key] = counted

    def configured(self, config: SloConfig | None) -> None:
        """slo-controller-config changed: other nodes may lend."""
        self._config = config
        self._stale.update(self.nodes)

    # The figures.

    def refresh(self, now_s: float) -> list[int]:
        """Recomputes what changed, and returns the rows that differ."""
        changed = []
        for name in self._stale:
            row = self._row_of(name)
            if row is not None and self._recompute(name, row, now_s):
                changed.append(row)
        self._stale.clear()
        due = np.flatnonzero((self._silent_at < now_s) & self.reports)
        for row in due.tolist():
            # A report became too old.
            if self._recompute(self.names[row], row, now_s):
                changed.append(row)
        return sorted(set(changed))

    def _row_of(self, name: str) -> int | None:
        row = self.row_of.get(name)
        if row is None and name in self.nodes:
            row = self.row_of[name] = len(self.names)
            self.names.append(name)
            if row >= len(self.marks):
                self._grow()
        return row

    def _grow(self) -> None:
        more = len(self.marks)
        self.figures = np.vstack((self.figures, np.zeros((more, len(FIELDS)), np.int64)))
        self.marks = np.concatenate((self.marks, np.zeros(more, np.int64)))
        self.reports = np.concatenate((self.reports, np.zeros(more, np.bool_)))
        self.knows_held_back = np.concatenate((self.knows_held_back, np.zeros(more, np.bool_)))
        self._silent_at = np.concatenate((self._silent_at, np.full(more, np.inf)))

    def _recompute(self, name: str, row: int, now_s: float) -> bool:
        node = self.nodes.get(name)
        before = (self.figures[row].copy(), int(self.marks[row]), bool(self.reports[row]), self.names[row])
        if node is None:
            self._empty(name, row)
            return True
        self.names[row] = name
        metric = self.metrics.get(name)
        reported_s = metric.reported_at_s if metric is not None else None
        silent_at_s = reported_s + metric.silent_after_s if metric is not None and reported_s is not None else -np.inf
        reports = now_s <= silent_at_s
        usage = metric.usage if metric is not None and reports else NO_USAGE
        pods = [pod_top(pod, usage) for pod in self.on_node.get(name, {}).values()]
        top = self.tops[name] = node_top(node.shown, pods, usage)
        self.reports[row] = reports
        self.knows_held_back[row] = reports and metric is not None and metric.held_back_milli is not None
        self._silent_at[row] = silent_at_s if reports else np.inf
        self.figures[row] = _figures(node, top, metric if reports else None)
        self.marks[row] = self._marks(node, reports=reports, now_s=now_s)
        figures, marks, reported, was = before
        return (
            was != name
            or marks != self.marks[row]
            or reported != reports
            or not np.array_equal(figures, self.figures[row])
        )

    def _empty(self, name: str, row: int) -> None:
        self.names[row] = ""
        self.row_of.pop(name, None)
        self.tops.pop(name, None)
        self.why_off.pop(name, None)
        self.figures[row] = 0
        self.marks[row] = 0
        self.reports[row] = self.knows_held_back[row] = False
        self._silent_at[row] = np.inf

    def _marks(self, node: NodeRow, *, reports: bool, now_s: float) -> int:
        marks = 0
        is_new = now_s - node.created_at_s <= FIRST_REPORT_S
        if not reports:
            marks |= NO_REPORT
        if not node.shown.ready:
            marks |= NOT_READY
        if node.shown.cordoned:
            marks |= CORDONED
        if self._config is not None:
            annotations = {str(COLOCATION_STRATEGY.key): node.strategy} if node.strategy else {}
            lends = standing(self._config, node.labels, annotations)
            if lends.on:
                self.why_off.pop(node.key, None)
            else:
                self.why_off[node.key] = lends.why
                marks |= LENDING_OFF
        if not node.shown.ready or (not reports and not is_new):
            marks |= NEEDS_ATTENTION
        return marks

    def sums(self, rows: Iterable[int] | None = None) -> dict[str, int]:
        """Of all nodes, or of some."""
        figures = self.figures[: len(self.names)] if rows is None else self.figures[list(rows)]
        return dict(zip(FIELDS, figures.sum(axis=0).tolist(), strict=True))

    def summary(self, resource: str, sums: Mapping[str, int], *, reports: bool, held_back: bool) -> ResourceSummary:
        """One resource of sums, or of one node."""
        prefix = f"{resource}_"
        used = ByBand(**{band: sums[f"{prefix}used_{band}"] for band in shapes.BANDS})
        asked = ByBand(**{band: sums[f"{prefix}asked_{band}"] for band in BANDS}, system=0)
        return ResourceSummary(
            capacity=sums[f"{prefix}capacity"],
            allocatable=sums[f"{prefix}allocatable"],
            used=used if reports else None,
            used_in_all=sums[f"{prefix}used_in_all"] if reports else None,
            asked=asked,
            lent=sums[f"{prefix}lent"],
            lent_left=sums[f"{prefix}lent_left"],
            held_back=sums["cpu_held_back"] if resource == "cpu" and held_back else None,
        )

    def of_row(self, row: int) -> dict[str, int]:
        return dict(zip(FIELDS, self.figures[row].tolist(), strict=True))

    def rows(self) -> list[int]:
        """Rows with a node."""
        return list(self.row_of.values())

    def group_of(self, row: int, by: str) -> str:
        """The group of a node: its pool, or the value of a label."""
        node = self.nodes.get(self.names[row])
        if node is None:
            return ""
        return node.pool if by == "pool" else node.labels.get(LABELS.get(by, by), f"no {by}")


def _figures(node: NodeRow, top: NodeTop, metric: MetricRow | None) -> list[int]:
    figures: list[int] = []
    system = {"cpu": metric.system_milli if metric else 0, "memory": metric.system_bytes if metric else 0}
    for resource, capacity in (("cpu", node.capacity_cpu_milli), ("memory", node.capacity_memory_bytes)):
        used = {band: amounts[resource] for band, amounts in top.used_by_band.items()}
        asked = {band: amounts[resource] for band, amounts in top.requested.items()}
        # Pods without a band count as services.
        used["prod"] += used["none"]
        asked["prod"] += asked["none"]
        lent = top.lent[resource]
        figures += [
            *(capacity, top.allocatable[resource], (top.used or {}).get(resource, 0)),
            *(used[band] for band in BANDS),
            *(system[resource], *(asked[band] for band in BANDS)),
            *(lent, lent - asked["mid"] - asked["batch"]),
        ]
    held_back = metric.held_back_milli if metric is not None else None
    return [*figures, held_back or 0, top.pods]
