"""Courses over time, as the server saw them since it started: the cluster every 10 s for 24 h, each node every minute
for 2 h.

The values of nodes are thousandths of their CPU in 16 bits, so that 5,000 nodes take 12 MB. Asked for a number of
points, a course is averaged over equal steps.
"""

from __future__ import annotations

from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from koord.console.shapes import BANDS, Series, WorthMoment
from koord.console.table import COLUMN, ClusterTable

CLUSTER_STEP_S: Final = 10.0
CLUSTER_KEPT_S: Final = 24 * 3600.0
NODE_STEP_S: Final = 60.0
NODE_KEPT_S: Final = 2 * 3600.0
UNKNOWN: Final = -1
Resource = Literal["cpu", "memory"]
_OF_CLUSTER: Final = ("capacity", *BANDS, "asked_prod", "lent", "held_back", "asked_lent")
_OF_NODE: Final = (*BANDS, "held_back", "lent", "asked_prod", "memory")
_OWN: Final = ("memory", "asked_lent")
"""Columns that a series does not show."""
_UNITS: Final[dict[Resource, Literal["milli-cores", "bytes"]]] = {"cpu": "milli-cores", "memory": "bytes"}


class Courses:
    """Rings of samples. `sample` is called once a second or so; the newest sample of a step is kept."""

    def __init__(self, now_s: float) -> None:
        self.since_s = now_s
        self._cluster_size = int(CLUSTER_KEPT_S / CLUSTER_STEP_S)
        self._cluster: dict[str, NDArray[np.int64]] = {
            resource: np.full((self._cluster_size, len(_OF_CLUSTER)), UNKNOWN, np.int64)
            for resource in ("cpu", "memory")
        }
        self._node_size = int(NODE_KEPT_S / NODE_STEP_S)
        self._nodes: NDArray[np.int16] = np.full((self._node_size, 0, len(_OF_NODE)), UNKNOWN, np.int16)
        self._cluster_at = self._node_at = -1
        "The number of the last sample, counted from `since_s`."

    def sample(self, table: ClusterTable, now_s: float) -> None:
        cluster_at = int((now_s - self.since_s) // CLUSTER_STEP_S)
        self._skip(cluster_at, self._cluster_at, self._cluster_size, *self._cluster.values())
        self._cluster_at = cluster_at
        sums, reports = table.sums(), bool(table.reports.any())
        holds = bool(table.knows_held_back.any())
        for resource, ring in self._cluster.items():
            ring[cluster_at % self._cluster_size] = [
                sums[f"{resource}_capacity"],
                *(sums[f"{resource}_used_{band}"] if reports else UNKNOWN for band in BANDS),
                sums[f"{resource}_asked_prod"],
                sums[f"{resource}_lent"],
                sums["cpu_held_back"] if resource == "cpu" and holds else UNKNOWN,
                sums[f"{resource}_asked_mid"] + sums[f"{resource}_asked_batch"],
            ]
        node_at = int((now_s - self.since_s) // NODE_STEP_S)
        self._widen(len(table.names))
        self._skip(node_at, self._node_at, self._node_size, self._nodes)
        self._node_at = node_at
        self._nodes[node_at % self._node_size, : len(table.names)] = _of_nodes(table)

    def _widen(self, nodes: int) -> None:
        have = self._nodes.shape[1]
        if nodes > have:
            more = np.full((self._node_size, max(nodes, 2 * have) - have, len(_OF_NODE)), UNKNOWN, np.int16)
            self._nodes = np.concatenate((self._nodes, more), axis=1)

    @staticmethod
    def _skip(at: int, last: int, size: int, *rings: NDArray[np.int64] | NDArray[np.int16]) -> None:
        """Times at which nothing was sampled are unknown."""
        for missed in range(max(last + 1, at - size), at):
            for ring in rings:
                ring[missed % size] = UNKNOWN

    def of_cluster(self, resource: Resource, from_s: float, to_s: float, points: int) -> Series:
        ring, at = self._cluster[resource], self._cluster_at
        samples, t0_s = self._window(ring, at, self._cluster_size, CLUSTER_STEP_S, from_s, to_s)
        return self._series("cluster", resource, samples, t0_s, CLUSTER_STEP_S, points, _OF_CLUSTER)

    def worth(self, from_s: float, to_s: float, points: int) -> tuple[WorthMoment, ...]:
        """What was lent, asked for and used of the cluster's CPU."""
        samples, t0_s = self._window(
            self._cluster["cpu"], self._cluster_at, self._cluster_size, CLUSTER_STEP_S, from_s, to_s
        )
        merged = max(1, -(-len(samples) // max(1, points)))
        names = ("lent", "asked_lent", "mid", "batch")
        offered, lent, *used = (_averaged(samples[:, _OF_CLUSTER.index(name)], merged) for name in names)
        return tuple(
            WorthMoment(
                at_s=t0_s + i * merged * CLUSTER_STEP_S,
                offered_milli=offered[i] or 0,
                lent_milli=lent[i] or 0,
                used_milli=sum(values[i] or 0 for values in used),
            )
            for i in range(len(offered))
            if offered[i] is not None and used[0][i] is not None
        )

    def of_node(self, name: str, row: int, capacity: int, from_s: float, to_s: float, points: int) -> Series:
        ring = (
            self._nodes[:, row]
            if row < self._nodes.shape[1]
            else np.full((self._node_size, len(_OF_NODE)), UNKNOWN, np.int16)
        )
        samples, t0_s = self._window(ring.astype(np.int64), self._node_at, self._node_size, NODE_STEP_S, from_s, to_s)
        amounts = np.where(samples == UNKNOWN, UNKNOWN, samples * capacity // 1000)
        known = np.full((len(amounts), 1), capacity, np.int64)
        columns = np.hstack((known, amounts))
        return self._series(f"node/{name}", "cpu", columns, t0_s, NODE_STEP_S, points, ("capacity", *_OF_NODE))

    def _window(
        self, ring: NDArray[np.int64], at: int, size: int, step_s: float, from_s: float, to_s: float
    ) -> tuple[NDArray[np.int64], float]:
        first = max(0, at - size + 1, int((from_s - self.since_s) // step_s))
        last = min(at, int((to_s - self.since_s) // step_s))
        numbers = np.arange(first, max(first, last + 1))
        return ring[numbers % size], self.since_s + first * step_s

    def _series(
        self,
        scope: str,
        resource: Resource,
        samples: NDArray[np.int64],
        t0_s: float,
        step_s: float,
        points: int,
        names: tuple[str, ...],
    ) -> Series:
        merged = max(1, -(-len(samples) // max(1, points)))
        columns = {name: _averaged(samples[:, i], merged) for i, name in enumerate(names) if name not in _OWN}
        return Series(
            scope=scope,
            resource=resource,
            unit=_UNITS[resource],
            t0_at_s=t0_s,
            step_s=step_s * merged,
            **columns,
            source="server",
            since_at_s=self.since_s,
            note="since the console started; koord console --prometheus URL shows more",
        )


def _of_nodes(table: ClusterTable) -> NDArray[np.int64]:
    figures = table.figures[: len(table.names)]
    reports = table.reports[: len(table.names), None]
    cpu = np.maximum(figures[:, COLUMN["cpu_capacity"]], 1)[:, None]
    memory = np.maximum(figures[:, COLUMN["memory_capacity"]], 1)[:, None]
    of_cpu = [f"cpu_used_{band}" for band in BANDS]
    used = figures[:, [COLUMN[name] for name in of_cpu]] * 1000 // cpu
    held_back = figures[:, [COLUMN["cpu_held_back"]]] * 1000 // cpu
    held_back = np.where(table.knows_held_back[: len(table.names), None], held_back, UNKNOWN)
    asked = figures[:, [COLUMN["cpu_lent"], COLUMN["cpu_asked_prod"]]] * 1000 // cpu
    of_memory = figures[:, [COLUMN["memory_used_in_all"]]] * 1000 // memory
    columns = np.hstack((used, held_back, asked, of_memory))
    columns[:, [0, 1, 2, 3, 4, 8]] = np.where(reports, columns[:, [0, 1, 2, 3, 4, 8]], UNKNOWN)
    return np.clip(columns, UNKNOWN, np.iinfo(np.int16).max)


def _averaged(values: NDArray[np.int64], merged: int) -> list[int | None]:
    """Means over steps; unknown samples do not count."""
    averaged: list[int | None] = []
    for start in range(0, len(values), merged):
        part = values[start : start + merged]
        present = part[part != UNKNOWN]
        averaged.append(round(float(present.mean())) if len(present) else None)
    return averaged
