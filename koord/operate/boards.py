"""Grafana boards as data: rows of panels, each with its queries.

`json_of` makes the JSON that Grafana imports. Queries use only exported metrics; a test compares them with real
scrapes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import msgspec

Unit: TypeAlias = Literal["short", "s", "bytes", "percent", "percentunit", "ops", "ms"]
Kind: TypeAlias = Literal["timeseries", "stat"]
WIDE: Final = 24
"""Columns of Grafana's grid."""
HIGH: Final = 8


@dataclass(frozen=True, slots=True)
class Query:
    expr: str
    legend: str = ""


@dataclass(frozen=True, slots=True)
class Panel:
    title: str
    queries: tuple[Query, ...]
    unit: Unit = "short"
    kind: Kind = "timeseries"
    what: str = ""


@dataclass(frozen=True, slots=True)
class Variable:
    """A choice for the reader: one of the values of a label."""

    name: str
    metric: str


@dataclass(frozen=True, slots=True)
class Board:
    name: str
    title: str
    rows: tuple[tuple[Panel, ...], ...]
    variables: tuple[Variable, ...] = ()
    page: str = "/"
    "The console's page about the same."

    def queries(self) -> Iterator[Query]:
        for row in self.rows:
            for panel in row:
                yield from panel.queries


def _lent(resource: str) -> str:
    family = "slo_controller_node_extended_resource_allocatable_internal"
    return f'sum(max by (node) ({family}{{resource="{resource}"}}))'


def _quota(field: str) -> str:
    return f'scheduler_elastic_quota_status{{field="{field}",name=~"$quota",resource=~"$resource"}}'


OVERVIEW: Final = Board(
    "koord-overview",
    "koord / Overview",
    (
        (
            Panel("Nodes by report", (Query("sum by (report) (koord_manager_nodes)", "{{report}}"),), kind="stat"),
            Panel("Components that answer", (Query('sum by (job) (up{job=~"koord-.*"})', "{{job}}"),), kind="stat"),
            Panel("Leaders", (Query("sum by (name) (leader_election_master_status)", "{{name}}"),), kind="stat"),
            Panel(
                "Invalid sections of slo-controller-config",
                (Query("max(koord_manager_configuration_faults)"),),
                kind="stat",
            ),
        ),
        (
            Panel(
                "CPU lent (cores)",
                (Query(_lent("kubernetes.io/batch-cpu"), "batch"), Query(_lent("kubernetes.io/mid-cpu"), "mid")),
                what="What nodes lend to batch and mid pods, all nodes together.",
            ),
            Panel(
                "Memory lent",
                (Query(_lent("kubernetes.io/batch-memory"), "batch"), Query(_lent("kubernetes.io/mid-memory"), "mid")),
                "bytes",
            ),
        ),
        (
            Panel(
                "CPU used by priority class (cores)",
                (Query('sum by (priority) (koordlet_pod_usage{resource="cpu"})', "{{priority}}"),),
            ),
            Panel(
                "Memory used by priority class",
                (Query('sum by (priority) (koordlet_pod_usage{resource="memory"})', "{{priority}}"),),
                "bytes",
            ),
        ),
        (
            Panel(
                "Pods evicted in an hour",
                (
                    Query('sum by (by) (increase(koordlet_actions_total{what="evict"}[1h]))', "agent: {{by}}"),
                    Query(
                        'sum by (strategy) (increase(descheduler_pods_evicted{result="success"}[1h]))',
                        "descheduler: {{strategy}}",
                    ),
                ),
            ),
            Panel("Pending pods", (Query("sum by (queue) (scheduler_pending_pods)", "{{queue}}"),)),
            Panel(
                "Roll-outs (percent of nodes)",
                (Query("max by (feature) (koord_manager_rollout_percent)", "{{feature}}"),),
                "percent",
            ),
        ),
    ),
)
SCHEDULER: Final = Board(
    "koord-scheduler",
    "koord / Scheduler and descheduler",
    (
        (
            Panel(
                "Attempts per second",
                (Query("sum by (result) (rate(scheduler_schedule_attempts_total[5m]))", "{{result}}"),),
                "ops",
            ),
            Panel(
                "From the queue to the node",
                tuple(
                    Query(
                        f"histogram_quantile({share}, sum by (le) "
                        "(rate(scheduler_pod_scheduling_sli_duration_seconds_bucket[5m])))",
                        f"p{share * 100:g}",
                    )
                    for share in (0.5, 0.95, 0.99)
                ),
                "s",
            ),
        ),
        (
            Panel(
                "Longest wait by priority class",
                (Query("max by (priority) (koord_scheduler_oldest_pending_seconds)", "{{priority}}"),),
                "s",
            ),
            Panel(
                "Pods turned away, by plugin",
                (Query("sum by (plugin) (scheduler_unschedulable_pods)", "{{plugin}}"),),
            ),
        ),
        (
            Panel("Jobs that wait for a place", (Query("sum(scheduler_waiting_gang_group_number)"),)),
            Panel(
                "Reservations by phase",
                (Query("sum by (phase) (scheduler_reservation_status_phase)", "{{phase}}"),),
            ),
        ),
        (
            Panel("Moves under way", (Query("max by (phase) (koord_descheduler_open_jobs)", "{{phase}}"),)),
            Panel(
                "Moves that ended in an hour",
                (Query("sum by (phase, reason) (increase(koord_descheduler_jobs_total[1h]))", "{{phase}} {{reason}}"),),
            ),
            Panel("Oldest move that runs", (Query("max(koord_descheduler_oldest_job_seconds)"),), "s"),
        ),
    ),
    page="/pending",
)
NODES: Final = Board(
    "koord-nodes",
    "koord / Nodes",
    (
        (
            Panel("CPU used (cores)", (Query('koordlet_node_usage{node=~"$node",resource="cpu"}', "{{node}}"),)),
            Panel("Memory used", (Query('koordlet_node_usage{node=~"$node",resource="memory"}', "{{node}}"),), "bytes"),
        ),
        (
            Panel(
                "CPU of batch pods (milli-cores)",
                (Query('sum by (what) (koordlet_be_cpu_milli{node=~"$node"})', "{{what}}"),),
                what="Limit below request: batch pods are held back.",
            ),
            Panel(
                "Tasks that wait (percent of the time)",
                (
                    Query(
                        'koordlet_pressure{node=~"$node",pod_name="",kind="some"}',
                        "{{node}} {{resource}}",
                    ),
                ),
                "percent",
            ),
        ),
        (
            Panel(
                "What agents do, per second",
                (Query('sum by (by, what) (rate(koordlet_actions_total{node=~"$node"}[5m]))', "{{by}}: {{what}}"),),
                "ops",
            ),
            Panel(
                "Reports that fail",
                (
                    Query(
                        'max by (node, report) (koordlet_report_failing_seconds{node=~"$node"})', "{{node}} {{report}}"
                    ),
                ),
                "s",
            ),
        ),
        (
            Panel(
                "Lent by node (cores)",
                (
                    Query(
                        "max by (node) (slo_controller_node_extended_resource_allocatable_internal"
                        '{node=~"$node",resource="kubernetes.io/batch-cpu"})',
                        "{{node}}",
                    ),
                ),
            ),
        ),
    ),
    (Variable("node", "koordlet_node_usage"),),
    page="/nodes",
)
QUOTAS: Final = Board(
    "koord-quotas",
    "koord / Quotas",
    (
        (
            Panel("Used", (Query(_quota("used"), "{{name}}"),), what="CPU in milli-cores, memory in bytes."),
            Panel("May be used", (Query(_quota("runtime"), "{{name}}"),), what="What a quota gets of its tree now."),
        ),
        (
            Panel("Requested", (Query(_quota("request"), "{{name}}"),)),
            Panel(
                "Used beyond min",
                (Query(f"clamp_min({_quota('used')} - ignoring (field) {_quota('min')}, 0)", "{{name}}"),),
                what="What a quota has borrowed.",
            ),
        ),
    ),
    (Variable("quota", "scheduler_elastic_quota_status.name"), Variable("resource", "scheduler_elastic_quota_status")),
    page="/quotas",
)
ALL: Final = (OVERVIEW, SCHEDULER, NODES, QUOTAS)


CONSOLE: Final = "https://localhost:8443"
"""Where a reader who forwards the console's port finds it."""


_LINK: Final = {"type": "link", "title": "koord console", "targetBlank": True, "icon": "external link"}


def json_of(board: Board, console: str = CONSOLE) -> str:
    """The JSON that Grafana imports. `console`: the address that the board's link begins with, until a reader types
    another one."""
    panels: list[dict[str, object]] = []
    for at, row in enumerate(board.rows):
        for column, panel in enumerate(row):
            width = WIDE // len(row)
            where = {"x": column * width, "y": at * HIGH, "w": width, "h": HIGH}
            panels.append(_panel(panel, len(panels) + 1, where))
    whole = {
        "uid": board.name,
        "title": board.title,
        "tags": ["koord"],
        "editable": True,
        "schemaVersion": 38,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [_SOURCE, *(_variable(variable) for variable in board.variables), _typed(console)]},
        "links": [_LINK | {"url": f"${{console}}{board.page}"}],
        "panels": panels,
    }
    return msgspec.json.format(msgspec.json.encode(whole), indent=1).decode() + "\n"


_DATASOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
_SOURCE: Final = {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Prometheus"}


def _typed(console: str) -> dict[str, object]:
    current = {"text": console, "value": console}
    return {
        "name": "console",
        "label": "Console",
        "type": "textbox",
        "query": console,
        "current": current,
        "options": [{"selected": True, **current}],
    }


def _variable(variable: Variable) -> dict[str, object]:
    family, _, label = variable.metric.partition(".")
    return {
        "name": variable.name,
        "type": "query",
        "datasource": _DATASOURCE,
        "query": f"label_values({family}, {label or variable.name})",
        "includeAll": True,
        "multi": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
        "refresh": 2,
    }


def _panel(panel: Panel, number: int, where: Mapping[str, int]) -> dict[str, object]:
    targets = [
        {
            "refId": chr(ord("A") + at),
            "datasource": _DATASOURCE,
            "expr": query.expr,
            "legendFormat": query.legend or "__auto",
        }
        for at, query in enumerate(panel.queries)
    ]
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.what,
        "datasource": _DATASOURCE,
        "gridPos": where,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": targets,
    }


BOARDS: Final[Mapping[str, str]] = {board.name: json_of(board) for board in ALL}
"""The JSON that Grafana imports, by name of the board."""
