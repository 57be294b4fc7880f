"""docs/reference/metrics.md: every metric that a component exports, read from the collectors themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, Final, cast

from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from koord.agent.live.metrics import AgentCollector
from koord.agent.predict.forecast import Forecast
from koord.agent.series.samples import Samples
from koord.api.configuration.features import AgentGate, ManagerGate, parse_gates
from koord.descheduler.live.metrics import DeschedulerMetrics
from koord.kube.metrics import Metrics, Table
from koord.manager.live.metrics import ManagerMetrics
from koord.manager.live.webhook_server import WebhookServer
from koord.scheduler.live.metrics import SchedulerMetrics
from koord.yarn.live.metrics import YarnMetrics
from koord_minicluster.apiserver import telemetry
from koord_minicluster.hollow.live.figures import Figures
from koord_minicluster.hollow.live.guard import Guard
from tests.agent import states
from tools.reference.structs import escaped


@dataclass(frozen=True, slots=True)
class Family:
    name: str
    "As Prometheus has it: a counter ends with _total."
    type: str
    help: str
    labels: tuple[str, ...]


def families() -> Mapping[str, tuple[Family, ...]]:
    """By component. What all components export comes first, and is left out of the others."""
    common = {family.name: family for family in _registered(lambda metrics: None)}
    own: dict[str, tuple[Family, ...]] = {"Every component": tuple(common.values())}
    for component, make in _COMPONENTS.items():
        own[component] = tuple(family for family in _registered(make) if family.name not in common)
    own["The agent"] = tuple(_of_agent())
    own["The embedded API server"] = tuple(_of_api_server())
    return own


def _manager(metrics: Metrics) -> None:
    ManagerMetrics(metrics)
    facts = SimpleNamespace(now=lambda: SimpleNamespace(quotas=None), admitted=None)
    WebhookServer(cast("Any", None), cast("Any", facts), parse_gates(ManagerGate), "127.0.0.1:0", metrics=metrics)


def _hollow(metrics: Metrics) -> None:
    Guard(cast("Any", None), cast("Any", None), cast("Any", None), metrics)
    Figures(metrics)


_COMPONENTS: Final[Mapping[str, Callable[[Metrics], object]]] = {
    "The scheduler": SchedulerMetrics,
    "The manager": _manager,
    "The descheduler": DeschedulerMetrics,
    "YARN's operator": YarnMetrics,
    "Hollow nodes": _hollow,
}


def _registered(make: Callable[[Metrics], object]) -> Iterator[Family]:
    metrics = Metrics(process=False)
    make(metrics)
    for collector in metrics.registry._collector_to_names:
        if isinstance(collector, MetricWrapperBase):
            yield _family(collector._name, collector._type, collector._documentation, collector._labelnames)
        elif isinstance(collector, Table):
            yield _family(collector._name, "gauge", collector._help, collector._labels)
        else:
            yield from _collected(collector)


def _of_agent() -> Iterator[Family]:
    agent = cast("Any", SimpleNamespace(samples=Samples(), remembered=lambda strategy: SimpleNamespace(cookies={})))
    amounts = SimpleNamespace(cpu_milli=0, memory_bytes=0)
    prediction = SimpleNamespace(reclaimable=amounts, peak=amounts)
    forecast = cast("Forecast", SimpleNamespace(made_s=states.NOW, by_predictor={}, prod=prediction))
    state = replace(states.node(), gates=dict.fromkeys(AgentGate, True))
    return _collected(AgentCollector(agent, lambda: state, {}, lambda: states.NOW, forecast=lambda: forecast))


def _of_api_server() -> Iterator[Family]:
    store = SimpleNamespace(collections=tuple, revision=0, oldest=0, fault=None, on_commit=None)
    in_flight = SimpleNamespace(counts=dict)
    made = telemetry.Telemetry(cast("Any", store), cast("Any", in_flight))
    return _collected(telemetry._Collector(made, cast("Any", store), cast("Any", in_flight)))


def _collected(collector: Collector) -> Iterator[Family]:
    for metric in collector.collect():
        yield _family(metric.name, metric.type, metric.documentation, _labels(metric))


def _labels(metric: Metric) -> tuple[str, ...]:
    return tuple(getattr(metric, "_labelnames", ()))


def _family(name: str, kind: str, text: str, labels: tuple[str, ...]) -> Family:
    return Family(f"{name}_total" if kind == "counter" else name, kind, text, tuple(labels))


def page() -> tuple[str, list[str]]:
    """The page, and the metrics that have no description."""
    lines = [
        "# Metrics",
        "",
        "Every metric that koord's components export at `/metrics`, with its labels. [When something is",
        "wrong](../when-something-is-wrong.md#enable-the-alerts) says how Prometheus gets them, and which alerts and",
        "dashboards use them. The names are Koordinator's and Kubernetes' where those have the same metric.",
        "",
        "A histogram has the series `NAME_bucket`, `NAME_sum` and `NAME_count`. All components also export the",
        "usual `process_` and `python_` metrics.",
    ]
    undescribed: list[str] = []
    for component, exported in families().items():
        lines += ["", f"## {component}", "", "| metric | type | labels | what it is |", "| --- | --- | --- | --- |"]
        for family in exported:
            if not family.help:
                undescribed.append(family.name)
            labels = ", ".join(f"`{label}`" for label in family.labels)
            lines.append(f"| `{family.name}` | {family.type} | {labels} | {escaped(family.help)} |")
    return "\n".join([*lines, ""]), undescribed
