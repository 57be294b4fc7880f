"""The first page: a sentence on how the cluster is, the figures behind it, and what needs attention.

Pure: the table of the cluster and what else is known come in, an `Overview` comes out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from koord.api.protocol import names
from koord.console import shapes
from koord.console.numbers import cores, counted, duration
from koord.console.reasons import Reason, groups_of
from koord.console.rows import EVICTIONS, MOVES, EventRow, PodRow
from koord.console.shapes import LENDING_OFF, NEEDS_ATTENTION, NOT_READY, Attention, Level, Overview, Tenant
from koord.console.table import ClusterTable
from koord.manager.rollout.state import Rollout
from koord.offline.quotas import QuotaTop
from koord.operate.health import Status

MOST_ATTENTION: Final = 7
MOST_TENANTS: Final = 8
MOST_GROUPS: Final = 5
NO_DETECTION: Final = "interference detection is off: turn on the gate InterferenceDetection of koord agent"
HOUR_S: Final = 3600.0
BUILT_IN_QUOTAS: Final = frozenset({names.QUOTA_ROOT, names.QUOTA_SYSTEM, names.QUOTA_DEFAULT})
"""Quotas that koord makes; no tenant has them."""
UNBOUNDED: Final = 1 << 53
OVERLOADED_PERMILLE: Final = 950
_ORDER: Final[dict[Level, int]] = {"critical": 0, "warning": 1, "ok": 2}
_NODE_PROBLEMS: Final = frozenset({"nodes", "node reports"})
"""Examinations of `koord status` that the table itself shows, and more currently."""


class Circumstances(msgspec.Struct, frozen=True, kw_only=True):
    """What an overview needs beside the table."""

    epoch: str
    rev: int
    now_s: float
    started_at_s: float
    cluster: str
    events: Sequence[EventRow] = ()
    "Of the last hour."
    quotas: Sequence[QuotaTop] = ()
    status: Status | None = None
    rollouts: Mapping[str, Rollout] = {}
    "By feature."
    pending: Sequence[tuple[PodRow, Reason]] = ()
    detects: bool = False
    "Whether interference detection is on."
    stale_since_at_s: float | None = None
    stale_why: str = ""
    may_list: Callable[[str], bool] = lambda namespace: True


def overview_of(table: ClusterTable, about: Circumstances) -> Overview:
    now_s = about.now_s
    sums = table.sums()
    nodes = nodes_of(table, now_s)
    reports = nodes.reporting > 0
    held_back = bool(table.knows_held_back.any())
    cpu = table.summary("cpu", sums, reports=reports, held_back=held_back)
    memory = table.summary("memory", sums, reports=reports, held_back=held_back)
    groups = groups_of(about.pending, now_s, about.may_list)
    total = len(about.pending)
    counts = event_counts(about.events)
    services = shapes.Services(
        ready=table.services_ready,
        total=table.services_total,
        slowed=counts["slowed"] if about.detects else None,
        slowed_why_null="" if about.detects else NO_DETECTION,
    )
    attention = sorted(_attention(table, about), key=lambda item: _ORDER[item.level])
    tenants = tenants_of(
        (quota for quota in about.quotas if quota.quota not in BUILT_IN_QUOTAS), (pod for pod, _ in about.pending)
    )
    leaves = [tenant for tenant in tenants if tenant.parent or not any(t.parent == tenant.quota for t in tenants)]
    busiest = sorted(leaves, key=lambda tenant: (-tenant.used_milli, tenant.quota))
    level: Level = attention[0].level if attention else "ok"
    return Overview(
        epoch=about.epoch,
        rev=about.rev,
        at_s=now_s,
        level=level,
        sentence=sentence_of(nodes, services, cpu, total, attention),
        cluster=about.cluster,
        nodes=nodes,
        services=services,
        cpu_milli=cpu,
        memory_bytes=memory,
        pending=shapes.Pending(
            total=total,
            oldest_s=max((group.oldest_s for group in groups), default=None),
            groups=tuple(groups[:MOST_GROUPS]),
        ),
        evicted_last_hour=counts["evicted"],
        moved_last_hour=counts["moved"],
        counted_since_at_s=max(about.started_at_s, now_s - HOUR_S),
        attention=tuple(attention[:MOST_ATTENTION]),
        attention_in_all=len(attention),
        tenants=tuple(busiest[:MOST_TENANTS]),
        tenants_in_all=len(busiest),
        hidden_pods=0,
        stale_since_at_s=about.stale_since_at_s,
        stale_why=about.stale_why,
    )


def event_counts(events: Iterable[EventRow]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for event in events:
        if event.reason in EVICTIONS:
            counts["evicted"] += 1
        elif event.reason in MOVES:
            counts["moved"] += 1
        elif event.reason == "PodSlowed":
            counts["slowed"] += 1
    return counts


def nodes_of(table: ClusterTable, now_s: float) -> shapes.Nodes:
    rows = table.rows()
    marks = table.marks[rows] if rows else table.marks[:0]
    reporting = int(table.reports[rows].sum()) if rows else 0
    ages = [
        now_s - metric.reported_at_s
        for name, metric in table.metrics.items()
        if metric.reported_at_s is not None and name in table.row_of and table.reports[table.row_of[name]]
    ]
    return shapes.Nodes(
        total=len(rows),
        ready=int(((marks & NOT_READY) == 0).sum()),
        reporting=reporting,
        silent=len(rows) - reporting,
        lending=int(((marks & LENDING_OFF) == 0).sum()),
        cordoned=int(((marks & shapes.CORDONED) != 0).sum()),
        youngest_report_s=max(0, int(min(ages))) if ages else None,
        oldest_report_s=max(0, int(max(ages))) if ages else None,
    )


def sentence_of(
    nodes: shapes.Nodes,
    services: shapes.Services,
    cpu: shapes.ResourceSummary,
    pending: int,
    attention: Sequence[Attention],
) -> str:
    """As an engineer on call would say it on the phone: the worst fact first."""
    if not nodes.total:
        return "The cluster has no nodes yet."
    parts = []
    if attention and attention[0].level == "critical":
        parts.append(_capital(attention[0].title))
    elif services.total and services.ready < services.total:
        missing = services.total - services.ready
        parts.append(f"{missing:,} of {counted(services.total, 'service pod')} {_are(missing)} not ready")
    elif services.slowed:
        parts.append(f"{counted(services.slowed, 'service pod')} {_were(services.slowed)} slowed in the last hour")
    elif attention:
        parts.append(_capital(attention[0].title))
    elif services.total:
        parts.append("All services are ready")
    if cpu.used is None:
        parts.append("no node has reported its usage yet")
    else:
        on_lent = cpu.used.batch + cpu.used.mid
        if on_lent:
            parts.append(f"batch runs on {cores(on_lent)} idle cores")
        elif cpu.lent:
            parts.append(f"{cores(cpu.lent)} idle cores are lent, and nothing uses them")
        else:
            parts.append("nothing is lent")
    if pending:
        parts.append(f"{counted(pending, 'pod')} {_are(pending)} pending")
    first, rest = _capital(parts[0]), parts[1:]
    return f"{first}. {_capital('; '.join(rest))}." if rest else f"{first}."


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


def _were(number: int) -> str:
    return "was" if number == 1 else "were"


def _attention(table: ClusterTable, about: Circumstances) -> Iterable[Attention]:
    now_s = about.now_s
    if about.stale_since_at_s is not None:
        yield Attention(
            level="critical",
            title="the API server does not answer",
            cause=about.stale_why,
            since_at_s=about.stale_since_at_s,
            link="/health",
            remedy="koord status",
        )
    yield from _troubled_nodes(table, now_s)
    if about.status is not None:
        for finding in about.status.findings:
            if finding.name in _NODE_PROBLEMS and table.row_of:
                continue
            for problem in finding.problems:
                yield Attention(
                    level="critical" if finding.name in ("API server", "manager", "schedulers") else "warning",
                    title=problem.what,
                    cause=f"check: {finding.name}",
                    since_at_s=None,
                    link="/health",
                    remedy=problem.how,
                )
    for feature, rollout in about.rollouts.items():
        if rollout.state == "stopped":
            yield Attention(
                level="warning",
                title=f"the roll-out of {feature} stopped at {rollout.percent}%",
                cause=rollout.reason,
                since_at_s=rollout.since_s,
                link="/changes",
                remedy=f"koord colocation rollout status {feature}",
            )
    for quota in about.quotas:
        if quota.problem:
            yield Attention(
                level="warning",
                title=f"quota {quota.quota}: {quota.problem}",
                cause="its object, or the scheduler, says so",
                since_at_s=None,
                link=f"/quotas/{quota.quota}",
                remedy=f"koord explain quota/{quota.quota}",
            )


def _troubled_nodes(table: ClusterTable, now_s: float) -> Iterable[Attention]:
    names = [table.names[row] for row in table.rows() if table.marks[row] & NEEDS_ATTENTION]
    down = [name for name in names if not table.nodes[name].shown.ready]
    silent = [name for name in names if table.nodes[name].shown.ready]
    if down:
        yield Attention(
            level="critical" if len(down) * 10 > len(table.row_of) else "warning",
            title=f"{counted(len(down), 'node')} {_are(len(down))} not ready: {_some(down)}",
            cause="kubelet does not report, or reports a fault",
            since_at_s=None,
            link=f"/nodes/{down[0]}",
            remedy=f"kubectl describe node {down[0]}",
        )
    if silent:
        oldest = max(
            (now_s - (table.metrics[name].reported_at_s or now_s) for name in silent if name in table.metrics),
            default=0.0,
        )
        age = f", the oldest report is {duration(oldest)} old" if oldest else ""
        verb = "does" if len(silent) == 1 else "do"
        yield Attention(
            level="warning",
            title=f"{counted(len(silent), 'node')} {verb} not report usage: {_some(silent)}",
            cause=f"koord agent does not report there{age}; nothing is lent without a report",
            since_at_s=None,
            link=f"/nodes/{silent[0]}",
            remedy=f"koord explain node/{silent[0]}",
        )
    for row in table.rows():
        capacity = table.figures[row][_CPU]
        if capacity and table.figures[row][_USED] * 1000 > capacity * OVERLOADED_PERMILLE:
            name = table.names[row]
            yield Attention(
                level="warning",
                title=f"{name} is at {round(100 * int(table.figures[row][_USED]) / int(capacity))}% of its CPU",
                cause="pods and system together use almost all CPU",
                since_at_s=None,
                link=f"/nodes/{name}",
                remedy=f"koord explain node/{name}",
            )


_CPU: Final = 0
_USED: Final = 2


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def tenants_of(quotas: Iterable[QuotaTop], pending: Iterable[PodRow] = ()) -> list[Tenant]:
    """CPU of each quota, in the order of its tree; of quotas of lent resources, each band that they bound."""
    waiting = Counter(pod.quota for pod in pending if pod.quota)
    tenants = []
    for quota in quotas:
        for band, key in _CPU_KEYS:
            if key not in quota.max and key not in quota.used:
                continue
            most = quota.max.get(key)
            tenants.append(
                Tenant(
                    quota=quota.quota,
                    parent=quota.parent,
                    band=band,
                    used_milli=quota.used.get(key, 0),
                    request_milli=quota.request.get(key, 0),
                    min_milli=quota.min.get(key, 0),
                    runtime_milli=quota.runtime.get(key, 0),
                    max_milli=None if most is None or most >= UNBOUNDED else most,
                    pending=waiting[quota.quota],
                    problem=quota.problem,
                )
            )
    return tenants


_CPU_KEYS: Final[tuple[tuple[shapes.TenantBand, str], ...]] = (
    ("-", "cpu"),
    ("batch", "kubernetes.io/batch-cpu"),
    ("mid", "kubernetes.io/mid-cpu"),
)


def health_sentence(status: Status) -> tuple[Level, str]:
    """How koord itself is."""
    if status.healthy:
        return "ok", f"koord is well: {counted(len(status.findings), 'check')} pass."
    problems = status.problems
    first = _capital(problems[0].what)
    more = f" {len(problems) - 1} more problems follow." if len(problems) > 2 else ""
    more = " One more problem follows." if len(problems) == 2 else more
    level: Level = "critical" if not status.facts.server.reachable else "warning"
    return level, f"{first}.{more}"
