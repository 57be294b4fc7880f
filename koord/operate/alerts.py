"""Alerts: when an operator should look, as data.

`koord install --with monitoring` makes PrometheusRules of them, `--write-monitoring` a rule file for a Prometheus
without the operator. Every alert has a runbook in docs/runbooks. Expressions name only what the components export, and
`job` is the name of a component's workload; a test compares them with real scrapes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

Severity: TypeAlias = Literal["critical", "warning"]
"""Critical: pods are not placed or not protected. Warning: that may follow, or a tenant gets less than it could."""
Json: TypeAlias = dict[str, object]

RUNBOOKS: Final = "docs/runbooks"


@dataclass(frozen=True, slots=True)
class Alert:
    name: str
    component: str
    "The component whose metrics the alert uses; empty if it uses metrics of several."
    expr: str
    wait: str
    "How long the expression must hold."
    severity: Severity
    summary: str
    description: str
    labels: tuple[tuple[str, str], ...] = field(default=())

    @property
    def runbook(self) -> str:
        return f"{RUNBOOKS}/{self.name}.md"

    def rule(self) -> Json:
        """The alert as a Prometheus rule."""
        return {
            "alert": self.name,
            "expr": self.expr,
            "for": self.wait,
            "labels": {"severity": self.severity, **dict(self.labels)},
            "annotations": {"summary": self.summary, "description": self.description, "runbook": self.runbook},
        }


_LENT: Final = (
    "max by (node, resource) (slo_controller_node_extended_resource_allocatable_internal"
    '{resource=~"kubernetes.io/batch-(cpu|memory)"})'
)
_TENANTS: Final = 'is_parent="false",name!~"koordinator-.*-quota"'


def _quota(field: str) -> str:
    return f'scheduler_elastic_quota_status{{field="{field}",{_TENANTS}}}'


def _down(component: str) -> Alert:
    return Alert(
        "KoordComponentDown",
        component,
        f'absent(up{{job="koord-{component}"}} == 1)',
        "5m",
        "critical",
        f"no koord-{component} answers",
        f"Prometheus has reached no pod of koord-{component} for five minutes.",
        (("component", component),),
    )


ALERTS: Final = (
    _down("manager"),
    _down("scheduler"),
    _down("descheduler"),
    Alert(
        "KoordNoLeader",
        "",
        "max by (name) (leader_election_master_status) == 0",
        "2m",
        "critical",
        "no process holds the lease {{ $labels.name }}",
        "Replicas run, and none of them leads: its work does not happen.",
    ),
    Alert(
        "KoordReconcileErrors",
        "",
        "sum by (job, controller) (increase(controller_runtime_reconcile_errors_total[10m])) > 10",
        "10m",
        "warning",
        "{{ $labels.job }}: controller {{ $labels.controller }} keeps failing",
        "{{ $value }} attempts failed in ten minutes. They are retried.",
    ),
    Alert(
        "KoordObjectFailures",
        "",
        "sum by (job, kind, doing) (increase(koord_object_failures_total[30m])) > 0",
        "30m",
        "warning",
        "{{ $labels.job }} cannot handle a {{ $labels.kind }}",
        "It cannot {{ $labels.doing }}. Other objects are not affected; an event on the object says why.",
    ),
    Alert(
        "KoordSchedulerStuck",
        "scheduler",
        'sum(scheduler_pending_pods{queue="active"}) > 0'
        " unless sum(increase(scheduler_schedule_attempts_total[5m])) > 0",
        "5m",
        "critical",
        "the scheduler does not schedule",
        "{{ $value }} pods are ready to be scheduled, and none was tried in five minutes.",
    ),
    Alert(
        "KoordPodsPendingTooLong",
        "scheduler",
        'max by (priority) (koord_scheduler_oldest_pending_seconds{priority=~"koord-prod|none"}) > 900',
        "5m",
        "warning",
        "a service's pod has been pending for {{ $value | humanizeDuration }}",
        "Pods of priority {{ $labels.priority }} find no node.",
    ),
    Alert(
        "KoordBindingErrors",
        "scheduler",
        'sum by (profile) (increase(scheduler_schedule_attempts_total{result="error"}[10m])) > 5',
        "5m",
        "warning",
        "scheduling attempts of profile {{ $labels.profile }} end in errors",
        "{{ $value }} attempts of the last ten minutes ended in an error, most often of a binding. They are retried.",
    ),
    Alert(
        "KoordQuotaExhausted",
        "scheduler",
        f"({_quota('used')} / ignoring (field) ({_quota('runtime')} > 0) >= 0.95)"
        f" and ignoring (field) ({_quota('request')} > ignoring (field) {_quota('used')})",
        "30m",
        "warning",
        "quota {{ $labels.name }} has no {{ $labels.resource }} left, and pods wait for it",
        "It uses {{ $value | humanizePercentage }} of what it may use now.",
    ),
    Alert(
        "KoordQuotaBelowMin",
        "scheduler",
        f"({_quota('used')} < ignoring (field) {_quota('min')})"
        f" and ignoring (field) ({_quota('request')} > ignoring (field) {_quota('used')})",
        "30m",
        "warning",
        "quota {{ $labels.name }} gets less {{ $labels.resource }} than its min, and pods wait",
        "Its guarantee is not kept: others borrowed what it needs, or no node has room.",
    ),
    Alert(
        "KoordReservationPending",
        "scheduler",
        'max by (name) (scheduler_reservation_status_phase{phase="Pending"}) == 1',
        "30m",
        "warning",
        "reservation {{ $labels.name }} finds no node",
        "It has been pending for half an hour.",
    ),
    Alert(
        "KoordReportsStale",
        "manager",
        'sum(koord_manager_nodes{report="stale"}) > 0'
        ' or (sum(koord_manager_nodes{report="missing"}) > 0 and sum(koord_manager_nodes{report="fresh"}) == 0)',
        "10m",
        "warning",
        "{{ $value }} nodes do not report their usage",
        "The manager does not believe their NodeMetrics, and lends nothing there.",
    ),
    Alert(
        "KoordLentCollapsed",
        "manager",
        f"sum by (resource) ({_LENT}) < 0.25 * avg_over_time((sum by (resource) ({_LENT}))[1d:15m])",
        "15m",
        "warning",
        "the cluster lends much less {{ $labels.resource }} than a day ago",
        "It lends {{ $value | humanize }}: less than a quarter of the last day's average. Batch pods must go or wait.",
    ),
    Alert(
        "KoordConfigurationInvalid",
        "manager",
        "max(koord_manager_configuration_faults) > 0",
        "5m",
        "warning",
        "slo-controller-config is invalid",
        "{{ $value }} of its sections cannot be used. The last valid value of each stays in force.",
    ),
    Alert(
        "KoordRolloutStopped",
        "manager",
        "max by (feature) (koord_manager_rollout_stopped) == 1",
        "1m",
        "warning",
        "the roll-out of {{ $labels.feature }} has stopped",
        "Services suffered, or an operator stopped it. It does not grow until it is resumed.",
    ),
    Alert(
        "KoordWebhookBroken",
        "manager",
        "min(koord_manager_webhook_registered) == 0",
        "5m",
        "critical",
        "the webhooks are not registered, or have no certificate",
        "New pods do not get what their profile says, or cannot be created.",
    ),
    Alert(
        "KoordAdmissionOff",
        "manager",
        "max(koord_manager_admission_off) == 1",
        "1h",
        "warning",
        "admission has been off by hand for an hour",
        "Somebody broke the glass. Until it is undone, no profile acts: new batch pods run on resources of services.",
    ),
    Alert(
        "KoordWebhookCertificateExpiring",
        "manager",
        "min(koord_manager_webhook_certificate_expiry_timestamp_seconds) - time() < 30 * 86400",
        "1h",
        "critical",
        "the webhooks' certificate ends in {{ $value | humanizeDuration }}",
        "The manager renews it half a year before; that has failed.",
    ),
    Alert(
        "KoordAgentDown",
        "agent",
        'up{job="koord-agent"} == 0',
        "10m",
        "warning",
        "the agent {{ $labels.instance }} does not answer",
        "Nobody protects the services of its node. After a while nothing is lent there.",
    ),
    Alert(
        "KoordAgentNotReporting",
        "agent",
        "max by (node, report) (koordlet_report_failing_seconds) > 300",
        "5m",
        "warning",
        "the agent of {{ $labels.node }} cannot report ({{ $labels.report }})",
        "It has failed for {{ $value | humanizeDuration }}.",
    ),
    Alert(
        "KoordAgentWritesRefused",
        "agent",
        'sum by (node, by) (increase(koordlet_actions_total{what="refused"}[10m])) > 0',
        "10m",
        "warning",
        "the kernel of {{ $labels.node }} refuses writes of {{ $labels.by }}",
        "{{ $value | humanize }} writes to cgroups were refused in ten minutes.",
    ),
    Alert(
        "KoordRestorePending",
        "agent",
        'sum by (node, by) (increase(koordlet_actions_total{what="restore-refused"}[10m])) > 0',
        "10m",
        "warning",
        "settings of {{ $labels.by }} on {{ $labels.node }} cannot be put back",
        "The strategy no longer wants them, and the kernel refuses the values from before.",
    ),
    Alert(
        "KoordBatchSuppressed",
        "agent",
        '(koordlet_be_cpu_milli{what="limit"} / ignoring (what) (koordlet_be_cpu_milli{what="request"} > 0)) < 0.5',
        "1h",
        "warning",
        "batch pods on {{ $labels.node }} have had less than half of their CPU for an hour",
        "They may use {{ $value | humanizePercentage }} of what they request: services need the rest.",
    ),
    Alert(
        "KoordEvictionsHigh",
        "",
        'sum by (by) (increase(koordlet_actions_total{what="evict"}[1h])) > 20'
        ' or sum by (strategy) (increase(descheduler_pods_evicted{result="success"}[1h])) > 20',
        "5m",
        "warning",
        "{{ $value | humanize }} pods were evicted in an hour by {{ $labels.by }}{{ $labels.strategy }}",
        "Batch work is lost and started again.",
    ),
    Alert(
        "KoordMovesStuck",
        "descheduler",
        "max(koord_descheduler_oldest_job_seconds) > 3600",
        "10m",
        "warning",
        "a PodMigrationJob has been running for {{ $value | humanizeDuration }}",
        "It counts against the limits of moves, so that others wait.",
    ),
    Alert(
        "KoordYarnCapUnconfirmed",
        "yarn-operator",
        "max by (cluster, node_manager) (koord_yarn_cap_unconfirmed_seconds) > 300",
        "5m",
        "critical",
        "YARN has not confirmed the cap of {{ $labels.node_manager }}",
        "Kubernetes gets nothing of the room in question until it does: the same core is never given twice.",
    ),
)


def group(name: str, alerts: Iterable[Alert]) -> Json:
    """The alerts as Prometheus rules."""
    return {"name": name, "rules": [alert.rule() for alert in alerts]}
