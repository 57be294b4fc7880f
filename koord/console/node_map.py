"""The map of nodes: columns for the browser to draw, deltas of them, and silhouettes of large pools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from koord.console import shapes
from koord.console.shapes import MapDelta, NodeMap, Silhouette, Silhouettes
from koord.console.table import COLUMN, ClusterTable, Integers

_SHARES = ("prod", "mid", "batch", "free", "system")


def map_of(table: ClusterTable, epoch: str, rev: int, by: str) -> NodeMap:
    rows = list(range(len(table.names)))
    group_of = [table.group_of(row, by) for row in rows]
    groups = sorted(set(group_of) - {""})
    number = {name: i for i, name in enumerate(groups)}
    return NodeMap(
        epoch=epoch,
        rev=rev,
        by=by,
        groups=groups,
        group=[number.get(name, 0) for name in group_of],
        names=list(table.names),
        capacity_milli=table.figures[rows, COLUMN["cpu_capacity"]].tolist(),
        **_columns(table, rows),
    )


def delta_of(table: ClusterTable, epoch: str, rev: int, rows: Sequence[int]) -> MapDelta:
    rows = list(rows)
    return MapDelta(
        epoch=epoch,
        rev=rev,
        rows=rows,
        names=[table.names[row] for row in rows],
        group=[table.group_of(row, "pool") for row in rows],
        capacity_milli=table.figures[rows, COLUMN["cpu_capacity"]].tolist(),
        **_columns(table, rows),
    )


def _columns(table: ClusterTable, rows: list[int]) -> dict[str, Any]:
    figures, reports, holds = table.figures[rows], table.reports[rows], table.knows_held_back[rows]
    cpu, memory = figures[:, COLUMN["cpu_capacity"]], figures[:, COLUMN["memory_capacity"]]
    columns: dict[str, Any] = {
        f"{band}_permille": _shown(figures[:, COLUMN[f"cpu_used_{band}"]], cpu, reports) for band in _SHARES
    }
    columns["held_back_permille"] = _shown(figures[:, COLUMN["cpu_held_back"]], cpu, reports & holds)
    columns["memory_permille"] = _shown(figures[:, COLUMN["memory_used_in_all"]], memory, reports)
    columns["marks"] = table.marks[rows].tolist()
    return columns


def _shown(part: Integers, whole: Integers, reports: np.typing.NDArray[np.bool_]) -> list[int | None]:
    permille = part * 1000 // np.maximum(whole, 1)
    return [value if reported else None for value, reported in zip(permille.tolist(), reports.tolist(), strict=True)]


def silhouettes_of(table: ClusterTable, epoch: str, rev: int, by: str, bins: int) -> Silhouettes:
    members: dict[str, list[int]] = {}
    for row in table.rows():
        members.setdefault(table.group_of(row, by), []).append(row)
    groups = tuple(_silhouette(table, name, rows, bins) for name, rows in sorted(members.items()))
    return Silhouettes(epoch=epoch, rev=rev, by=by, groups=groups)


def _silhouette(table: ClusterTable, name: str, rows: list[int], bins: int) -> Silhouette:
    """Fullest first."""
    figures = table.figures[rows]
    cpu = np.maximum(figures[:, COLUMN["cpu_capacity"]], 1)
    order = np.argsort(-(figures[:, COLUMN["cpu_used_in_all"]] / cpu), kind="stable")
    parts = [part for part in np.array_split(np.asarray(rows)[order], min(bins, len(rows))) if len(part)]
    columns: dict[str, Any] = {field: [] for field in shapes.Shares.__struct_fields__}
    for part in parts:
        of_nodes = _columns(table, part.tolist())
        for field, values in of_nodes.items():
            present = [value for value in values if value is not None]
            if field == "marks":
                columns[field].append(int(np.bitwise_or.reduce(table.marks[part])))
            else:
                columns[field].append(round(sum(present) / len(present)) if present else None)
    return Silhouette(name=name, nodes=len(rows), first=[table.names[int(part[0])] for part in parts], **columns)
