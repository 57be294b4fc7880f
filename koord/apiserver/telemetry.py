"""What the server tells Prometheus of itself at /metrics, under the real server's names where it has one.

Counting is on the path of every request, so children are looked up once and kept. What can be asked for at any time
(objects, watches, revisions) is not counted at all but read when somebody scrapes.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.gc_collector import GCCollector
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from koord.apiserver.in_flight import InFlight
from koord.apiserver.request_info import RequestInfo
from koord.apiserver.store import Store

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

REQUEST_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
COMMIT_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
WRITES_BUCKETS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0)

_REQUEST_LABELS = ("verb", "group", "version", "resource", "subresource")
_VERBS = {"create": "POST", "update": "PUT"}
"The others are the verb in capitals, as the real server counts them."


class Telemetry:
    """The figures of one server."""

    def __init__(self, store: Store, in_flight: InFlight) -> None:
        self._registry = CollectorRegistry()
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self._registry)
        self._registry.register(_StoreCollector(store, in_flight))
        self._requests = Counter(
            "apiserver_request_total",
            "Requests by verb, resource and the code of their answer",
            (*_REQUEST_LABELS, "code"),
            registry=self._registry,
        )
        self._durations = Histogram(
            "apiserver_request_duration_seconds",
            "Seconds until a request was answered; watches are left out",
            _REQUEST_LABELS,
            buckets=REQUEST_BUCKETS,
            registry=self._registry,
        )
        self._commits = Histogram(
            "koord_apiserver_store_commit_duration_seconds",
            "Seconds until a group of writes was on disk",
            buckets=COMMIT_BUCKETS,
            registry=self._registry,
        )
        self._writes = Histogram(
            "koord_apiserver_store_commit_writes",
            "Writes that one commit put on disk",
            buckets=WRITES_BUCKETS,
            registry=self._registry,
        )
        self._counters: dict[tuple[str, ...], Counter] = {}
        self._timers: dict[tuple[str, ...], Histogram] = {}
        store.on_commit = self.committed

    def answered(self, info: RequestInfo | None, code: int, took_s: float, *, served: bool) -> None:
        """Count a request. What is asked for and not `served` has no labels of its own: clients could invent many."""
        if info is None or not served:
            labels: tuple[str, ...] = ("other", "", "", "", "")
        else:
            verb = _VERBS.get(info.verb) or info.verb.upper()
            labels = (verb, info.group, info.version, info.resource, info.subresource)
        counted = (*labels, str(code))
        counter = self._counters.get(counted)
        if counter is None:
            counter = self._counters[counted] = self._requests.labels(*counted)
        counter.inc()
        if labels[0] == "WATCH":
            return
        timer = self._timers.get(labels)
        if timer is None:
            timer = self._timers[labels] = self._durations.labels(*labels)
        timer.observe(took_s)

    def committed(self, writes: int, took_s: float) -> None:
        self._commits.observe(took_s)
        self._writes.observe(writes)

    def text(self) -> bytes:
        return generate_latest(self._registry)


class _StoreCollector(Collector):
    """What is there to be read at the moment of the scrape."""

    def __init__(self, store: Store, in_flight: InFlight) -> None:
        self._store, self._in_flight = store, in_flight

    def collect(self) -> Iterator[Metric]:
        objects = GaugeMetricFamily("apiserver_storage_objects", "Objects kept, by resource", labels=["resource"])
        watches = GaugeMetricFamily(
            "apiserver_longrunning_requests", "Watches that are open, by resource", labels=["verb", "resource"]
        )
        for collection in sorted(self._store.collections(), key=lambda each: each.name):
            objects.add_metric([collection.name], len(collection))
            if collection.subscriptions:
                watches.add_metric(["WATCH", collection.name], len(collection.subscriptions))
        waiting = GaugeMetricFamily(
            "apiserver_current_inflight_requests", "Requests being answered, but for watches", labels=["request_kind"]
        )
        for kind, number in self._in_flight.counts().items():
            waiting.add_metric([kind], number)
        yield objects
        yield watches
        yield waiting
        yield GaugeMetricFamily("koord_apiserver_store_revision", "The newest revision", value=self._store.revision)
        yield GaugeMetricFamily(
            "koord_apiserver_store_oldest_revision",
            "Watches and pages of lists can go back to this revision",
            value=self._store.oldest,
        )
        yield GaugeMetricFamily(
            "koord_apiserver_store_faulty",
            "1 while the disk refuses writes, else 0",
            value=1 if self._store.fault else 0,
        )
