"""The server's own Prometheus metrics at /metrics, under the real server's names where it has the same metric.

Counting is on the path of every request, so it is a list index and an addition; Prometheus' format is produced on each
scrape. Values that can be read at any time (objects, watches, revisions) are not counted at all.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.gc_collector import GCCollector
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from koord_minicluster.apiserver.in_flight import LASTING, InFlight
from koord_minicluster.apiserver.request_info import RequestInfo
from koord_minicluster.apiserver.store import Store

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

REQUEST_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
COMMIT_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
WRITES_BUCKETS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0)

_REQUEST_LABELS = ("verb", "group", "version", "resource", "subresource")
_VERBS = {"create": "POST", "update": "PUT"}
"The others are the verb in capitals, as the real server counts them."

Labels = tuple[str, ...]


class Distribution:
    """How often values fell between which bounds, and their sum."""

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds, self._counts, self._sum = bounds, [0] * (len(bounds) + 1), 0.0

    def observe(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def buckets(self) -> list[tuple[str, float]]:
        """Each with all that is below it, as Prometheus has them."""
        total, buckets = 0, []
        for bound, count in zip((*map(str, self._bounds), "+Inf"), self._counts, strict=True):
            total += count
            buckets.append((bound, float(total)))
        return buckets

    @property
    def sum(self) -> float:
        return self._sum


class Telemetry:
    """The figures of one server."""

    def __init__(self, store: Store, in_flight: InFlight) -> None:
        self.requests: dict[Labels, int] = {}
        self.durations: dict[Labels, Distribution] = {}
        self.commits, self.writes = Distribution(COMMIT_BUCKETS), Distribution(WRITES_BUCKETS)
        self._registry = CollectorRegistry()
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self._registry)
        self._registry.register(_Collector(self, store, in_flight))
        store.on_commit = self.committed

    def answered(self, info: RequestInfo | None, code: int, took_s: float, *, served: bool) -> None:
        """Count a request. What is asked for and not `served` has no labels of its own: clients could invent many."""
        if info is None or not served:
            labels: Labels = ("other", "", "", "", "")
        else:
            verb = _VERBS.get(info.verb) or info.verb.upper()
            labels = (verb, info.group, info.version, info.resource, info.subresource)
        counted = (*labels, str(code))
        self.requests[counted] = self.requests.get(counted, 0) + 1
        if labels[0] == "WATCH" or labels[-1] in LASTING:
            return
        distribution = self.durations.get(labels)
        if distribution is None:
            distribution = self.durations[labels] = Distribution(REQUEST_BUCKETS)
        distribution.observe(took_s)

    def committed(self, writes: int, took_s: float) -> None:
        self.commits.observe(took_s)
        self.writes.observe(writes)

    def text(self) -> bytes:
        return generate_latest(self._registry)


class _Collector(Collector):
    """The counters, and the values read at the moment of the scrape."""

    def __init__(self, telemetry: Telemetry, store: Store, in_flight: InFlight) -> None:
        self._telemetry, self._store, self._in_flight = telemetry, store, in_flight

    def collect(self) -> Iterator[Metric]:
        yield from self._of_requests()
        yield from self._of_objects()
        yield from self._of_the_store()

    def _of_requests(self) -> Iterator[Metric]:
        requests = CounterMetricFamily(
            "apiserver_request",
            "Requests by verb, resource and the code of their answer",
            labels=[*_REQUEST_LABELS, "code"],
        )
        for labels, number in self._telemetry.requests.items():
            requests.add_metric(labels, number)
        durations = HistogramMetricFamily(
            "apiserver_request_duration_seconds",
            "Seconds until a request was answered; watches, logs and streams are left out",
            labels=_REQUEST_LABELS,
        )
        for labels, distribution in self._telemetry.durations.items():
            durations.add_metric(labels, distribution.buckets(), distribution.sum)
        waiting = GaugeMetricFamily(
            "apiserver_current_inflight_requests", "Requests being answered, but for watches", labels=["request_kind"]
        )
        for kind, number in self._in_flight.counts().items():
            waiting.add_metric([kind], number)
        yield requests
        yield durations
        yield waiting

    def _of_objects(self) -> Iterator[Metric]:
        objects = GaugeMetricFamily("apiserver_storage_objects", "Objects kept, by resource", labels=["resource"])
        watches = GaugeMetricFamily(
            "apiserver_longrunning_requests", "Watches that are open, by resource", labels=["verb", "resource"]
        )
        for collection in sorted(self._store.collections(), key=lambda collection: collection.name):
            objects.add_metric([collection.name], len(collection))
            if collection.subscriptions:
                watches.add_metric(["WATCH", collection.name], len(collection.subscriptions))
        yield objects
        yield watches

    def _of_the_store(self) -> Iterator[Metric]:
        store, prefix = self._store, "koord_apiserver_store"
        for name, meaning, distribution in (
            ("commit_duration_seconds", "Seconds until a group of writes was on disk", self._telemetry.commits),
            ("commit_writes", "Writes that one commit put on disk", self._telemetry.writes),
        ):
            yield HistogramMetricFamily(
                f"{prefix}_{name}", meaning, buckets=distribution.buckets(), sum_value=distribution.sum
            )
        for name, meaning, value in (
            ("revision", "The newest revision", store.revision),
            ("oldest_revision", "Watches and pages of lists can go back to this revision", store.oldest),
            ("faulty", "1 while the disk refuses writes, else 0", 1 if store.fault else 0),
        ):
            yield GaugeMetricFamily(f"{prefix}_{name}", meaning, value=value)
