"""Series in promtool's notation: one that makes each alert fire, and those of a cluster in which all is well."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

MINUTES: Final = 100
"""So long every series is, a sample a minute: longer than any alert waits."""
LENT: Final = "slo_controller_node_extended_resource_allocatable_internal"
BATCH_CPU: Final = 'resource="kubernetes.io/batch-cpu",unit="integer"'


def always(value: float) -> str:
    return f"{value}x{MINUTES}"


def growing(step: float) -> str:
    return f"0+{step}x{MINUTES}"


def quota(field: str, name: str = "team") -> str:
    labels = f'name="{name}",resource="cpu",tree="",is_parent="false",parent="koordinator-root-quota",field="{field}"'
    return f"scheduler_elastic_quota_status{{{labels}}}"


WELL: Final = {
    'up{job="koord-manager",instance="a"}': always(1),
    'up{job="koord-scheduler",instance="a"}': always(1),
    'up{job="koord-descheduler",instance="a"}': always(1),
    'up{job="koord-agent",instance="n1"}': always(1),
    'leader_election_master_status{name="koord-scheduler",instance="a"}': always(1),
    'leader_election_master_status{name="koord-scheduler",instance="b"}': always(0),
    'controller_runtime_reconcile_errors_total{job="koord-manager",controller="nodeslo"}': always(3),
    'koord_object_failures_total{job="koord-scheduler",kind="Pod",doing="read it"}': always(2),
    'scheduler_pending_pods{queue="active"}': always(4),
    'scheduler_schedule_attempts_total{result="scheduled",profile="koord-scheduler"}': growing(30),
    'scheduler_schedule_attempts_total{result="error",profile="koord-scheduler"}': always(3),
    'koord_scheduler_oldest_pending_seconds{priority="koord-prod"}': always(60),
    'koord_scheduler_oldest_pending_seconds{priority="koord-batch"}': always(9000),
    quota("used"): always(6000),
    quota("runtime"): always(8000),
    quota("min"): always(4000),
    quota("request"): always(6000),
    'scheduler_reservation_status_phase{name="night",phase="Available"}': always(1),
    'koord_manager_nodes{report="fresh"}': always(3),
    'koord_manager_nodes{report="stale"}': always(0),
    'koord_manager_nodes{report="missing"}': always(1),
    f'{LENT}{{node="n1",{BATCH_CPU}}}': always(20),
    "koord_manager_configuration_faults": always(0),
    'koord_manager_rollout_stopped{feature="lending"}': always(0),
    "koord_manager_webhook_registered": always(1),
    "koord_manager_admission_off": always(0),
    "koord_manager_webhook_certificate_expiry_timestamp_seconds": always(4e9),
    'koordlet_report_failing_seconds{node="n1",report="usage"}': always(0),
    'koordlet_actions_total{node="n1",by="cpu_suppress",what="write"}': growing(5),
    'koordlet_actions_total{node="n1",by="BEMemoryEvict",what="evict"}': "0+0.1x" + str(MINUTES),
    'koordlet_be_cpu_milli{node="n1",what="limit"}': always(6000),
    'koordlet_be_cpu_milli{node="n1",what="request"}': always(8000),
    "koord_descheduler_oldest_job_seconds": always(120),
    'koord_yarn_cap_unconfirmed_seconds{cluster="c",node_manager="n1:8041"}': always(2),
}

ILL: Final[dict[str, dict[str, str]]] = {
    "KoordComponentDown": {'up{job="koord-scheduler",instance="a"}': always(0)},
    "KoordNoLeader": {'leader_election_master_status{name="koord-scheduler",instance="a"}': always(0)},
    "KoordReconcileErrors": {
        'controller_runtime_reconcile_errors_total{job="koord-manager",controller="nodeslo"}': growing(2)
    },
    "KoordObjectFailures": {
        'koord_object_failures_total{job="koord-scheduler",kind="Pod",doing="read it"}': growing(1)
    },
    "KoordSchedulerStuck": {
        'scheduler_schedule_attempts_total{result="scheduled",profile="koord-scheduler"}': always(900)
    },
    "KoordPodsPendingTooLong": {'koord_scheduler_oldest_pending_seconds{priority="koord-prod"}': always(1000)},
    "KoordBindingErrors": {'scheduler_schedule_attempts_total{result="error",profile="koord-scheduler"}': growing(1)},
    "KoordQuotaExhausted": {quota("used"): always(7800), quota("request"): always(12000)},
    "KoordQuotaBelowMin": {quota("used"): always(3000), quota("request"): always(5000)},
    "KoordReservationPending": {'scheduler_reservation_status_phase{name="night",phase="Pending"}': always(1)},
    "KoordReportsStale": {'koord_manager_nodes{report="stale"}': always(2)},
    "KoordLentCollapsed": {f'{LENT}{{node="n1",{BATCH_CPU}}}': f"20x{MINUTES - 30} 2x29"},
    "KoordConfigurationInvalid": {"koord_manager_configuration_faults": always(1)},
    "KoordRolloutStopped": {'koord_manager_rollout_stopped{feature="lending"}': always(1)},
    "KoordWebhookBroken": {"koord_manager_webhook_registered": always(0)},
    "KoordAdmissionOff": {"koord_manager_admission_off": always(1)},
    # Long ago, whatever the time is.
    "KoordWebhookCertificateExpiring": {"koord_manager_webhook_certificate_expiry_timestamp_seconds": always(86400)},
    "KoordAgentDown": {'up{job="koord-agent",instance="n1"}': always(0)},
    "KoordAgentNotReporting": {'koordlet_report_failing_seconds{node="n1",report="usage"}': always(400)},
    "KoordAgentWritesRefused": {'koordlet_actions_total{node="n1",by="cpu_suppress",what="refused"}': growing(1)},
    "KoordRestorePending": {'koordlet_actions_total{node="n1",by="cpu_suppress",what="restore-refused"}': growing(1)},
    "KoordBatchSuppressed": {'koordlet_be_cpu_milli{node="n1",what="limit"}': always(1000)},
    "KoordEvictionsHigh": {'koordlet_actions_total{node="n1",by="BEMemoryEvict",what="evict"}': growing(1)},
    "KoordMovesStuck": {"koord_descheduler_oldest_job_seconds": always(5000)},
    "KoordYarnCapUnconfirmed": {'koord_yarn_cap_unconfirmed_seconds{cluster="c",node_manager="n1:8041"}': always(400)},
}
"""What differs from a cluster in which all is well, by alert."""


def values(notation: str) -> Iterator[float]:
    """The samples that promtool makes of a notation."""
    for part in notation.split():
        found = re.fullmatch(r"([\d.e+]+?)(?:\+([\d.]+))?x(\d+)", part)
        assert found is not None, part
        begin, step, times = float(found[1]), float(found[2] or 0), int(found[3])
        yield from (begin + step * at for at in range(times + 1))
