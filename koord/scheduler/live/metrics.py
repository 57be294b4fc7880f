"""What the scheduler tells Prometheus, under the names that dashboards for kube-scheduler know.

Counting happens as things happen; what has to be looked at as a whole (the queue, the state) is looked at once a second
at most, by the loop that owns it.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable
from typing import Final, Literal, Protocol, TypeAlias

from prometheus_client import Counter as Counted
from prometheus_client import Histogram

from koord.api.kinds import ELASTIC_QUOTAS
from koord.api.protocol.priority import PriorityClass, class_of_priority
from koord.kube.metrics import Metrics, Table
from koord.scheduler.core.core import Core
from koord.scheduler.core.entity import Attempt, Where
from koord.scheduler.framework.controller import Measure
from koord.scheduler.plugins.quota.latency import PROCESS_LATENCY
from koord.scheduler.plugins.quota.measured import ELASTIC_QUOTA_STATUS
from koord.scheduler.plugins.reservation.selector_index import CANDIDATES, QUERIES
from koord.scheduler.plugins.reservation.service import PHASE, RESOURCE

SCHEDULED: Final = "scheduled"
UNSCHEDULABLE: Final = "unschedulable"
ERROR: Final = "error"
SUCCEEDED: Final = "gang is already succeed"
ATTEMPTED: Final = "all pending pods is already been attempted"
"""How a decision about a gang ended, in Koordinator's words: all it needs has a place, or not."""

ATTEMPT_BUCKETS: Final = tuple(0.001 * 2**exponent for exponent in range(15))
SLI_BUCKETS: Final = tuple(0.01 * 2**exponent for exponent in range(20))
TRIES_BUCKETS: Final = (1.0, 2.0, 4.0, 8.0, 16.0)
VICTIMS_BUCKETS: Final = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
POINT_BUCKETS: Final = tuple(0.0001 * 2**exponent for exponent in range(12))
PLUGIN_BUCKETS: Final = tuple(0.00001 * 1.5**exponent for exponent in range(20))
PREEMPTING_BUCKETS: Final = tuple(0.01 * 2**exponent for exponent in range(20))
GANG_BUCKETS: Final = (0.1, 0.5, 1.0, 2.0, 3.0, 5.0, 7.5, 10.0, 12.5, 15.0, 20.0, 25.0, 30.0, 45.0, 60.0, 120.0)
CANDIDATE_BUCKETS: Final = tuple(float(2**exponent) for exponent in range(14))
JOB_PREEMPTION_BUCKETS: Final = tuple(0.001 * 2**exponent for exponent in range(20))
QUOTA_BUCKETS: Final = tuple(0.00001 * 2**exponent for exponent in range(24))
WRITTEN_BUCKETS: Final = tuple(0.001 * 2**exponent for exponent in range(15))
MOST_JOBS: Final = 500
"""The duration of preemption is reported for this many jobs and results."""
JOB_SIZE: Final = 100
"""Sizes of jobs are reported in steps of this: 1-100, 101-200, ..."""
MOST_SIZES: Final = 10
LOOK_EVERY_S: Final = 1.0
NO_BAND: Final = "none"
"""For pods whose priority is of no class of koord's."""
_QUEUES: Final = {
    Where.ACTIVE: "active",
    Where.BACKOFF: "backoff",
    Where.UNSCHEDULABLE: "unschedulable",
    Where.GATED: "gated",
}
_MOST_TRIES_TOLD: Final = 16
Point: TypeAlias = Literal["Filter", "PostFilter", "Permit", "PreBind", "Bind"]
Status: TypeAlias = Literal["Success", "Unschedulable", "Error"]


class Spent(Protocol):
    """Counts the seconds of an extension point, by its outcome and profile; and by the plugin, if it is known to be
    the only one there."""

    def __call__(self, point: Point, status: Status, profile: str, seconds: float, plugin: str = "") -> None: ...


def uncounted(point: Point, status: Status, profile: str, seconds: float, plugin: str = "") -> None:
    """For callers that do not count."""


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
        self._oldest = metrics.gauge(
            "koord_scheduler_oldest_pending_seconds",
            "Seconds since the pod that has waited longest came, by priority class; gated pods do not count",
            "priority",
        )
        self._unschedulable = metrics.gauge(
            "scheduler_unschedulable_pods", "Pods that wait since a plugin turned them away", "plugin", "profile"
        )
        self._cache = metrics.gauge(
            "scheduler_cache_size", "Nodes, pods, and pods whose binding is not confirmed yet, in the state", "type"
        )
        self._points = metrics.histogram(
            "scheduler_framework_extension_point_duration_seconds",
            "Seconds at an extension point, all plugins together. Filters and scores are one pass, told as Filter",
            POINT_BUCKETS,
            "extension_point",
            "status",
            "profile",
        )
        self._plugins = metrics.histogram(
            "scheduler_plugin_execution_duration_seconds",
            "Seconds of a plugin that is alone at its extension point",
            PLUGIN_BUCKETS,
            "plugin",
            "extension_point",
            "status",
        )
        self._permits = metrics.histogram(
            "scheduler_permit_wait_duration_seconds",
            "Seconds that placed pods waited for others",
            ATTEMPT_BUCKETS,
            "result",
        )
        self._victims = metrics.histogram(
            "scheduler_preemption_victims", "Pods that had to go for one", VICTIMS_BUCKETS
        )
        self._preemptions = metrics.counter(
            "scheduler_preemption_attempts_total", "Attempts to make room for a pod by preemption"
        )
        self._preempting = metrics.histogram(
            "scheduler_preemption_goroutines_duration_seconds",
            "Seconds until all victims of a preemption were told to go",
            PREEMPTING_BUCKETS,
            "result",
        )
        self._preempting_number = metrics.counter(
            "scheduler_preemption_goroutines_execution_total", "Preemptions carried out", "result"
        )
        self._calls = metrics.gauge(
            "scheduler_pending_async_api_calls", "Calls of the API server that are under way or wait", "call_type"
        )
        # A gauge only because a counter's name would get an ending that the one in Koordinator does not have.
        self._timeouts = metrics.gauge(
            "scheduler_scheduling_timeout", "Attempts that took longer than is acceptable, so far", "profile"
        )
        self._gangs = metrics.gauge(
            "scheduler_waiting_gang_group_number", "Gang groups with pods that wait for a place"
        )
        self._gangs.set(0)
        self._gang_time = metrics.histogram(
            "scheduler_gang_schedule_cycle_duration_seconds",
            "Seconds that a decision about a gang group takes, by how it ended and the number of its pods",
            GANG_BUCKETS,
            "reason",
            "job_size",
        )
        self._job_preemption = metrics.histogram(
            "scheduler_job_preemption_duration_seconds",
            "Seconds that it took to find out who would have to go for a job, by job and result",
            JOB_PREEMPTION_BUCKETS,
            "jobName",
            "result",
        )
        self._preempting_jobs: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._quota_written = metrics.histogram(
            "scheduler_update_elastic_quota_status_duration_seconds",
            "Seconds that it took to write what an ElasticQuota is to say",
            WRITTEN_BUCKETS,
        )
        self._of_plugins: dict[str, Table | Counted | Histogram] = {
            ELASTIC_QUOTA_STATUS: metrics.table(
                ELASTIC_QUOTA_STATUS,
                "What a quota says of a resource: milli-cores of cpu, plain units of everything else",
                "name",
                "resource",
                "tree",
                "is_parent",
                "parent",
                "field",
            ),
            PROCESS_LATENCY: metrics.histogram(
                PROCESS_LATENCY, "Seconds that the accounting of quotas takes, by operation", QUOTA_BUCKETS, "operation"
            ),
            PHASE: metrics.table(PHASE, "1 for the phase that a reservation is in", "name", "phase"),
            RESOURCE: metrics.table(
                RESOURCE,
                "What a reservation has of a resource, what its owners use, and the ratio",
                "type",
                "name",
                "resource",
                "unit",
            ),
            QUERIES: metrics.counter(
                QUERIES,
                "How often pods with a reservationSelector were looked up in the index, and if it knew",
                "result",
            ),
            CANDIDATES: metrics.histogram(
                CANDIDATES, "How many nodes the index of reservations left of all", CANDIDATE_BUCKETS
            ),
        }
        "Figures that plugins know, by name."
        self._by_point: dict[tuple[Point, Status, str], Histogram] = {}
        self._by_plugin: dict[tuple[str, Point, Status], Histogram] = {}
        self._by_move: dict[tuple[Where, str], Counted] = {}
        self._told_of: set[tuple[str, str]] = set()
        self._looked_s = float("-inf")
        for name in _QUEUES.values():
            self._pending.labels(name).set(0)
        for band in PriorityClass:
            self._oldest.labels(band.value or NO_BAND).set(0)

    def attempted(self, result: str, profile: str, took_s: float) -> None:
        """An attempt has come to its end."""
        self._attempts.labels(result, profile).inc()
        self._attempt_time.labels(result, profile).observe(took_s)

    def decided(self, took_s: float) -> None:
        self._decision_time.observe(took_s)

    def decided_job(self, pods: int, took_s: float, *, placed: bool) -> None:
        """A decision about a gang group of `pods` pods."""
        step = min((pods - 1) // JOB_SIZE, MOST_SIZES)
        size = f">{MOST_SIZES * JOB_SIZE}" if step == MOST_SIZES else f"{step * JOB_SIZE + 1}-{(step + 1) * JOB_SIZE}"
        self._gang_time.labels(SUCCEEDED if placed else ATTEMPTED, size).observe(took_s)

    def looked_for_victims(self, job: str, result: str, took_s: float) -> None:
        """Victims were searched for a job. The jobs whose last search was longest ago are forgotten."""
        jobs = self._preempting_jobs
        jobs[job, result] = None
        jobs.move_to_end((job, result))
        if len(jobs) > MOST_JOBS:
            oldest, _ = jobs.popitem(last=False)
            self._job_preemption.remove(*oldest)
        self._job_preemption.labels(job, result).observe(took_s)

    def written(self, kind: str, took_s: float) -> None:
        """An object of a kind says what a plugin wants it to say."""
        if kind == ELASTIC_QUOTAS.kind:
            self._quota_written.observe(took_s)

    def bound(self, attempt: Attempt, since_s: float) -> None:
        """A pod is bound, with the time since it came."""
        tries = str(attempt.tries) if attempt.tries < _MOST_TRIES_TOLD else f"{_MOST_TRIES_TOLD}+"
        self._sli.labels(tries).observe(since_s)
        self._tries.observe(attempt.tries)

    def spent(self, point: Point, status: Status, profile: str, seconds: float, plugin: str = "") -> None:
        """An extension point was passed, and took `seconds`."""
        key = (point, status, profile)
        histogram = self._by_point.get(key)
        if histogram is None:
            histogram = self._by_point[key] = self._points.labels(*key)
        histogram.observe(seconds)
        if plugin:
            of_plugin = self._by_plugin.get((plugin, point, status))
            if of_plugin is None:
                of_plugin = self._by_plugin[plugin, point, status] = self._plugins.labels(plugin, point, status)
            of_plugin.observe(seconds)
        if point == "Permit":
            self._permits.labels(status).observe(seconds)

    def queued(self, where: Where, event: str) -> None:
        """A pod went into a queue, for that reason."""
        counter = self._by_move.get((where, event))
        if counter is None:
            if where not in _QUEUES:
                return
            counter = self._by_move[where, event] = self._incoming.labels(_QUEUES[where], event)
        counter.inc()

    def timed_out(self, profile: str) -> None:
        """An attempt takes, or took, too long."""
        self._timeouts.labels(profile).inc()

    def preempted(self, victims: int) -> None:
        """Preemption was tried for a pod; `victims` pods will be evicted, or none."""
        self._preemptions.inc()
        if victims:
            self._victims.observe(victims)

    def made_room(self, done: bool, took_s: float) -> None:
        """The victims of a pod were told to go, or could not be."""
        result = "success" if done else "error"
        self._preempting.labels(result).observe(took_s)
        self._preempting_number.labels(result).inc()

    def calls(self, bindings: int, words: int) -> None:
        """How many bindings and conditions are being written."""
        self._calls.labels("pod_binding").set(bindings)
        self._calls.labels("pod_status_patch").set(words)

    def look(self, core: Core, now_s: float) -> None:
        """How things are; not more often than it is worth."""
        if now_s - self._looked_s < LOOK_EVERY_S:
            return
        self._looked_s = now_s
        where: Counter[Where] = Counter()
        self._gangs.set(sum(1 for attempt in core.queue if attempt.entity.is_job and attempt.where in _QUEUES))
        by: Counter[tuple[str, str]] = Counter()
        profiles: dict[str, str] = {}
        since: dict[int, float] = {}
        for attempt in core.queue:
            where[attempt.where] += 1
            if attempt.where is not Where.GATED:
                priority = attempt.entity.priority
                since[priority] = min(attempt.came_s, since.get(priority, attempt.came_s))
            if attempt.where is Where.UNSCHEDULABLE:
                ask = attempt.entity.pods[0]
                profile = profiles.get(ask.spec.scheduler_name)
                if profile is None:
                    engine = core.feed.engine_of(ask)
                    profile = profiles[ask.spec.scheduler_name] = "" if engine is None else engine.profile.name
                by.update((plugin, profile) for plugin in attempt.rejected_by)
        for queue, name in _QUEUES.items():
            self._pending.labels(name).set(where[queue])
        for band in PriorityClass:
            came = [came_s for priority, came_s in since.items() if class_of_priority(priority) is band]
            self._oldest.labels(band.value or NO_BAND).set(max(0.0, now_s - min(came, default=now_s)))
        for labels in self._told_of - by.keys():
            self._unschedulable.remove(*labels)
        for labels, number in by.items():
            self._unschedulable.labels(*labels).set(number)
        self._told_of = set(by)
        for plugin in core.profiles.plugins():
            if plugin.controller is not None:
                self._measure(plugin.controller.measures())
        self._cache.labels("nodes").set(len(core.cluster.table))
        self._cache.labels("pods").set(len(core.cluster.pods))
        self._cache.labels("assumed_pods").set(len(core.assumed))

    def _measure(self, measures: Iterable[Measure]) -> None:
        for measure in measures:
            metric = self._of_plugins[measure.name]
            if isinstance(metric, Histogram):
                (metric.labels(**measure.labels) if measure.labels else metric).observe(measure.value or 0.0)
            elif isinstance(metric, Counted):
                metric.labels(**measure.labels).inc(measure.value or 0.0)
            else:
                metric.put(measure.labels, measure.value)
