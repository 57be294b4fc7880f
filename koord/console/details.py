"""The pages of one object: a node, a pod, a service, a quota; and what a search finds."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from koord.console import shapes
from koord.console.listings import neighbours, services_of, used_by
from koord.console.numbers import bytes_text, cores, counted, duration, percent, share
from koord.console.overview import NO_DETECTION, tenants_of
from koord.console.reasons import LENT, Reason, groups_of
from koord.console.rows import SLOWDOWNS, EventRow, PodRow
from koord.console.shapes import (
    Find,
    Finds,
    GangDetail,
    HistoryEntry,
    Level,
    NodeDetail,
    NodePod,
    PodDetail,
    QuotaDetail,
    ServiceDetail,
    Slowdown,
)
from koord.console.table import ClusterTable
from koord.offline.quotas import QuotaTop

MOST_PODS: Final = 500
MOST_NEIGHBOURS: Final = 50
MOST_FINDS: Final = 20
BUSY_PERMILLE: Final = 950
HOUR_S: Final = 3600.0
MayList = Callable[[str], bool]


def node_detail(
    table: ClusterTable,
    name: str,
    *,
    epoch: str,
    rev: int,
    now_s: float,
    may_list: MayList,
    events: Sequence[EventRow],
    thresholds: tuple[int | None, int | None],
) -> NodeDetail | None:
    """None if the node does not exist. `thresholds`: suppression and eviction of its NodeSLO, in permille."""
    row, node = table.row_of.get(name), table.nodes.get(name)
    if row is None or node is None:
        return None
    figures, marks = table.of_row(row), int(table.marks[row])
    reports = bool(table.reports[row])
    cpu = table.summary("cpu", figures, reports=reports, held_back=bool(table.knows_held_back[row]))
    memory = table.summary("memory", figures, reports=reports, held_back=False)
    metric = table.metrics.get(name)
    age_s = None if metric is None or metric.reported_at_s is None else max(0, int(now_s - metric.reported_at_s))
    stale = ""
    if not reports:
        stale = "the node has not reported yet" if age_s is None else f"the report is {duration(age_s)} old"
    pods = sorted(table.on_node.get(name, {}).values(), key=lambda pod: (_BAND_ORDER[pod.band], pod.key))
    shown = [pod for pod in pods if may_list(pod.namespace)]
    why_off = table.why_off.get(name, "")
    level, sentence = _node_sentence(name, node.shown.ready, stale, why_off, cpu)
    return NodeDetail(
        epoch=epoch,
        rev=rev,
        name=name,
        level=level,
        sentence=sentence,
        pool=node.pool,
        labels=dict(node.labels),
        ready=node.shown.ready,
        cordoned=node.shown.cordoned,
        marks=marks,
        lending_on=not why_off,
        lending_off_why=why_off,
        report_age_s=age_s,
        report_stale_why=stale,
        capacity_milli=figures["cpu_capacity"],
        cpu_milli=cpu,
        memory_bytes=memory,
        suppress_permille=thresholds[0],
        evict_memory_permille=thresholds[1],
        pods=tuple(node_pod(table, pod) for pod in shown[:MOST_PODS]),
        hidden_pods=len(pods) - len(shown),
        history=history(events, may_list),
        command=f"koord explain node/{name}",
    )


_BAND_ORDER: Final = {"prod": 0, "none": 1, "mid": 2, "batch": 3, "free": 4}


def _node_sentence(name: str, ready: bool, stale: str, why_off: str, cpu: shapes.ResourceSummary) -> tuple[Level, str]:
    if not ready:
        return "critical", f"{name} is not ready."
    if stale:
        return "warning", f"{name} lends nothing: {stale}."
    level: Level = "ok"
    used = share(cpu.used_in_all or 0, cpu.capacity)
    if used > BUSY_PERMILLE:
        level = "warning"
    if why_off:
        return level, f"{name} is at {percent(used)} and lends nothing: {why_off}."
    asked = cpu.asked.batch + cpu.asked.mid
    if cpu.held_back:
        may = max(0, asked - cpu.held_back)
        return (
            level,
            f"{name} is at {percent(used)}: batch may use {cores(may)} of the {cores(asked)} cores it asked for.",
        )
    if asked:
        return level, f"{name} is at {percent(used)}, and batch has all of the {cores(asked)} cores it asked for."
    return level, f"{name} is at {percent(used)}, and lends {cores(cpu.lent)} cores that no pod asks for."


def node_pod(table: ClusterTable, pod: PodRow) -> NodePod:
    used = used_by(table, pod)
    return NodePod(
        namespace=pod.namespace,
        name=pod.name,
        band=pod.band,
        qos=pod.qos,
        phase=pod.phase,
        ready=pod.ready,
        asked_milli=pod.cpu_milli,
        asked_bytes=pod.memory_bytes,
        used_milli=None if used is None else used["cpu"],
        used_bytes=None if used is None else used["memory"],
    )


def history(events: Iterable[EventRow], may_list: MayList) -> tuple[HistoryEntry, ...]:
    """Newest first."""
    return tuple(
        HistoryEntry(
            at_s=event.at_s,
            title=event.note,
            reason=event.reason,
            object=f"{event.kind.lower()}/{event.name}",
            link=f"/pods/{event.namespace}/{event.name}" if event.kind == "Pod" else "",
        )
        for event in sorted(events, key=lambda event: -event.at_s)
        if event.kind != "Pod" or may_list(event.namespace)
    )


def pod_detail(
    table: ClusterTable, pod: PodRow, reason: Reason, events: Sequence[EventRow], *, epoch: str, rev: int, now_s: float
) -> PodDetail:
    used = used_by(table, pod)
    waits = [
        other.scheduled_at_s - other.created_at_s
        for other in table.pods.values()
        if pod.quota and other.quota == pod.quota and other.band == pod.band
        if other.scheduled_at_s is not None and now_s - other.scheduled_at_s <= HOUR_S
    ]
    waits = sorted(max(0.0, wait_s) for wait_s in waits)
    level, sentence = _pod_sentence(table, pod, reason, used, now_s)
    return PodDetail(
        epoch=epoch,
        rev=rev,
        namespace=pod.namespace,
        name=pod.name,
        uid=pod.uid,
        level=level,
        sentence=sentence,
        phase=pod.phase,
        ready=pod.ready,
        node=pod.node,
        band=pod.band,
        qos=pod.qos,
        priority=pod.priority,
        quota=pod.quota,
        gang=pod.gang,
        owner=pod.owner,
        scheduler_name=pod.scheduler_name,
        created_at_s=pod.created_at_s,
        scheduled_at_s=pod.scheduled_at_s,
        asked_milli=pod.cpu_milli,
        asked_bytes=pod.memory_bytes,
        used_milli=None if used is None else used["cpu"],
        used_bytes=None if used is None else used["memory"],
        reason=reason.code if pod.is_pending else "",
        plugin=reason.plugin if pod.is_pending else "",
        title=reason.title if pod.is_pending else "",
        message=pod.message,
        pending_s=max(0, int(now_s - pod.created_at_s)) if pod.is_pending else None,
        similar_wait_median_s=round(statistics.median(waits)) if waits else None,
        similar_wait_p90_s=round(waits[min(len(waits) - 1, int(len(waits) * 0.9))]) if waits else None,
        similar_pods=len(waits),
        history=history(events, lambda namespace: True),
        command=f"koord explain {pod.name} -n {pod.namespace}",
    )


def _pod_sentence(
    table: ClusterTable, pod: PodRow, reason: Reason, used: Mapping[str, int] | None, now_s: float
) -> tuple[Level, str]:
    if pod.is_pending:
        lent = "lent " if pod.band in LENT else ""
        asks = f"it asks for {cores(pod.cpu_milli)} {lent}CPUs and {bytes_text(pod.memory_bytes)}"
        if reason.nodes:
            asks += f", and {counted(reason.nodes, 'node')} {'rejects' if reason.nodes == 1 else 'reject'} it"
        return "warning", f"{pod.name} is pending: {asks}: {reason.title}."
    if pod.phase in ("Succeeded", "Failed"):
        return ("ok" if pod.phase == "Succeeded" else "warning"), f"{pod.name} has ended: {pod.phase.lower()}."
    if pod.ends:
        return "ok", f"{pod.name} is being deleted."
    state = "runs" if pod.phase == "Running" else f"is {pod.phase.lower()}"
    ready = "" if pod.ready or pod.phase != "Running" else ", and is not ready"
    if used is None:
        return ("ok" if pod.ready else "warning"), f"{pod.name} {state} on {pod.node}{ready}; its usage is not known."
    figures = f"it uses {cores(used['cpu'])} of the {cores(pod.cpu_milli)} CPUs that it asked for"
    return ("ok" if pod.ready else "warning"), f"{pod.name} {state} on {pod.node}{ready}: {figures}."


def service_detail(
    table: ClusterTable, key: str, events: Iterable[EventRow], may_list: MayList, *, detects: bool
) -> ServiceDetail | None:
    service = services_of(table).get(key)
    if service is None:
        return None
    own = {pod.key for pod in service.pods}
    slowdowns = [
        Slowdown(at_s=event.at_s, pod=f"{event.namespace}/{event.name}", reason=event.reason, message=event.note)
        for event in events
        if event.reason in SLOWDOWNS and f"{event.namespace}/{event.name}" in own
    ]
    beside = [node_pod(table, pod) for pod in neighbours(table, service.pods) if may_list(pod.namespace)]
    beside.sort(key=lambda pod: -(pod.used_milli or 0))
    ready, total = sum(pod.ready for pod in service.pods), len(service.pods)
    title = f"{service.name} has {ready} of {counted(total, 'pod')} ready"
    if slowdowns:
        title += f"; neighbours slowed it {counted(len(slowdowns), 'time')}"
    elif detects:
        title += "; no neighbour slowed it"
    return ServiceDetail(
        namespace=service.namespace,
        kind=service.kind,
        name=service.name,
        sentence=f"{title}.",
        ready=ready,
        total=total,
        pods=tuple(node_pod(table, pod) for pod in sorted(service.pods, key=lambda pod: pod.name)[:MOST_PODS]),
        neighbours=tuple(beside[:MOST_NEIGHBOURS]),
        slowdowns=tuple(sorted(slowdowns, key=lambda slowdown: -slowdown.at_s)),
        detection_note="" if detects else NO_DETECTION,
    )


def quota_detail(table: ClusterTable, quotas: Sequence[QuotaTop], name: str, may_list: MayList) -> QuotaDetail | None:
    by_name = {quota.quota: quota for quota in quotas}
    quota = by_name.get(name)
    if quota is None:
        return None
    path = [quota]
    while (parent := by_name.get(path[-1].parent)) is not None and parent not in path:
        path.append(parent)
    pods = [pod for pod in table.pods.values() if pod.quota == name and not pod.ends]
    shown = sorted((pod for pod in pods if may_list(pod.namespace)), key=lambda pod: pod.key)
    waiting = [pod for pod in shown if pod.is_pending]
    own = tenants_of((quota,), (pod for pod in pods if pod.is_pending))
    figures = ", ".join(
        f"uses {cores(tenant.used_milli)}"
        + (f" of {cores(tenant.runtime_milli)}" if tenant.runtime_milli else "")
        + (" cores" if tenant.band == "-" else f" {tenant.band} cores")
        for tenant in own
    )
    waits = sum(pod.is_pending for pod in pods)
    more = f"; {counted(waits, 'pod')} {'is' if waits == 1 else 'are'} pending" if waits else ""
    return QuotaDetail(
        quota=name,
        sentence=f"{name} {figures or 'has no bounds of CPU'}{more}.",
        path=tuple(tenants_of(reversed(path))),
        children=tuple(tenants_of(child for child in quotas if child.parent == name)),
        pods=tuple(node_pod(table, pod) for pod in shown[:MOST_PODS]),
        pending=tuple(pod.key for pod in waiting),
        hidden_pods=len(pods) - len(shown),
        command=f"koord explain quota/{name}",
    )


def gang_detail(
    table: ClusterTable,
    namespace: str,
    name: str,
    reasons: Mapping[str, Reason],
    min_member: int | None,
    now_s: float,
) -> GangDetail | None:
    """None if no pod names the gang, and no PodGroup is it. `reasons`: of pending pods, by key."""
    pods = sorted(
        (pod for pod in table.pods.values() if pod.gang == name and pod.namespace == namespace and not pod.ends),
        key=lambda pod: pod.name,
    )
    if not pods and min_member is None:
        return None
    waiting = [(pod, reasons[pod.key]) for pod in pods if pod.is_pending and pod.key in reasons]
    scheduled = sum(bool(pod.node) for pod in pods)
    pending = len(pods) - scheduled
    needs = "" if min_member is None else f" of the {min_member} that it needs"
    sentence = f"{name} has {counted(scheduled, 'pod')} on nodes{needs}"
    groups = groups_of(waiting, now_s, lambda namespace: True)
    if pending:
        sentence += f"; {counted(pending, 'pod')} {'is' if pending == 1 else 'are'} pending"
        sentence += f": {groups[0].title}" if groups else ""
    complete = not pending and (min_member is None or scheduled >= min_member)
    return GangDetail(
        namespace=namespace,
        name=name,
        level="ok" if complete else "warning",
        sentence=f"{sentence}.",
        min_member=min_member,
        scheduled=scheduled,
        pending=pending,
        pods=tuple(node_pod(table, pod) for pod in pods[:MOST_PODS]),
        reasons=tuple(groups),
        command=f"koord explain podgroup/{name} -n {namespace}",
    )


def find(table: ClusterTable, quotas: Iterable[QuotaTop], text: str, may_list: MayList) -> Finds:
    """Names that contain the text; those that begin with it first, shorter ones before longer ones."""
    wanted = text.strip().lower()
    if not wanted:
        return Finds(finds=(), hidden=0)
    hits: list[tuple[int, int, str, Find]] = []
    hidden = 0

    def add(find_: Find, name: str) -> None:
        at = name.lower().find(wanted)
        if at < 0:
            at = find_.name.lower().find(wanted)
        if at >= 0:
            hits.append((min(at, 1), len(name), find_.name, find_))

    for name, node in table.nodes.items():
        if wanted in name.lower():
            add(Find(kind="node", name=name, detail=node.pool, link=f"/nodes/{name}"), name)
    for pod in table.pods.values():
        if wanted not in pod.key.lower():
            continue
        if not may_list(pod.namespace):
            hidden += 1
            continue
        where = pod.node or "pending"
        add(Find(kind="pod", name=pod.key, detail=where, link=f"/pods/{pod.key}"), pod.name)
    for service in services_of(table).values():
        if wanted in service.key.lower() and may_list(service.namespace):
            detail = counted(len(service.pods), "pod")
            add(Find(kind="service", name=service.key, detail=detail, link=f"/services/{service.key}"), service.name)
    for quota in quotas:
        if wanted in quota.quota.lower():
            add(Find(kind="quota", name=quota.quota, detail=quota.parent, link=f"/quotas/{quota.quota}"), quota.quota)
    hits.sort(key=lambda hit: hit[:3])
    return Finds(finds=tuple(hit[3] for hit in hits[:MOST_FINDS]), hidden=hidden)
