"""Bands over time from Prometheus, for ranges that begin before the console did."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Final

from koord.console.courses import CLUSTER_STEP_S, Resource
from koord.console.shapes import BANDS, Series
from koord.operate.bands import band_of
from koord.operate.live.prometheus import Prometheus

KEPT_S: Final = 20.0
MOST_KEPT: Final = 64
Points = Sequence[tuple[float, float]]
Answer = list[tuple[Mapping[str, str], Points]]


class History:
    """Answers are kept for a few seconds, for all viewers."""

    def __init__(self, prometheus: Prometheus) -> None:
        self._prometheus = prometheus
        self._kept: dict[tuple[str, Resource, int, int], tuple[float, Series]] = {}

    async def series(
        self, node: str, resource: Resource, capacity: int, from_s: float, to_s: float, points: int
    ) -> Series:
        """Of a node, or of the cluster where `node` is empty. `capacity`: now, since Prometheus has none.

        Raises `ReportError`.
        """
        key = (node, resource, round((to_s - from_s) / KEPT_S), points)
        kept = self._kept.get(key)
        if kept is not None and time.monotonic() - kept[0] < KEPT_S:
            return kept[1]
        step_s = max(CLUSTER_STEP_S, (to_s - from_s) / max(1, points))
        answers = await asyncio.to_thread(self._ask, node, resource, from_s, to_s, step_s)
        series = series_of(node, resource, capacity, from_s, to_s, step_s, answers, self._prometheus.url)
        if len(self._kept) >= MOST_KEPT:
            self._kept.clear()
        self._kept[key] = time.monotonic(), series
        return series

    def _ask(self, node: str, resource: Resource, from_s: float, to_s: float, step_s: float) -> Mapping[str, Answer]:
        return {
            name: self._prometheus.series(query, from_s, to_s, step_s)
            for name, query in queries(node, resource).items()
        }


def queries(node: str, resource: Resource) -> dict[str, str]:
    """By what they answer. Agents report cores and bytes; what is lent and held back is in milli-cores and bytes."""
    of_node = f',node="{node}"' if node else ""
    only = f'node="{node}",' if node else ""
    wanted = {
        "all": f'sum(koordlet_node_usage{{resource="{resource}"{of_node}}})',
        "pods": f'sum by (priority) (koordlet_pod_usage{{resource="{resource}"{of_node}}})',
        "lent": "sum(max by (node) (slo_controller_node_extended_resource_allocatable_internal"
        f'{{resource="kubernetes.io/batch-{resource}"{of_node}}}))',
    }
    if resource == "cpu":
        wanted["heldBack"] = (
            f'sum(clamp_min(koordlet_be_cpu_milli{{{only}what="request"}}'
            f' - ignoring(what) koordlet_be_cpu_milli{{{only}what="limit"}}, 0))'
        )
    return wanted


def series_of(
    node: str,
    resource: Resource,
    capacity: int,
    from_s: float,
    to_s: float,
    step_s: float,
    answers: Mapping[str, Answer],
    url: str,
) -> Series:
    """The answers of Prometheus in steps. What pods do not use of a node's usage is the system's."""
    count = int((to_s - from_s) / step_s) + 1
    scale = 1000.0 if resource == "cpu" else 1.0

    def column(points: Points, unit: float) -> list[int | None]:
        values: list[int | None] = [None] * count
        for at_s, value in points:
            place = round((at_s - from_s) / step_s)
            if 0 <= place < count:
                values[place] = round(value * unit)
        return values

    unknown: list[int | None] = [None] * count
    whole = column(_only(answers["all"]), scale)
    bands: dict[str, list[int | None]] = {
        band: [None if used is None else 0 for used in whole] for band in BANDS if band != "system"
    }
    for labels, points in answers["pods"]:
        into = bands[band_of(labels.get("priority", ""))]
        for i, value in enumerate(column(points, scale)):
            before = into[i]
            if value is not None and before is not None:
                into[i] = before + value
    system = [
        None if used is None else max(0, used - sum(values[i] or 0 for values in bands.values()))
        for i, used in enumerate(whole)
    ]
    first = next((i for i, used in enumerate(whole) if used is not None), count)
    return Series(
        scope=f"node/{node}" if node else "cluster",
        resource=resource,
        unit="milli-cores" if resource == "cpu" else "bytes",
        t0_at_s=from_s,
        step_s=step_s,
        capacity=[capacity] * count,
        prod=bands["prod"],
        mid=bands["mid"],
        batch=bands["batch"],
        free=bands["free"],
        system=system,
        asked_prod=unknown,
        lent=column(_only(answers["lent"]), 1.0),
        held_back=column(_only(answers.get("heldBack", [])), 1.0),
        source="prometheus",
        since_at_s=from_s + first * step_s,
        note=f"from Prometheus {url}" if first < count else f"Prometheus {url} has no figures of koord agent",
    )


def _only(answer: Answer) -> Points:
    return answer[0][1] if answer else ()
