"""What the agent tells Prometheus: usage by node, band and pod, what best effort may use, what was done.

Made when it is asked for, from what the agent has at hand: a scrape costs the agent nothing between two of them, and
pods that are gone leave nothing behind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from koord.agent.collect.pressure import RESOURCES
from koord.agent.collect.waiting import LOAD_S
from koord.agent.core import Agent
from koord.agent.host.resctrl import CLASSES, COUNTERS, OCCUPANCY
from koord.agent.interference.signals import Signal
from koord.agent.pods import BATCH_CPU, BATCH_MEMORY, MID_CPU, MID_MEMORY
from koord.agent.predict.forecast import Forecast
from koord.agent.qos import core_sched
from koord.agent.report.node_metric import FORECAST_S
from koord.agent.series import names
from koord.agent.series.samples import Series
from koord.agent.state import NodeState
from koord.api.configuration.features import AgentGate
from koord.api.protocol.charged import Charged, charged_to
from koord.kube.malformed import FAILURES, FAILURES_ARE

FRESH_S: Final = 15.0
CAREFUL: Final = "minPredictor"
"""The one whose word counts."""


class AgentCollector(Collector):
    def __init__(
        self,
        agent: Agent,
        state: Callable[[], NodeState | None],
        counts: dict[str, int],
        now: Callable[[], float],
        failures: Mapping[tuple[str, str], int] | None = None,
        forecast: Callable[[], Forecast | None] = lambda: None,
        failing_s: Callable[[], Mapping[str, float]] = dict,
        evictions: Mapping[tuple[Charged, str], int] | None = None,
        node: str = "",
    ) -> None:
        """`counts`: writes, refusals and evictions, by strategy and what it was; `failures`: by kind of object and what
        could not be done; `failing_s`: by report, for how long it could not be written; `evictions`: by whose
        pod it was, and the strategy; `node`: the node's name, for what is exported while there is no state."""
        self._agent, self._state, self._counts, self._now = agent, state, counts, now
        self._failures, self._forecast, self._failing_s = failures or {}, forecast, failing_s
        self._evictions, self._node = evictions or {}, node

    def collect(self) -> Iterator[Metric]:
        state = self._state()
        if state is not None:
            yield from self._of_node(state, state.node.metadata.name)
        yield from self._of_agent(self._node if state is None else state.node.metadata.name)

    def _of_node(self, state: NodeState, node: str) -> Iterator[Metric]:
        usage = GaugeMetricFamily("koordlet_node_usage", "Used by the node", labels=["node", "resource"])
        self._add(usage, names.NODE_CPU, [node, "cpu"], 1000)
        self._add(usage, names.NODE_MEMORY, [node, "memory"])
        yield usage
        best_effort = GaugeMetricFamily(
            "koordlet_be_cpu_milli", "Of best effort: used, requested and really allowed", labels=["node", "what"]
        )
        for series, what in (
            (names.BE_CPU, "used"),
            (names.BE_CPU_REQUEST, "request"),
            (names.BE_CPU_LIMIT, "limit"),
        ):
            self._add(best_effort, series, [node, what])
        yield best_effort
        pods = GaugeMetricFamily(
            "koordlet_pod_usage",
            "Used by a pod",
            labels=["node", "pod_namespace", "pod_name", "qos", "priority", "resource"],
        )
        for uid, pod in state.pods.items():
            own = [node, pod.meta.namespace, pod.meta.name, str(pod.qos), str(pod.band)]
            self._add(pods, names.pod_cpu(uid), [*own, "cpu"], 1000)
            self._add(pods, names.pod_memory(uid), [*own, "memory"])
        yield pods
        yield from self._lent(state, node)
        yield self._page_cache(state, node)
        waiting = GaugeMetricFamily(
            "koordlet_pressure",
            "Percent of ten seconds in which tasks waited",
            labels=["node", "pod_namespace", "pod_name", "resource", "kind"],
        )
        owners = [("", "", ""), *((uid, pod.meta.namespace, pod.meta.name) for uid, pod in state.pods.items())]
        for uid, namespace, name in owners:
            for resource in RESOURCES:
                for kind in ("some", "full"):
                    self._add(waiting, names.pressure(uid, resource, kind), [node, namespace, name, resource, kind])
        yield waiting
        yield from self._suffering(state, node)
        if state.gates[AgentGate.CORE_SCHED]:
            yield from self._cookies(state, node)
        if state.gates[AgentGate.RESCTRL_COLLECTOR]:
            yield from self._resctrl(state, node)
        yield from self._predicted(node)

    def _of_agent(self, node: str) -> Iterator[Metric]:
        done = CounterMetricFamily("koordlet_actions", "What the agent did", labels=["node", "by", "what"])
        for key, count in self._counts.items():
            by, _, what = key.partition("/")
            done.add_metric([node, by, what], count)
        yield done
        unreported = GaugeMetricFamily(
            "koordlet_report_failing_seconds",
            "For how long a report could not be written; 0 where all is well",
            labels=["node", "report"],
        )
        for report, seconds in self._failing_s().items():
            unreported.add_metric([node, report], seconds)
        yield unreported
        failed = CounterMetricFamily(FAILURES, FAILURES_ARE, labels=["kind", "doing"])
        for labels, count in self._failures.items():
            failed.add_metric(labels, count)
        yield failed

    def _lent(self, state: NodeState, node: str) -> Iterator[Metric]:
        """Of pods that run on what services leave; and those of them that had to go."""
        lent = GaugeMetricFamily(
            "koordlet_lent_to_pod",
            "What a pod requests of batch and mid resources, and what it uses: cores and bytes",
            labels=["node", "pod_namespace", "pod_name", "quota", "workload", "resource", "what"],
        )
        for uid, pod in state.pods.items():
            charged = charged_to(pod.meta)
            own = [node, pod.meta.namespace, pod.meta.name, charged.quota, charged.workload]
            for resource, given, series, unit in (
                ("cpu", (BATCH_CPU, MID_CPU), names.pod_cpu(uid), 1000),
                ("memory", (BATCH_MEMORY, MID_MEMORY), names.pod_memory(uid), 1),
            ):
                requested = sum(pod.requests.get(resource, 0) for resource in given)
                if requested:
                    lent.add_metric([*own, resource, "requested"], requested / unit)
                    self._add(lent, series, [*own, resource, "used"], unit)
        yield lent
        evicted = CounterMetricFamily(
            "koordlet_evictions",
            "Pods that the agent evicted, by whose they were and the strategy",
            labels=["node", "pod_namespace", "quota", "workload", "by"],
        )
        for (charged, by), count in list(self._evictions.items()):
            evicted.add_metric([node, *charged, by], count)
        yield evicted

    def _page_cache(self, state: NodeState, node: str) -> Metric:
        """A pod's is looked at every few seconds alone."""
        family = GaugeMetricFamily(
            "koordlet_page_cache_bytes",
            "Page cache, all of it (total) and what was not used lately (cold); without a pod, the node's",
            labels=["node", "pod_namespace", "pod_name", "what"],
        )
        now_s, last = self._now(), self._agent.samples.last
        used, with_cache = (
            last(series, now_s, FRESH_S) for series in (names.NODE_MEMORY, names.NODE_MEMORY_WITH_CACHE)
        )
        if used is not None and with_cache is not None:
            family.add_metric([node, "", "", "total"], max(with_cache - used, 0.0))
        self._add(family, names.NODE_COLD, [node, "", "", "cold"])
        for uid, pod in state.pods.items():
            own = [node, pod.meta.namespace, pod.meta.name]
            self._add(family, names.pod_page_cache(uid), [*own, "total"])
            self._add(family, names.pod_cold(uid), [*own, "cold"])
        return family

    def _predicted(self, node: str) -> Iterator[Metric]:
        forecast = self._forecast()
        if forecast is None or self._now() - forecast.made_s > FORECAST_S:
            return
        labels = ["node", "predictor", "resource", "unit"]
        reclaimable = GaugeMetricFamily(
            "koordlet_node_predicted_resource_reclaimable", "Requested by prod, predicted not to be used", labels=labels
        )
        peak = GaugeMetricFamily(
            "koordlet_node_predicted_resource_peak", "Highest usage that is predicted for prod", labels=labels
        )
        for name, prediction in {**forecast.by_predictor, CAREFUL: forecast.prod}.items():
            for family, amounts in ((reclaimable, prediction.reclaimable), (peak, prediction.peak)):
                family.add_metric([node, name, "cpu", "core"], amounts.cpu_milli / 1000)
                family.add_metric([node, name, "memory", "byte"], amounts.memory_bytes)
        yield from (reclaimable, peak)

    def _suffering(self, state: NodeState, node: str) -> Iterator[Metric]:
        labels = ["node", "pod_namespace", "pod_name"]
        signals = GaugeMetricFamily(
            "koordlet_pod_signal", "A signal of suffering in the last window", labels=[*labels, "signal"]
        )
        load = GaugeMetricFamily("koordlet_pod_load", "Tasks in a state, on average", labels=[*labels, "state", "span"])
        kernel = GaugeMetricFamily("koordlet_pod_kernel_share", "Of its CPU time, the kernel's", labels=labels)
        for uid, pod in state.pods.items():
            own = [node, pod.meta.namespace, pod.meta.name]
            for signal in Signal:
                self._add(signals, names.pod_signal(uid, signal.key), [*own, signal.key])
            for letter in ("R", "D"):
                for span in LOAD_S:
                    self._add(load, names.pod_load(uid, letter, span), [*own, letter, span])
            self._add(kernel, names.pod_kernel_share(uid), own)
        yield from (signals, load, kernel)

    def _cookies(self, state: NodeState, node: str) -> Iterator[Metric]:
        labels = ["node", "pod_name", "pod_namespace", "pod_uid", "container_name", "container_id"]
        family = GaugeMetricFamily(
            "koordlet_container_core_sched_cookie",
            "1 for the core scheduling cookie of a container's group",
            labels=[*labels, "core_sched_group", "core_sched_cookie"],
        )
        cookies = self._agent.remembered(core_sched.STRATEGY).cookies
        for name, members in state.once(core_sched.groups).items():
            for pod, container in members if name in cookies else ():
                own = [node, pod.meta.name, pod.meta.namespace, pod.uid, container.name, container.id]
                family.add_metric([*own, name, str(cookies[name])], 1)
        yield family

    def _resctrl(self, state: NodeState, node: str) -> Iterator[Metric]:
        """By Koordinator's names for classes. Memory bandwidth is bytes so far."""
        labels, of_pods = ["node", "cache_id", "qos"], ["node", "cache_id", "pod_namespace", "pod_name"]
        held = "What its tasks hold of a last-level cache, in bytes"
        moved = "What its tasks have moved to and from memory, in bytes"
        llc = GaugeMetricFamily("koordlet_resctrl_llc_occupancy", held, labels=labels)
        memory = GaugeMetricFamily("koordlet_resctrl_memory_bandwidth", moved, labels=[*labels, "mb_type"])
        pod_llc = GaugeMetricFamily("koordlet_pod_resctrl_llc_occupancy", held, labels=of_pods)
        pod_memory = GaugeMetricFamily("koordlet_pod_resctrl_memory_bandwidth", moved, labels=[*of_pods, "mb_type"])
        owners = [(name, [name], llc, memory) for name in CLASSES]
        for uid, pod in state.pods.items():
            owners.append((uid, [pod.meta.namespace, pod.meta.name], pod_llc, pod_memory))
        for owner, own, occupancy, bandwidth in owners:
            for cache in {cpu.cache for cpu in state.topology.cpus}:
                for counter in COUNTERS:
                    family = occupancy if counter == OCCUPANCY else bandwidth
                    kind = [] if counter == OCCUPANCY else [counter]
                    self._add(family, names.resctrl(owner, cache, counter), [node, str(cache), *own, *kind])
        yield from (llc, memory, pod_llc, pod_memory)

    def _add(self, family: GaugeMetricFamily, series: Series, labels: list[str], per: float = 1) -> None:
        value = self._agent.samples.last(series, self._now(), FRESH_S)
        if value is not None:
            family.add_metric(labels, value / per)
