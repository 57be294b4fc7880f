"""What a scenario says: the cluster, what runs in it, how it is lent, and what goes wrong.

`parse` reads YAML text and reports every fault with file, line and field. Paths of traces and manifests are relative
to what the caller names; nothing is opened here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final, Literal, TypeAlias

import yaml as parser
from msgspec import Meta
from msgspec.structs import replace

from koord.api.configuration.slo_config_types import ColocationStrategy
from koord.api.machinery.faults import Fault, Invalid, check
from koord.api.machinery.struct import EMPTY, Struct
from koord.api.protocol.crd.node_slo import ResourceThresholdStrategy
from koord.api.text import yaml
from koord.api.text.duration import Duration, parse_duration
from koord.api.text.quantity import value
from koord.sim.policies.registry import POLICIES
from koord.sim.traces.registry import NAMES

JOINED_BY: Final = "+"
"""Between the names of several traces of services."""
KIND: Final = "Scenario"
API_VERSION: Final = "sim.koordinator.sh/v1alpha1"
TICK_S: Final = 60.0
"""Policies decide once a minute, so the world advances by minutes."""
SAMPLE_S: Final = 10.0
"""Use varies within a minute: the ceiling and the agent's samples see these steps."""
DAY_S: Final = 86400.0
MOST_NODES: Final = 100_000
LEAST_SERVICE_CORES: Final = 0.01
LONGEST_S: Final = 366 * DAY_S

Percent: TypeAlias = Annotated[float, Meta(gt=0, le=100)]
Share: TypeAlias = Annotated[float, Meta(ge=0, le=1)]


def _is_some_time(text: object) -> None:
    if parse_duration(str(text)) <= 0:
        raise ValueError(f"must be longer than 0s, not {text}")


def _is_not_negative(text: object) -> None:
    if parse_duration(str(text)) < 0:
        raise ValueError(f"must be 0s or longer, not {text}")


def _is_memory(text: object) -> None:
    if value(str(text)) <= 0:
        raise ValueError(f"must be above 0, as in 4Gi, not {text}")


SomeTime: TypeAlias = Annotated[Duration, Meta(extra={"check": _is_some_time})]
AnyTime: TypeAlias = Annotated[Duration, Meta(extra={"check": _is_not_negative})]
Memory: TypeAlias = Annotated[str, Meta(extra={"check": _is_memory})]


class Range(Struct):
    """Values between two bounds, each as likely as any other."""

    least: Annotated[float, Meta(ge=0)]
    most: Annotated[float, Meta(ge=0)]


class ClusterSource(Struct):
    """How nodes are made of the curves of services, or how many there are."""

    nodes: Annotated[int, Meta(ge=1, le=MOST_NODES)] | None = None
    "Absent: as many as the trace has, or as its services fill."
    cores: tuple[Annotated[int, Meta(ge=1, le=1024)], ...] = (32, 48, 64, 96)
    "Sizes of nodes, each as likely as any other."
    memory_per_core: Memory = "4Gi"
    requested_percent: Range = Range(70, 90)
    "How much of a node's CPU its services request."
    request_over_peak: Range = Range(1.2, 2.0)
    "What a service requests, in multiples of the most that it uses."
    service_cores: Range = Range(0.5, 8.0)
    "The most that a service uses. Few are large: as many between 1 and 2 cores as between 2 and 4."
    pools: Mapping[str, Share] = EMPTY
    "Names of node pools, and their shares of the nodes. Empty: one pool without a name."


class ServiceSource(Struct):
    trace: str = "synthetic"
    """Name of the reader; an error message lists them. Several are joined by +, as in
    bitbrains+planetlab: each gives as many services as the others."""
    path: str = ""
    "File or folder of the trace, below the folder of traces."
    machines: Literal["all", "first", "second"] = "all"
    "Which half of the trace's machines is used: policies are tuned on one and reported on the other."
    use_percent: Annotated[float, Meta(gt=0, le=1000)] = 100
    "Scales what services use, and not what they request."
    placed_by_scheduler: bool = False
    "Whether the scheduler finds their nodes, and not the trace."


class BatchSource(Struct):
    trace: str = "synthetic"
    path: str = ""
    arrivals: Literal["recorded", "saturate"] = "recorded"
    "recorded: at the times of the trace. saturate: `pending` pods always wait, and the trace repeats."
    pending: Annotated[int, Meta(ge=1, le=100_000)] | None = None
    "Only with arrivals: saturate."
    pods: Annotated[int, Meta(ge=1, le=10_000_000)] | None = None
    """Services and batch pods together: the trace repeats, evenly over the duration, until there are that many. Only
    with arrivals: recorded."""
    load: Annotated[float, Meta(gt=0, le=10)] | None = None
    """Only for pods with GPUs: the share of all GPUs that pods would use in the mean if none had to wait. The trace's
    days are brought to the length of the scenario, and repeated as often as this needs. Absent: 1."""
    cores: tuple[Annotated[int, Meta(ge=1, le=1024)], ...] = ()
    "Sizes of batch pods, each as likely as any other: use is scaled with them. Empty: as in the trace."
    memory_per_core: Memory = "1Gi"
    "Only with cores."
    shortest: AnyTime = "0s"
    "Tasks that run for less are left out."
    longest: SomeTime | None = None
    "Tasks that run for more are left out."
    checkpoint: SomeTime = "30m"
    "Work since the last checkpoint is lost on eviction."
    start: AnyTime = "1m"
    "From the binding of a pod to its first work."


class SchedulerSettings(Struct):
    pods_per_second: Annotated[float, Meta(gt=0)] = 250.0
    "Decisions that one scheduler makes; the default is the goal that `koord bench scheduling` checks."


class Noise(Struct):
    """How use varies around the curve of the trace: normal by the minute, heavy-tailed by ten seconds."""

    minute: Share = 0.12
    ten_seconds: Share = 0.08


class NodeFailures(Struct):
    every: SomeTime
    "Mean time between failures of one node."
    lasting: SomeTime = "30m"


class FaultSettings(Struct):
    """What goes wrong, all by chance with the seed."""

    node_failures: NodeFailures | None = None
    report_lag: AnyTime = "0s"
    "From the end of a minute to the manager's knowing of it."
    lost_reports: Share = 0
    "Share of reports that never arrive."
    silent_nodes: Share = 0
    "Share of nodes whose agent stops for an hour each day: their reports go stale."
    api_delay: AnyTime = "0s"
    "From the manager's write to the scheduler's knowing of it."


class DeschedulerSettings(Struct):
    """By the DeschedulerConfiguration among the manifests, or the one that koord ships."""

    every: SomeTime = "10m"


class LatencySettings(Struct):
    """Response times of services, by the model of `koord.sim.latency`."""

    constants: str = ""
    "File that `koord sim calibrate` wrote. Empty: the constants that koord ships."
    neighbour: str = "mixed"
    "What batch does: a kind of neighbour of the constants, as in cpu or disk; mixed is their mean."
    protected: bool = True
    "By the agent with its default gates; false: as if batch had the weight of services."
    limit: Annotated[float, Meta(gt=1, le=1000)] = 3
    "A service sample is slow if its p99 is above this multiple of that of a service alone on an idle node."


class Pool(Struct):
    """What differs in a pool of nodes."""

    policy: str = ""
    mark_percent: Percent | None = None
    colocation: ColocationStrategy | None = None
    thresholds: ResourceThresholdStrategy | None = None


class Scenario(Struct):
    """All that a run is made from, besides traces, manifests and seed."""

    name: Annotated[str, Meta(min_length=1)]
    duration: SomeTime
    description: str = ""
    warm_up: AnyTime = "0s"
    "The beginning of the duration, which no total counts."
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)] = 0
    policy: str = "adaptive"
    mark_percent: Percent = 85
    "The safety mark: use of a node above it is a violation."
    pools: Mapping[str, Pool] = EMPTY
    cluster: ClusterSource = ClusterSource()
    services: ServiceSource = ServiceSource()
    batch: BatchSource = BatchSource()
    scheduler: SchedulerSettings = SchedulerSettings()
    colocation: ColocationStrategy = ColocationStrategy()
    "As in slo-controller-config."
    thresholds: ResourceThresholdStrategy = ResourceThresholdStrategy()
    "As in slo-controller-config: suppression and eviction by Koordinator's policies."
    noise: Noise = Noise()
    latency: LatencySettings = LatencySettings()
    faults: FaultSettings = FaultSettings()
    descheduler: DeschedulerSettings | None = None
    packing: Literal["", "ShadowPrices", "FGD", "MostAllocated", "LeastAllocated"] = ""
    "The policy that packs GPUs; empty: as the scheduler's configuration says."
    manifests: tuple[str, ...] = ()
    "Files with ElasticQuotas, PodGroups, a KubeSchedulerConfiguration and a DeschedulerConfiguration."
    restart: SomeTime = "6h"
    "The scheduler and the descheduler restart this often, as in upgrades. Checkpoints are written then."

    @property
    def ticks(self) -> int:
        return max(1, round(parse_duration(self.duration) / TICK_S))

    @property
    def warm_up_ticks(self) -> int:
        return round(parse_duration(self.warm_up) / TICK_S)

    @property
    def restart_ticks(self) -> int:
        return max(1, round(parse_duration(self.restart) / TICK_S))

    def pool(self, name: str) -> Pool:
        """The settings of a pool, with those of the scenario where it has none."""
        own = self.pools.get(name, Pool())
        return Pool(
            policy=own.policy or self.policy,
            mark_percent=self.mark_percent if own.mark_percent is None else own.mark_percent,
            colocation=_over(own.colocation, self.colocation),
            thresholds=_over(own.thresholds, self.thresholds),
        )


def parse(text: str, source: str) -> Scenario:
    """The scenario in a file's text. Raises `Invalid` with all faults, each with its line; `source` names the file."""
    data = yaml.load(text, source)
    if not isinstance(data, Mapping):
        example = f"apiVersion: {API_VERSION}, kind: {KIND}, name, duration"
        raise Invalid(source, [Fault("", f"must be a scenario: an object with {example}")])
    try:
        scenario = from_data(data, source)
    except Invalid as invalid:
        lines = _lines(text)
        raise Invalid(source, [_with_line(fault, lines) for fault in invalid.faults]) from None
    return scenario


def from_data(data: Mapping[str, Any], what: str) -> Scenario:
    """A scenario from plain data. `apiVersion` and `kind` may be absent."""
    faults = [
        Fault(name, f"must be {wanted}, not {data[name]!r}")
        for name, wanted in (("apiVersion", API_VERSION), ("kind", KIND))
        if name in data and data[name] != wanted
    ]
    if faults:
        raise Invalid(what, faults)
    scenario = check(Scenario, {key: item for key, item in data.items() if key not in ("apiVersion", "kind")}, what)
    contradictions = list(_contradictions(scenario))
    if contradictions:
        raise Invalid(what, contradictions)
    return scenario


def _contradictions(scenario: Scenario) -> Iterable[Fault]:
    duration_s = parse_duration(scenario.duration)
    for field, text in (("duration", scenario.duration), ("warmUp", scenario.warm_up), ("restart", scenario.restart)):
        if parse_duration(text) % TICK_S:
            yield Fault(field, f"must be whole minutes, not {text}")
    if duration_s > LONGEST_S:
        yield Fault("duration", f"must be at most {LONGEST_S / 3600:g}h, not {scenario.duration}")
    if parse_duration(scenario.warm_up) >= duration_s:
        yield Fault("warmUp", f"must be shorter than duration ({scenario.duration}), not {scenario.warm_up}")
    yield from _unknown_names(scenario)
    yield from _batch_faults(scenario.batch)
    cluster = scenario.cluster
    for field, given in (
        ("requestedPercent", cluster.requested_percent),
        ("requestOverPeak", cluster.request_over_peak),
        ("serviceCores", cluster.service_cores),
    ):
        if given.least > given.most or given.most <= 0:
            yield Fault(
                f"cluster.{field}",
                f"least ({given.least:g}) must not be above most ({given.most:g}), most must be above 0",
            )
    if cluster.service_cores.least < LEAST_SERVICE_CORES:
        least = f"must be at least {LEAST_SERVICE_CORES:g}, not {cluster.service_cores.least:g}"
        yield Fault("cluster.serviceCores.least", least)
    if not cluster.cores:
        yield Fault("cluster.cores", "must have at least one size")
    total = sum(cluster.pools.values())
    if cluster.pools and abs(total - 1) > 1e-6:
        yield Fault("cluster.pools", f"the shares must add up to 1, not {total:g}")
    for name in scenario.pools:
        if name not in cluster.pools:
            valid = ", ".join(sorted(cluster.pools)) or "none: cluster.pools is empty"
            yield Fault(f"pools.{name}", f"is not among cluster.pools ({valid})")
    descheduler, failures = scenario.descheduler, scenario.faults.node_failures
    if descheduler is not None and parse_duration(descheduler.every) % TICK_S:
        yield Fault("descheduler.every", f"must be whole minutes, not {descheduler.every}")
    if failures is not None and parse_duration(failures.lasting) >= parse_duration(failures.every):
        yield Fault(
            "faults.nodeFailures.lasting", f"must be shorter than every ({failures.every}), not {failures.lasting}"
        )


def _unknown_names(scenario: Scenario) -> Iterable[Fault]:
    """Policies and traces that do not exist."""
    chosen = {
        "policy": scenario.policy,
        **{f"pools.{name}.policy": pool.policy for name, pool in scenario.pools.items()},
    }
    for field, policy in chosen.items():
        if policy not in POLICIES and (policy or field == "policy"):
            yield Fault(field, f"must be one of {', '.join(POLICIES)}, not {policy!r}")
    for field, traces in (("services", scenario.services.trace), ("batch", scenario.batch.trace)):
        for trace in traces.split(JOINED_BY) if field == "services" else (traces,):
            if trace.strip() not in NAMES:
                yield Fault(f"{field}.trace", f"must be one of {', '.join(NAMES)}, not {trace.strip()!r}")


def _batch_faults(batch: BatchSource) -> Iterable[Fault]:
    if batch.arrivals == "recorded" and batch.pending is not None:
        yield Fault("batch.pending", "needs arrivals: saturate; with arrivals: recorded the trace says when pods come")
    if batch.arrivals == "saturate" and batch.pending is None:
        yield Fault("batch.pending", "is required with arrivals: saturate")
    if batch.arrivals == "saturate" and batch.pods is not None:
        yield Fault("batch.pods", "needs arrivals: recorded; with arrivals: saturate pods come as long as they fit")
    if batch.longest is not None and parse_duration(batch.shortest) > parse_duration(batch.longest):
        yield Fault("batch.shortest", f"must not be above longest ({batch.longest}), not {batch.shortest}")


def _over(own: Any, general: Any) -> Any:
    """Settings of a pool over those of the scenario."""
    if own is None:
        return general
    fields = {name: given for name in own.__struct_fields__ if (given := getattr(own, name)) is not None}
    return replace(general, **{name: given for name, given in fields.items() if given != EMPTY})


def _with_line(fault: Fault, lines: Mapping[str, int]) -> Fault:
    """The fault with the line of its field, or of the nearest field around it."""
    path = fault.path
    while path and path not in lines:
        cut = max(path.rfind("."), path.rfind("["))
        path = path[:cut] if cut > 0 else ""
    line = lines.get(path)
    return fault if line is None else Fault(fault.path, f"{fault.message} (line {line})")


def _lines(text: str) -> Mapping[str, int]:
    """By the path of a field, the line where it is written."""
    root = parser.compose(text, Loader=parser.SafeLoader)
    lines: dict[str, int] = {}

    def walk(node: parser.Node | None, path: str) -> None:
        if isinstance(node, parser.MappingNode):
            for key, item in node.value:
                name = str(key.value)
                at = f"{path}.{name}" if path else name
                lines[at] = key.start_mark.line + 1
                walk(item, at)
        elif isinstance(node, parser.SequenceNode):
            for index, item in enumerate(node.value):
                lines[f"{path}[{index}]"] = item.start_mark.line + 1
                walk(item, f"{path}[{index}]")

    walk(root, "")
    return lines
