"""Arguments of the descheduler's own plugins: migration, load, priority, fragmentation, bin packing.

As for the scheduler, a field holds what was written, and `completed()` fills in what other fields decide about.
`ARGS` finds a plugin's type.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Final, Literal, Self, TypeAlias

from msgspec import Meta
from msgspec.structs import replace

from koord.api.configuration.component_config import NonNegativeDuration, PluginArgs, item_faults
from koord.api.configuration.scheduler_args import Aggregation
from koord.api.machinery.faults import Fault, join
from koord.api.machinery.struct import EMPTY, Struct, field
from koord.api.protocol import names
from koord.api.text.duration import Duration, parse_duration
from koord.api.text.naming import dns_subdomain_fault
from koord.api.text.selector import LabelSelector, SelectorError, parse_labels, selector_faults

Count: TypeAlias = Annotated[int, Meta(ge=0)]
Positive: TypeAlias = Annotated[int, Meta(ge=1)]
Percents: TypeAlias = Mapping[str, Annotated[float, Meta(ge=0)]]

_PERCENTAGE: Final = re.compile(r"[0-9]+%")

EvictionGate: TypeAlias = Literal[
    "MaxUnavailablePerWorkload",
    "MaxMigratingPerWorkload",
    "MaxMigratingPerNode",
    "MaxMigratingPerNamespace",
    "MaxMigratingGlobally",
    "ExpectedReplicas",
    "PVC",
    "BarePods",
    "LocalStorage",
    "SystemCritical",
    "PriorityThreshold",
    "LabelSelector",
    "Namespaces",
    "NodeFit",
    "Autoscalers",
]


def _check_scaled(value: object) -> None:
    wrong = not _PERCENTAGE.fullmatch(value) if isinstance(value, str) else isinstance(value, int) and value < 0
    if wrong:
        raise ValueError(f'must be a number of pods or a percentage such as "10%", not {value!r}')


CountOrPercent: TypeAlias = Annotated[int | str, Meta(extra={"check": _check_scaled})]


def _check_rate(value: object) -> None:
    try:
        rate = float(value) if isinstance(value, str | int | float) else math.nan
    except ValueError:
        rate = math.nan
    if not 0 < rate < math.inf:
        raise ValueError(f"must be a number above 0, or such a number in quotes, not {value!r}")


Rate: TypeAlias = Annotated[float | str, Meta(extra={"check": _check_rate})]


class PriorityThreshold(Struct):
    """Pods of at least this priority stay: by number, or by the name of a PriorityClass."""

    value: int | None = None
    "The priority as a number."
    name: str = ""
    "Name of a PriorityClass."


class Namespaces(Struct):
    """Either those that are included, or all but those excluded."""

    include: tuple[str, ...] = ()
    "Only these."
    exclude: tuple[str, ...] = ()
    "All but these."

    def faults(self) -> Iterator[Fault]:
        if self.include and self.exclude:
            yield Fault("", "must have only one of include and exclude")


class PodSelector(Struct):
    name: str = ""
    "Name of the selector, for messages."
    selector: LabelSelector | None = None
    "Labels of the pods."


class ObjectLimiter(Struct):
    """Limits the migrations of one workload in a time."""

    duration: Duration = "0s"
    "The time. 0s: no limit."
    max_migrating: CountOrPercent | None = None
    "How many pods of a workload may move in this time. Default: maxMigratingPerWorkload."
    burst: int = 0
    "How many may move at once."


class Arbitration(Struct):
    enabled: bool = False
    "Whether waiting moves are ordered and limited."
    interval: NonNegativeDuration | None = None
    "Time between two rounds."


DEFAULT_ARBITRATION: Final = Arbitration(enabled=True, interval="500ms")


class MigrationControllerArgs(PluginArgs):
    """Which pods may be moved, how many at once, and how."""

    dry_run: bool = False
    "Whether nothing is moved."
    max_concurrent_reconciles: Positive = 1
    "How many moves are carried forward at once."
    evict_failed_bare_pods: bool = False
    "Whether failed pods without an owner may be evicted."
    evict_all_bare_pods: bool = False
    "Whether all pods without an owner may be evicted."
    evict_local_storage_pods: bool = False
    "Whether pods with local storage may be evicted."
    evict_system_critical_pods: bool = False
    "Whether system pods may be evicted."
    ignore_pvc_pods: bool = field(name="ignorePvcPods", default=False)
    "Whether pods with volume claims stay."
    priority_threshold: PriorityThreshold | None = None
    "Pods of at least this priority stay."
    label_selector: LabelSelector | None = None
    "Only pods with these labels move."
    namespaces: Namespaces | None = None
    "Namespaces whose pods may move."
    node_fit: bool = False
    "Whether a pod moves only if it fits on another node."
    node_selector: str = ""
    "Nodes that a pod may move to, for nodeFit: as in pool=batch."
    skip_eviction_gates: tuple[EvictionGate, ...] = ()
    "Checks before an eviction that are left out."
    max_migrating_globally: Count | None = None
    "How many pods may move at once."
    max_migrating_per_node: Count = 2
    "How many pods of a node may move at once."
    max_migrating_per_namespace: Count | None = None
    "How many pods of a namespace may move at once."
    max_migrating_per_workload: CountOrPercent | None = None
    "How many pods of a workload may move at once: a number or a percentage."
    max_unavailable_per_workload: CountOrPercent | None = None
    "How many pods of a workload may be unavailable while one moves."
    skip_check_expected_replicas: bool = False
    "Whether workloads may have fewer replicas than the limits assume."
    object_limiters: Mapping[str, ObjectLimiter] = EMPTY
    "Limits over time, by workload or namespace."
    default_job_mode: Literal["ReservationFirst", "EvictDirectly"] = "ReservationFirst"
    "ReservationFirst keeps room on another node before the eviction, EvictDirectly does not."
    default_job_ttl: NonNegativeDuration = "5m0s"
    "How long a move may take."
    scheduler_names: tuple[str, ...] = ()
    "Schedulers whose pods get a reservation. Default: koord-scheduler."
    evict_qps: Rate = 10
    "Evictions a second."
    evict_burst: Positive = 1
    "Evictions at once."
    eviction_policy: Literal["Eviction", "Delete", "SoftEviction"] = "Eviction"
    "How a pod is evicted: by the Eviction API, by deletion, or by an annotation that asks it to go."
    default_delete_options: Mapping[str, Any] = EMPTY
    "Options of deletions."
    arbitration_args: Arbitration | None = None
    "Order and limits of waiting moves."

    @property
    def evictions_per_s(self) -> float:
        return float(self.evict_qps)

    def completed(self) -> Self:
        arbitration = self.arbitration_args or DEFAULT_ARBITRATION
        if arbitration.interval is None:
            arbitration = replace(arbitration, interval=DEFAULT_ARBITRATION.interval)
        return replace(
            self,
            object_limiters=self.object_limiters or {"workload": ObjectLimiter(duration="5m0s")},
            scheduler_names=self.scheduler_names or (names.SCHEDULER_KOORD,),
            arbitration_args=arbitration,
        )

    @property
    def longest_window_s(self) -> float:
        """For so long after a move its limiters may hold others back."""
        return max((parse_duration(limiter.duration) for limiter in self.object_limiters.values()), default=0.0)

    def faults(self) -> Iterable[Fault]:
        if self.namespaces is not None:
            yield from _under("namespaces", self.namespaces.faults())
        if self.label_selector is not None:
            yield from _under("labelSelector", selector_faults(self.label_selector))
        for kind in self.object_limiters:
            if kind not in ("workload", "namespace"):
                yield Fault(join("objectLimiters", kind), "must be workload or namespace")
        try:
            parse_labels(self.node_selector)
        except SelectorError as error:
            yield Fault("nodeSelector", str(error))


class AnomalyCondition(Struct):
    """How long a node must be overloaded before it counts."""

    timeout: Duration | None = None
    "For how long a node stays overloaded without a new measurement."
    consecutive_abnormalities: Count = 0
    "After how many rounds above a threshold a node counts as overloaded."
    consecutive_normalities: Count = 0
    "After how many rounds below it a node no longer does."


DEFAULT_ANOMALY: Final = AnomalyCondition(timeout="1m0s", consecutive_abnormalities=5, consecutive_normalities=3)


def _anomaly(given: AnomalyCondition | None, base: AnomalyCondition) -> AnomalyCondition:
    """`given` with what it lacks taken from `base`."""
    if given is None:
        return base
    return AnomalyCondition(
        timeout=given.timeout or base.timeout,
        consecutive_abnormalities=given.consecutive_abnormalities or base.consecutive_abnormalities,
        consecutive_normalities=given.consecutive_normalities or base.consecutive_normalities,
    )


DEFAULT_POOL: Final = "__default_node_pool__"


class UsageAggregation(Struct):
    """Which percentile of a node's usage counts, over which of the times that agents report; without a duration the
    longest. Koordinator's descheduler knows the last measurement alone; names are those of its LoadAwareScheduling."""

    usage_aggregation_type: Aggregation = ""
    "Statistic of usage that is compared with the thresholds."
    usage_aggregated_duration: NonNegativeDuration = "0s"
    "Period of that statistic."


class NodePool(Struct):
    """Thresholds for some nodes. What it lacks is taken from the plugin's own."""

    name: str = ""
    "Name of the pool."
    node_selector: LabelSelector | None = None
    "Labels of its nodes."
    use_deviation_thresholds: bool = False
    "Whether thresholds are distances from the mean of the nodes, in percentage points."
    high_thresholds: Percents = EMPTY
    "Usage in percent above which a node is overloaded, by resource."
    low_thresholds: Percents = EMPTY
    "Usage in percent below which a node can take pods, by resource."
    prod_high_thresholds: Percents = EMPTY
    "The same as highThresholds for the usage of prod pods."
    prod_low_thresholds: Percents = EMPTY
    "The same as lowThresholds for the usage of prod pods."
    resource_weights: Mapping[str, int] = EMPTY
    "Weight of each resource in the order in which nodes and pods are looked at."
    anomaly_condition: AnomalyCondition | None = None
    "How long a node must be overloaded before pods move."

    def faults(self) -> Iterator[Fault]:
        if self.node_selector is not None:
            yield from _under("nodeSelector", selector_faults(self.node_selector))
        yield from _threshold_faults(
            self.high_thresholds, self.low_thresholds, self.prod_high_thresholds, self.prod_low_thresholds
        )


def _threshold_faults(high: Percents, low: Percents, prod_high: Percents, prod_low: Percents) -> Iterator[Fault]:
    """low <= high, prodLow <= prodHigh <= high, for every resource that both of a pair name."""
    for lower_name, lower, upper_name, upper in (
        ("lowThresholds", low, "highThresholds", high),
        ("prodHighThresholds", prod_high, "highThresholds", high),
        ("prodLowThresholds", prod_low, "prodHighThresholds", prod_high),
    ):
        for resource, percent in lower.items():
            if resource in upper and percent > upper[resource]:
                wanted = f"must be at most that of {upper_name} ({upper[resource]:g})"
                yield Fault(join(lower_name, _key(resource)), f"{wanted}, not {percent:g}")


def _key(resource: str) -> str:
    return resource if resource.isidentifier() else f"[{resource}]"


class LowNodeLoadArgs(PluginArgs):
    """Moves pods from nodes above their high thresholds to nodes below their low ones."""

    paused: bool = False
    "Whether the plugin does nothing."
    dry_run: bool = False
    "Whether the plugin only says which pods it would move."
    number_of_nodes: Count = 0
    "Nothing moves unless more nodes than this are below their low thresholds."
    node_metric_expiration_seconds: Positive = 180
    "Maximum age of a report, in seconds."
    aggregated: UsageAggregation | None = None
    "Compare percentiles with the thresholds."
    evictable_namespaces: Namespaces | None = None
    "Namespaces whose pods may move."
    node_selector: LabelSelector | None = None
    "Only nodes with these labels."
    pod_selectors: tuple[PodSelector, ...] = ()
    "Pods that may move. Default: all."
    node_fit: bool = True
    "Whether a pod moves only if it fits on another node."
    use_deviation_thresholds: bool = False
    "Whether thresholds are distances from the mean of the nodes, in percentage points."
    high_thresholds: Percents = EMPTY
    "Usage in percent above which a node is overloaded, by resource."
    low_thresholds: Percents = EMPTY
    "Usage in percent below which a node can take pods, by resource."
    prod_high_thresholds: Percents = EMPTY
    "The same as highThresholds for the usage of prod pods."
    prod_low_thresholds: Percents = EMPTY
    "The same as lowThresholds for the usage of prod pods."
    resource_weights: Mapping[str, int] = EMPTY
    "Weight of each resource in the order in which nodes and pods are looked at."
    anomaly_condition: AnomalyCondition | None = None
    "How long a node must be overloaded before pods move."
    detector_cache_timeout: NonNegativeDuration = "5m0s"
    "How long the number of rounds above a threshold is remembered."
    node_pools: tuple[NodePool, ...] = ()
    "Thresholds for pools of nodes."

    def completed(self) -> Self:
        """A partial anomalyCondition is filled up whole: a count or timeout of 0 would never, or always, hold."""
        named = dict.fromkeys(("cpu", "memory", *self.low_thresholds, *self.high_thresholds), 1)
        weights = {**named, **{name: weight for name, weight in self.resource_weights.items() if weight > 0}}
        anomaly = _anomaly(self.anomaly_condition, DEFAULT_ANOMALY)
        pools = tuple(
            replace(
                pool,
                high_thresholds=pool.high_thresholds or self.high_thresholds,
                low_thresholds=pool.low_thresholds or self.low_thresholds,
                prod_high_thresholds=pool.prod_high_thresholds or self.prod_high_thresholds,
                prod_low_thresholds=pool.prod_low_thresholds or self.prod_low_thresholds,
                resource_weights=pool.resource_weights or weights,
                anomaly_condition=_anomaly(pool.anomaly_condition, anomaly),
            )
            for pool in self.node_pools
        )
        return replace(self, resource_weights=weights, anomaly_condition=anomaly, node_pools=pools)

    def as_pool(self) -> NodePool:
        """What the plugin's own values say, as a pool: the first one."""
        return NodePool(
            name=DEFAULT_POOL,
            node_selector=self.node_selector,
            use_deviation_thresholds=self.use_deviation_thresholds,
            high_thresholds=self.high_thresholds,
            low_thresholds=self.low_thresholds,
            prod_high_thresholds=self.prod_high_thresholds,
            prod_low_thresholds=self.prod_low_thresholds,
            resource_weights=self.resource_weights,
            anomaly_condition=self.anomaly_condition,
        )

    def faults(self) -> Iterable[Fault]:
        yield from _selection_faults(self.evictable_namespaces, self.node_selector, self.pod_selectors)
        yield from _threshold_faults(
            self.high_thresholds, self.low_thresholds, self.prod_high_thresholds, self.prod_low_thresholds
        )
        yield from item_faults("nodePools", self.node_pools, NodePool.faults)


def _under(path: str, faults: Iterable[Fault]) -> Iterator[Fault]:
    return (fault.under(path) for fault in faults)


def _selection_faults(
    namespaces: Namespaces | None, node_selector: LabelSelector | None, pod_selectors: Iterable[PodSelector]
) -> Iterator[Fault]:
    if namespaces is not None:
        yield from _under("evictableNamespaces", namespaces.faults())
    if node_selector is not None:
        yield from _under("nodeSelector", selector_faults(node_selector))
    for i, pods in enumerate(pod_selectors):
        if pods.selector is not None:
            yield from _under(f"podSelectors[{i}].selector", selector_faults(pods.selector))


class PriorityLevel(Struct):
    """A kind of nodes, from expensive to cheap. The thresholds are read and checked, and decide nothing yet."""

    name: str
    "Name of the level."
    node_selector: LabelSelector
    "Labels of its nodes."
    keep_threshold: Mapping[str, Annotated[float, Meta(ge=0, le=100)]] = EMPTY
    "Accepted without effect."
    reject_threshold: Mapping[str, Annotated[float, Meta(ge=0, le=100)]] = EMPTY
    "Accepted without effect."


class CustomPriorityArgs(PluginArgs):
    """Moves pods from expensive nodes to cheaper ones."""

    paused: bool = False
    "Whether the plugin does nothing."
    dry_run: bool = False
    "Whether the plugin only says which pods it would move."
    evictable_namespaces: Namespaces | None = None
    "Namespaces whose pods may move."
    node_selector: LabelSelector | None = None
    "Only nodes with these labels."
    pod_selectors: tuple[PodSelector, ...] = ()
    "Pods that may move. Default: all."
    node_fit: bool = True
    "Whether a pod moves only if it fits on another node."
    eviction_order: tuple[PriorityLevel, ...] = ()
    "Levels of nodes, the most expensive first."
    mode: Literal["BestEffort", "DrainNode"] = "BestEffort"
    "DrainNode empties a node completely or leaves it alone; BestEffort moves what fits."
    auto_cordon: bool = False
    "Whether a node that is being drained takes no new pods."

    def faults(self) -> Iterable[Fault]:
        if len(self.eviction_order) < 2:
            yield Fault("evictionOrder", f"needs at least 2 levels, not {len(self.eviction_order)}")
        seen: set[str] = set()
        for i, level in enumerate(self.eviction_order):
            wrong = dns_subdomain_fault(level.name)
            if wrong:
                yield Fault(f"evictionOrder[{i}].name", wrong)
            elif level.name in seen:
                yield Fault(f"evictionOrder[{i}].name", f"{level.name} is the name of another level")
            seen.add(level.name)
            yield from _under(f"evictionOrder[{i}].nodeSelector", selector_faults(level.node_selector))
        for i, pods in enumerate(self.pod_selectors):
            wrong = dns_subdomain_fault(pods.name)
            if wrong:
                yield Fault(f"podSelectors[{i}].name", wrong)
        yield from _selection_faults(self.evictable_namespaces, self.node_selector, self.pod_selectors)


class FragmentationAwareArgs(PluginArgs):
    """Moves pods off nodes whose resources are used unevenly."""

    paused: bool = False
    "Whether the plugin does nothing."
    dry_run: bool = False
    "Whether the plugin only says which pods it would move."
    node_selector: LabelSelector | None = None
    "Only nodes with these labels."
    evictable_namespaces: Namespaces | None = None
    "Namespaces whose pods may move."
    pod_selectors: tuple[PodSelector, ...] = ()
    "Pods that may move. Default: all."
    node_fit: bool = True
    "Whether a pod moves only if it fits on another node."
    resources: tuple[str, ...] = ()
    "Resources that count. Default: cpu and memory."
    imbalance_threshold: Annotated[float, Meta(ge=0)] = 0.15
    "How uneven the use of a node's resources must be."
    min_improvement_threshold: Annotated[float, Meta(ge=0)] = 0.02
    "How much better it must be after the move."

    def completed(self) -> Self:
        return replace(self, resources=self.resources or ("cpu", "memory"))

    def faults(self) -> Iterable[Fault]:
        for i, resource in enumerate(self.resources):
            if resource in self.resources[:i]:
                yield Fault(f"resources[{i}]", f"{resource} is listed twice")
        yield from _selection_faults(self.evictable_namespaces, self.node_selector, self.pod_selectors)


class ScaleDownBinPackArgs(PluginArgs):
    """Ranks pods so that scaling down empties whole nodes."""

    paused: bool = False
    "Whether the plugin does nothing."
    strategy: Literal["CalculateOnly", "EvictDirectly"] = "CalculateOnly"
    "CalculateOnly writes the rank on pods, EvictDirectly evicts them, too."
    max_pods_to_evict: int | None = None
    "How many pods are evicted at most."
    node_selector: LabelSelector | None = None
    "Only nodes with these labels."
    pod_selectors: tuple[PodSelector, ...] = ()
    "Pods that may move. Default: all."
    evictable_namespaces: Namespaces | None = None
    "Namespaces whose pods may move."
    resources: tuple[str, ...] = ()
    "Resources that count. Default: cpu and memory."
    resource_weights: Mapping[str, Annotated[float, Meta(gt=0)]] = EMPTY
    "Weight of each resource. Default: 1."

    def completed(self) -> Self:
        resources = self.resources or ("cpu", "memory")
        return replace(
            self, resources=resources, resource_weights={**dict.fromkeys(resources, 1.0), **self.resource_weights}
        )

    def faults(self) -> Iterable[Fault]:
        if self.strategy == "EvictDirectly" and (self.max_pods_to_evict or 0) <= 0:
            yield Fault("maxPodsToEvict", "must be at least 1 with strategy EvictDirectly")
        yield from _selection_faults(self.evictable_namespaces, self.node_selector, self.pod_selectors)


ARGS: Final[Mapping[str, type[PluginArgs]]] = {
    "MigrationController": MigrationControllerArgs,
    "LowNodeLoad": LowNodeLoadArgs,
    "CustomPriority": CustomPriorityArgs,
    "FragmentationAware": FragmentationAwareArgs,
    "ScaleDownBinPack": ScaleDownBinPackArgs,
}
