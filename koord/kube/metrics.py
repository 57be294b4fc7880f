"""Metrics: what koord's components tell Prometheus about themselves, under the names Kubernetes users know.

One `Metrics` per process holds a registry and the families. A component asks it once for the observer of *its* queue,
controller, lease or client, and keeps that: looking a child up costs three times as much as counting. Objects that
come and go are measured through `Tracked`, which forgets the children of what is gone.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterator, Mapping
from typing import Generic, Protocol, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.gc_collector import GCCollector
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from koord.kube.controller import Result
from koord.kube.work_queue import WorkQueue

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

# Kubernetes' work queue histograms: decades from 10 ns to 10 s.
QUEUE_BUCKETS = tuple(10.0**exponent for exponent in range(-8, 2))
REQUEST_BUCKETS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
RECONCILE_BUCKETS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)

M = TypeVar("M", bound=MetricWrapperBase)
K = TypeVar("K", bound=Hashable)


class Metrics:
    """All families of one process. `process=False` leaves out those about the process itself."""

    def __init__(self, registry: CollectorRegistry | None = None, *, process: bool = True) -> None:
        self.registry = registry if registry is not None else CollectorRegistry()
        if process:
            ProcessCollector(registry=self.registry)
            PlatformCollector(registry=self.registry)
            GCCollector(registry=self.registry)
        self._depth = self.gauge("workqueue_depth", "Items waiting in the work queue", "name")
        self._adds = self.counter("workqueue_adds_total", "Items added to the work queue", "name")
        self._retries = self.counter("workqueue_retries_total", "Items added again after a failure", "name")
        self._waited = self.histogram(
            "workqueue_queue_duration_seconds", "Seconds an item waits before it is taken", QUEUE_BUCKETS, "name"
        )
        self._worked = self.histogram(
            "workqueue_work_duration_seconds", "Seconds that working on an item takes", QUEUE_BUCKETS, "name"
        )
        self._unfinished = self.gauge(
            "workqueue_unfinished_work_seconds",
            "Seconds of work in progress, all workers together; a steady growth means stuck workers",
            "name",
        )
        self._longest = self.gauge(
            "workqueue_longest_running_processor_seconds", "Seconds that the slowest worker has been at it", "name"
        )
        self._reconciled = self.counter(
            "controller_runtime_reconcile_total", "Reconciliations by their result", "controller", "result"
        )
        self._reconcile_errors = self.counter(
            "controller_runtime_reconcile_errors_total", "Reconciliations that failed", "controller"
        )
        self._reconcile_time = self.histogram(
            "controller_runtime_reconcile_time_seconds",
            "Seconds one takes",
            RECONCILE_BUCKETS,
            "controller",
        )
        self._requests = self.counter(
            "rest_client_requests_total",
            "Requests by status code, method and host",
            "code",
            "method",
            "host",
        )
        self._request_time = self.histogram(
            "rest_client_request_duration_seconds",
            "Seconds until the answer",
            REQUEST_BUCKETS,
            "verb",
            "host",
        )
        self._retried_requests = self.counter(
            "rest_client_request_retries_total",
            "Requests tried again by code, method and host",
            "code",
            "verb",
            "host",
        )
        self._leading = self.gauge(
            "leader_election_master_status", "1 while this process leads by the lease of that name, else 0", "name"
        )
        self._informers = _InformerCollector()
        self.registry.register(self._informers)
        self._recorder_events = self.counter(
            "koord_events_total", "Kubernetes events by what became of them: written, dropped or failed", "outcome"
        )

    def counter(self, name: str, help_text: str, *labels: str) -> Counter:
        return Counter(name, help_text, labels, registry=self.registry)

    def gauge(self, name: str, help_text: str, *labels: str) -> Gauge:
        return Gauge(name, help_text, labels, registry=self.registry)

    def table(self, name: str, help_text: str, *labels: str) -> Table:
        """A gauge that may have very many series, which come and go."""
        new_table = Table(name, help_text, labels)
        self.registry.register(new_table)
        return new_table

    def histogram(self, name: str, help_text: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
        return Histogram(name, help_text, labels, registry=self.registry, buckets=buckets)

    def queue(self, name: str) -> QueueMetrics:
        """The observer of a work queue."""
        return QueueMetrics(self, name)

    def reconciler(self, controller: str) -> ReconcileMetrics:
        """The observer of a controller."""
        return ReconcileMetrics(self, controller)

    def leader(self, lease: str) -> Gauge:
        """1 while this process leads by `lease`."""
        return self._leading.labels(lease)

    def requests(self, host: str) -> RequestMetrics:
        """The observer of a client of one API server."""
        return RequestMetrics(self, host)

    def follow(self, informer: InformerFigures) -> None:
        """Reads the informer's own counters at each scrape, so that watching costs nothing more."""
        self._informers.followed.append(informer)

    def events(self) -> EventMetrics:
        """The observer of an event recorder."""
        return EventMetrics(self)

    def render(self) -> bytes:
        """The text that Prometheus scrapes. Takes 10 us a series: call it in a thread."""
        return generate_latest(self.registry)


class QueueMetrics:
    def __init__(self, metrics: Metrics, name: str) -> None:
        self._depth = metrics._depth.labels(name)
        self._adds = metrics._adds.labels(name)
        self._retries = metrics._retries.labels(name)
        self._waited = metrics._waited.labels(name)
        self._worked = metrics._worked.labels(name)
        self._unfinished = metrics._unfinished.labels(name)
        self._longest = metrics._longest.labels(name)

    def added(self, depth: int) -> None:
        self._adds.inc()
        self._depth.set(depth)

    def retried(self) -> None:
        self._retries.inc()

    def taken(self, depth: int, waited_s: float) -> None:
        self._depth.set(depth)
        self._waited.observe(waited_s)

    def done(self, depth: int, worked_s: float) -> None:
        self._depth.set(depth)
        self._worked.observe(worked_s)

    def follow(self, queue: WorkQueue[K]) -> None:
        """Reads the work in progress of `queue` at each scrape."""
        self._unfinished.set_function(lambda: queue.state.unfinished_s(time.monotonic())[0])
        self._longest.set_function(lambda: queue.state.unfinished_s(time.monotonic())[1])


class ReconcileMetrics:
    def __init__(self, metrics: Metrics, controller: str) -> None:
        results: tuple[Result, ...] = ("success", "requeue", "requeue_after", "error")
        self._by_result = {result: metrics._reconciled.labels(controller, result) for result in results}
        self._errors = metrics._reconcile_errors.labels(controller)
        self._time = metrics._reconcile_time.labels(controller)

    def reconciled(self, result: Result, took_s: float) -> None:
        self._by_result[result].inc()
        self._time.observe(took_s)
        if result == "error":
            self._errors.inc()


class RequestMetrics:
    """`code` is the HTTP status, or `<error>` where none came, as client-go has it."""

    def __init__(self, metrics: Metrics, host: str) -> None:
        self._metrics = metrics
        self._host = host
        self._requests: dict[tuple[str, str], Counter] = {}
        self._times: dict[str, Histogram] = {}

    def answered(self, method: str, code: int | None, took_s: float) -> None:
        shown = str(code) if code else "<error>"
        request = self._requests.get((shown, method))
        if request is None:
            request = self._requests[shown, method] = self._metrics._requests.labels(shown, method, self._host)
        request.inc()
        timing = self._times.get(method)
        if timing is None:
            timing = self._times[method] = self._metrics._request_time.labels(method, self._host)
        timing.observe(took_s)

    def retried(self, method: str, code: int | None) -> None:
        self._metrics._retried_requests.labels(str(code) if code else "<error>", method, self._host).inc()


class InformerFigures(Protocol):
    """What an informer counts."""

    events: int
    relists: int
    reconnects: int
    malformed: int

    @property
    def staleness_s(self) -> float: ...
    def __len__(self) -> int: ...


class Table(Collector):
    """A gauge whose series are entries of a dictionary until a scrape: setting one costs very little."""

    def __init__(self, name: str, help_text: str, labels: tuple[str, ...]) -> None:
        self._name, self._help, self._labels = name, help_text, labels
        self._values: dict[tuple[str, ...], float] = {}

    def put(self, labels: Mapping[str, str], value: float | None) -> None:
        """What a series is; None: it is gone."""
        key = tuple([labels[name] for name in self._labels])
        if value is None:
            self._values.pop(key, None)
        else:
            self._values[key] = value

    def collect(self) -> Iterator[Metric]:
        family = GaugeMetricFamily(self._name, self._help, labels=self._labels)
        # Scrapes run in a thread: a copy in one step, since entries may be added during a scrape.
        for key, value in list(self._values.items()):
            family.add_metric(key, value)
        yield family


class _InformerCollector(Collector):
    def __init__(self) -> None:
        self.followed: list[InformerFigures] = []

    def collect(self) -> Iterator[Metric]:
        label = ["informer"]
        objects = GaugeMetricFamily("koord_informer_objects", "Objects that an informer holds", labels=label)
        stale = GaugeMetricFamily(
            "koord_informer_staleness_seconds", "Seconds since an informer last heard its server", labels=label
        )
        counters = {
            name: CounterMetricFamily(f"koord_informer_{name}", meaning, labels=label)
            for name, meaning in (
                ("events", "Changes that an informer's watches brought"),
                ("relists", "Full lists that an informer made"),
                ("reconnects", "Watches that an informer began again"),
                ("malformed", "Objects that an informer could not read"),
            )
        }
        for informer in tuple(self.followed):
            named = [str(informer)]
            objects.add_metric(named, len(informer))
            stale.add_metric(named, informer.staleness_s)
            counters["events"].add_metric(named, informer.events)
            counters["relists"].add_metric(named, informer.relists)
            counters["reconnects"].add_metric(named, informer.reconnects)
            counters["malformed"].add_metric(named, informer.malformed)
        yield objects
        yield stale
        yield from counters.values()


class EventMetrics:
    def __init__(self, metrics: Metrics) -> None:
        outcomes = ("written", "dropped", "failed")
        self._written, self._dropped, self._failed = (metrics._recorder_events.labels(name) for name in outcomes)

    def written(self, count: int) -> None:
        self._written.inc(count)

    def dropped(self, count: int) -> None:
        self._dropped.inc(count)

    def failed(self, count: int) -> None:
        self._failed.inc(count)


class Tracked(Generic[M]):
    """A family whose children belong to objects: `of(key, ...)` gives a child, `forget(key)` removes all of a key's.

    prometheus-client keeps a child for ever; without this a cluster's dead pods would stay in every scrape. The labels
    must name the object, so that no two keys share a child.
    """

    def __init__(self, family: M) -> None:
        self._family = family
        self._children: dict[str, dict[tuple[str, ...], M]] = {}

    def of(self, key: str, *labels: str) -> M:
        children = self._children.setdefault(key, {})
        child = children.get(labels)
        if child is None:
            child = children[labels] = self._family.labels(*labels)
        return child

    def forget(self, key: str) -> None:
        for labels in self._children.pop(key, {}):
            self._family.remove(*labels)

    def keys(self) -> frozenset[str]:
        return frozenset(self._children)
