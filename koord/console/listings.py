"""The lists behind the tables: nodes, pending pods, services, quotas. Columns have the names of their JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from koord.console import shapes
from koord.console.numbers import natural
from koord.console.overview import BUILT_IN_QUOTAS, UNBOUNDED
from koord.console.paging import Column
from koord.console.reasons import Reason
from koord.console.rows import EVICTIONS, EventRow, PodRow
from koord.console.table import COLUMN, ClusterTable
from koord.offline.quotas import QuotaTop

DAY_S: Final = 86400.0
HOUR_S: Final = 3600.0
OF_QUOTA: Final = {
    "-": ("cpu", "memory"),
    "batch": ("kubernetes.io/batch-cpu", "kubernetes.io/batch-memory"),
    "mid": ("kubernetes.io/mid-cpu", "kubernetes.io/mid-memory"),
}


class Listing(msgspec.Struct, frozen=True):
    columns: Mapping[str, Column]
    keys: list[str]
    hidden: int = 0


def _named(shape: type[shapes.Columns], values: Mapping[str, Column]) -> dict[str, Column]:
    """By the names that JSON has."""
    return {field.encode_name: values[field.name] for field in msgspec.structs.fields(shape)}


def nodes(table: ClusterTable, now_s: float, group: str = "", by: str = "pool") -> Listing:
    rows = [row for row in table.rows() if not group or table.group_of(row, by) == group]
    rows.sort(key=lambda row: natural(table.names[row]))
    figures, reports = table.figures[rows], table.reports[rows].tolist()
    names = [table.names[row] for row in rows]

    def shown(name: str, *, always: bool = False) -> list[int | None]:
        values = figures[:, COLUMN[name]].tolist() if rows else []
        return values if always else [value if has else None for value, has in zip(values, reports, strict=True)]

    capacity, used = shown("cpu_capacity", always=True), shown("cpu_used_in_all")
    reported = [table.metrics[name].reported_at_s if name in table.metrics else None for name in names]
    holds = table.knows_held_back[rows].tolist()
    values: dict[str, Column] = {
        "name": names,
        "group": [table.group_of(row, by) for row in rows],
        "marks": table.marks[rows].tolist(),
        "capacity_milli": capacity,
        "used_milli": used,
        "used_permille": [
            None if part is None or not whole else round(1000 * part / whole)
            for part, whole in zip(used, capacity, strict=True)
        ],
        **{f"{band}_milli": shown(f"cpu_used_{band}") for band in shapes.BANDS},
        "held_back_milli": [
            value if has else None for value, has in zip(shown("cpu_held_back", always=True), holds, strict=True)
        ],
        "lent_milli": shown("cpu_lent", always=True),
        "lent_left_milli": shown("cpu_lent_left", always=True),
        "asked_prod_milli": shown("cpu_asked_prod", always=True),
        "memory_bytes": shown("memory_capacity", always=True),
        "memory_used_bytes": shown("memory_used_in_all"),
        "memory_lent_bytes": shown("memory_lent", always=True),
        "pods": shown("pods", always=True),
        "report_age_s": [None if at_s is None else max(0, int(now_s - at_s)) for at_s in reported],
    }
    return Listing(_named(shapes.NodeColumns, values), names)


def pending(
    pods: Sequence[tuple[PodRow, Reason]],
    now_s: float,
    may_list: Callable[[str], bool],
    *,
    reason: str = "",
    quota: str = "",
    namespace: str = "",
) -> Listing:
    """Those that wait longest first."""
    matching = [
        (pod, why)
        for pod, why in pods
        if (not reason or why.code == reason)
        and (not quota or pod.quota == quota)
        and (not namespace or pod.namespace == namespace)
    ]
    shown = sorted(
        ((pod, why) for pod, why in matching if may_list(pod.namespace)), key=lambda pair: pair[0].created_at_s
    )
    values: dict[str, Column] = {
        **{name: [getattr(pod, name) for pod, _ in shown] for name in _POD_FIELDS},
        "reason": [why.code for _, why in shown],
        "plugin": [why.plugin for _, why in shown],
        "title": [why.title for _, why in shown],
        "nodes": [why.nodes for _, why in shown],
        "asked_milli": [pod.cpu_milli for pod, _ in shown],
        "asked_bytes": [pod.memory_bytes for pod, _ in shown],
        "age_s": [max(0, int(now_s - pod.created_at_s)) for pod, _ in shown],
    }
    listed = _named(shapes.PendingColumns, values)
    return Listing(listed, [pod.key for pod, _ in shown], len(matching) - len(shown))


_POD_FIELDS: Final = ("namespace", "name", "owner", "quota", "band", "gang", "message")


class Service(msgspec.Struct):
    """A workload of services."""

    namespace: str
    kind: str
    name: str
    pods: list[PodRow]

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.kind}/{self.name}"


def services_of(table: ClusterTable) -> dict[str, Service]:
    """Workloads with pods of band prod, by NAMESPACE/KIND/NAME. ReplicaSets count as their Deployments."""
    by_key: dict[str, Service] = {}
    for pod in table.pods.values():
        if pod.band not in ("prod", "none") or pod.ends:
            continue
        kind, name = workload_of(pod)
        key = f"{pod.namespace}/{kind}/{name}"
        service = by_key.get(key)
        if service is None:
            service = by_key[key] = Service(pod.namespace, kind, name, [])
        service.pods.append(pod)
    return by_key


def workload_of(pod: PodRow) -> tuple[str, str]:
    """Kind and name of the workload: of a ReplicaSet made by a Deployment, the Deployment."""
    kind, _, name = pod.owner.partition("/")
    if not name:
        return "Pod", pod.name
    stem, dash, suffix = name.rpartition("-")
    if kind == "ReplicaSet" and dash and suffix.isalnum() and 5 <= len(suffix) <= 10:
        return "Deployment", stem
    return kind, name


def services(
    table: ClusterTable, events: Iterable[EventRow], now_s: float, may_list: Callable[[str], bool], *, detects: bool
) -> Listing:
    by_key = services_of(table)
    shown = [service for _, service in sorted(by_key.items()) if may_list(service.namespace)]
    slowed: Counter[str] = Counter()
    evicted: Counter[str] = Counter()
    for event in events:
        key = f"{event.namespace}/{event.name}"
        if event.reason == "PodSlowed" and now_s - event.at_s <= DAY_S:
            slowed[key] += 1
        elif event.reason in EVICTIONS and now_s - event.at_s <= HOUR_S:
            evicted[key] += 1
    usage = [_used(table, service.pods) for service in shown]
    values: dict[str, Column] = {
        "namespace": [service.namespace for service in shown],
        "kind": [service.kind for service in shown],
        "name": [service.name for service in shown],
        "ready": [sum(pod.ready for pod in service.pods) for service in shown],
        "total": [len(service.pods) for service in shown],
        "slowed_last_day": [sum(slowed[pod.key] for pod in service.pods) if detects else None for service in shown],
        "evicted_last_hour": [sum(evicted[pod.key] for pod in service.pods) for service in shown],
        "used_milli": usage,
        "asked_milli": [sum(pod.cpu_milli for pod in service.pods) for service in shown],
        "neighbours": [len(neighbours(table, service.pods)) for service in shown],
    }
    return Listing(_named(shapes.ServiceColumns, values), [service.key for service in shown], len(by_key) - len(shown))


def _used(table: ClusterTable, pods: Iterable[PodRow]) -> int | None:
    """None if no node reports one of them."""
    amounts = [used["cpu"] for pod in pods if (used := used_by(table, pod)) is not None]
    return sum(amounts) if amounts else None


def used_by(table: ClusterTable, pod: PodRow) -> dict[str, int] | None:
    """What a pod uses, by the last report of its node; None if that is too old, or lacks the pod."""
    row, metric = table.row_of.get(pod.node), table.metrics.get(pod.node)
    if row is None or metric is None or not table.reports[row]:
        return None
    return metric.usage.pods.get(pod.key)


def neighbours(table: ClusterTable, pods: Iterable[PodRow]) -> list[PodRow]:
    """Pods of lent resources on the same nodes."""
    nodes_with = {pod.node for pod in pods if pod.node}
    return [
        other
        for node in nodes_with
        for other in table.on_node.get(node, {}).values()
        if other.band in ("batch", "mid", "free")
    ]


def quotas(listed: Sequence[QuotaTop], waiting: Iterable[PodRow]) -> Listing:
    """In the order of the trees; a quota of lent resources has a row for each band that it bounds."""
    pending_in = Counter(pod.quota for pod in waiting if pod.quota)
    rows: list[dict[str, Any]] = []
    for quota in listed:
        for band, (cpu, memory) in OF_QUOTA.items():
            if not any(key in amounts for key in (cpu, memory) for amounts in (quota.max, quota.used, quota.min)):
                continue
            used, least = quota.used.get(cpu, 0), quota.min.get(cpu, 0)
            rows.append(
                {
                    **{name: getattr(quota, name) for name in _QUOTA_FIELDS},
                    "band": band,
                    "used_milli": used,
                    "request_milli": quota.request.get(cpu, 0),
                    "runtime_milli": quota.runtime.get(cpu, 0),
                    "min_milli": least,
                    "max_milli": _bounded(quota.max.get(cpu)),
                    "used_bytes": quota.used.get(memory, 0),
                    "runtime_bytes": quota.runtime.get(memory, 0),
                    "min_bytes": quota.min.get(memory, 0),
                    "max_bytes": _bounded(quota.max.get(memory)),
                    "borrows_milli": 0 if quota.quota in BUILT_IN_QUOTAS else max(0, used - least),
                    "lends_milli": max(0, least - max(used, quota.request.get(cpu, 0))),
                    "pending": pending_in[quota.quota],
                }
            )
    names = [field.name for field in msgspec.structs.fields(shapes.QuotaColumns)]
    values = {name: [row[name] for row in rows] for name in names}
    return Listing(_named(shapes.QuotaColumns, values), [f"{row['quota']}/{row['band']}" for row in rows])


_QUOTA_FIELDS: Final = ("quota", "parent", "tree", "depth", "is_parent", "problem")


def _bounded(amount: int | None) -> int | None:
    return None if amount is None or amount >= UNBOUNDED else amount
