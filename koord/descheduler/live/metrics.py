"""What the descheduler tells Prometheus. Evictions have Koordinator's name, as a gauge: a counter's would get an ending
that the one in Koordinator does not have."""

from __future__ import annotations

from koord.api.kubernetes.pod import Pod
from koord.api.protocol.crd.pod_migration_job import PodMigrationJob
from koord.descheduler.migration import EvictPod
from koord.descheduler.round import Outcome
from koord.kube.metrics import RECONCILE_BUCKETS, Metrics


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

    def evicted(self, action: EvictPod, pod: Pod | None, *, ok: bool) -> None:
        node = "" if pod is None else pod.spec.node_name
        self._evicted.labels("success" if ok else "error", action.trigger, action.namespace, node).inc()

    def ended(self, job: PodMigrationJob) -> None:
        self._jobs.labels(str(job.status.phase), job.status.reason).inc()

    def round(self, outcome: Outcome, took_s: float) -> None:
        self._took.observe(took_s)
        for each in outcome.moves:
            self._proposed.labels(each.by, "moves").inc()
        for held in outcome.held:
            self._proposed.labels(held.proposal.by, "waits").inc()
