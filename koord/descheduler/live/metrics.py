"""What the descheduler tells Prometheus. Evictions have Koordinator's name, as a gauge: a counter's would get an ending
that the one in Koordinator does not have."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from koord.api.kubernetes.pod import Pod
from koord.api.protocol.crd.pod_migration_job import TERMINAL, PodMigrationJob, PodMigrationJobPhase
from koord.descheduler.job_status import created_s
from koord.descheduler.migration_step import EvictPod
from koord.descheduler.round import Outcome
from koord.kube.metrics import RECONCILE_BUCKETS, Metrics

OPEN: Final = tuple(phase for phase in PodMigrationJobPhase if phase not in TERMINAL)
NEW: Final = "New"
"""For the phase of jobs that have none yet."""


class DeschedulerMetrics:
    def __init__(self, metrics: Metrics) -> None:
        self.metrics = metrics
        self._evicted = metrics.gauge(
            "descheduler_pods_evicted",
            "Evicted pods by result, strategy, namespace and node; 'error' means that a pod could not be evicted",
            "result",
            "strategy",
            "namespace",
            "node",
        )
        self._took = metrics.histogram(
            "koord_descheduler_round_duration_seconds", "Seconds that a round takes", RECONCILE_BUCKETS
        )
        self._proposed = metrics.counter(
            "koord_descheduler_proposals_total",
            "Pods that rounds found to sit badly, by plugin and whether they may move",
            "plugin",
            "outcome",
        )
        self._jobs = metrics.counter(
            "koord_descheduler_jobs_total", "PodMigrationJobs that have ended, by phase and reason", "phase", "reason"
        )

        self._open = metrics.gauge(
            "koord_descheduler_open_jobs", "PodMigrationJobs that have not ended, by phase", "phase"
        )
        self._oldest = metrics.gauge(
            "koord_descheduler_oldest_job_seconds", "Seconds since the oldest job that runs was created"
        )

    def follow(self, jobs: Callable[[], Iterable[PodMigrationJob]], now: Callable[[], float]) -> None:
        """Looks at `jobs` at each scrape."""

        def oldest() -> float:
            now_s = now()
            running = (job for job in jobs() if job.status.phase is PodMigrationJobPhase.RUNNING)
            return max((now_s - created_s(job, now_s) for job in running), default=0.0)

        def number(phase: PodMigrationJobPhase) -> int:
            return sum(job.status.phase is phase for job in jobs())

        for phase in OPEN:
            self._open.labels(phase.value or NEW).set_function(partial(number, phase))
        self._oldest.set_function(oldest)

    def evicted(self, action: EvictPod, pod: Pod | None, *, ok: bool) -> None:
        node = "" if pod is None else pod.spec.node_name
        self._evicted.labels("success" if ok else "error", action.trigger, action.namespace, node).inc()

    def ended(self, job: PodMigrationJob) -> None:
        self._jobs.labels(str(job.status.phase), job.status.reason).inc()

    def round(self, outcome: Outcome, took_s: float) -> None:
        self._took.observe(took_s)
        for move in outcome.moves:
            self._proposed.labels(move.by, "moves").inc()
        for held in outcome.held:
            self._proposed.labels(held.proposal.by, "waits").inc()
