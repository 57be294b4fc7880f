"""What the scheduler tells Prometheus, under the names that dashboards for kube-scheduler know.

Counting happens as things happen; what has to be looked at as a whole (the queue, the state) is looked at once a second
at most, by the loop that owns it.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from koord.kube.metrics import Metrics
from koord.scheduler.live.feed import Feed
from koord.scheduler.queue import Attempt, Where

SCHEDULED: Final = "scheduled"
UNSCHEDULABLE: Final = "unschedulable"
ERROR: Final = "error"

ATTEMPT_BUCKETS: Final = tuple(0.001 * 2**exponent for exponent in range(15))
SLI_BUCKETS: Final = tuple(0.01 * 2**exponent for exponent in range(20))
TRIES_BUCKETS: Final = (1.0, 2.0, 4.0, 8.0, 16.0)
VICTIMS_BUCKETS: Final = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
LOOK_EVERY_S: Final = 1.0
_QUEUES: Final = {
    Where.ACTIVE: "active",
    Where.BACKOFF: "backoff",
    Where.UNSCHEDULABLE: "unschedulable",
    Where.GATED: "gated",
}
_MOST_TRIES_TOLD: Final = 16


class SchedulerMetrics:
    """All families of a scheduler."""

    def __init__(self, metrics: Metrics) -> None:
        self.metrics = metrics
        self._attempts = metrics.counter(
            "scheduler_schedule_attempts_total", "Attempts to schedule pods, by their result", "result", "profile"
        )
        self._attempt_time = metrics.histogram(
            "scheduler_scheduling_attempt_duration_seconds",
            "Seconds from taking a pod to its being bound, or turned away",
            ATTEMPT_BUCKETS,
            "result",
            "profile",
        )
        self._decision_time = metrics.histogram(
            "scheduler_scheduling_algorithm_duration_seconds", "Seconds that a decision takes", ATTEMPT_BUCKETS
        )
        self._sli = metrics.histogram(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "Seconds from a pod's coming into the queue to its being bound, by the number of attempts",
            SLI_BUCKETS,
            "attempts",
        )
        self._tries = metrics.histogram(
            "scheduler_pod_scheduling_attempts", "Attempts until a pod was bound", TRIES_BUCKETS
        )
        self._pending = metrics.gauge("scheduler_pending_pods", "Pods that wait, by queue", "queue")
        self._incoming = metrics.counter(
            "scheduler_queue_incoming_pods_total", "Pods added to queues, by queue and event", "queue", "event"
        )
        self._unschedulable = metrics.gauge(
            "scheduler_unschedulable_pods", "Pods that wait since a plugin turned them away", "plugin", "profile"
        )
        self._cache = metrics.gauge(
            "scheduler_scheduler_cache_size", "Nodes, pods and pods not yet heard of as bound, in the state", "type"
        )
        self._victims = metrics.histogram(
            "scheduler_preemption_victims", "Pods that had to go for one", VICTIMS_BUCKETS
        )
        self._preemptions = metrics.counter(
            "scheduler_preemption_attempts_total", "Attempts to make room for a pod by preemption"
        )
        self._timeouts = metrics.counter(
            "scheduler_scheduling_timeout", "Attempts that took longer than is acceptable", "profile"
        )
        self._told_of: set[tuple[str, str]] = set()
        self._looked_s = float("-inf")
        for name in _QUEUES.values():
            self._pending.labels(name).set(0)

    def attempted(self, result: str, profile: str, took_s: float) -> None:
        """An attempt has come to its end."""
        self._attempts.labels(result, profile).inc()
        self._attempt_time.labels(result, profile).observe(took_s)

    def decided(self, took_s: float) -> None:
        self._decision_time.observe(took_s)

    def bound(self, attempt: Attempt, since_s: float) -> None:
        """A pod is bound, so long after it came."""
        tries = str(attempt.tries) if attempt.tries < _MOST_TRIES_TOLD else f"{_MOST_TRIES_TOLD}+"
        self._sli.labels(tries).observe(since_s)
        self._tries.observe(attempt.tries)

    def queued(self, where: Where, event: str) -> None:
        """A pod went into a queue, for that reason."""
        if where in _QUEUES:
            self._incoming.labels(_QUEUES[where], event).inc()

    def timed_out(self, profile: str) -> None:
        """An attempt takes, or took, too long."""
        self._timeouts.labels(profile).inc()

    def preempted(self, victims: int) -> None:
        """Room is being made for a pod, at the cost of so many."""
        self._preemptions.inc()
        self._victims.observe(victims)

    def look(self, feed: Feed, now_s: float) -> None:
        """How things are; not more often than it is worth."""
        if now_s - self._looked_s < LOOK_EVERY_S:
            return
        self._looked_s = now_s
        where: Counter[Where] = Counter()
        by: Counter[tuple[str, str]] = Counter()
        for attempt in feed.queue:
            where[attempt.where] += 1
            if attempt.where is Where.UNSCHEDULABLE:
                profile = str(attempt.entity.pods[0].spec.scheduler_name)
                by.update((plugin, profile) for plugin in attempt.rejected_by)
        for each, name in _QUEUES.items():
            self._pending.labels(name).set(where[each])
        for labels in self._told_of - by.keys():
            self._unschedulable.remove(*labels)
        for labels, number in by.items():
            self._unschedulable.labels(*labels).set(number)
        self._told_of = set(by)
        self._cache.labels("nodes").set(len(feed.cluster.table))
        self._cache.labels("pods").set(len(feed.cluster.pods))
        self._cache.labels("assumed_pods").set(len(feed.assumed))
