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
    name: str = ""


class Namespaces(Struct):
    """Either those that are included, or all but those excluded."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    def faults(self) -> Iterator[Fault]:
        if self.include and self.exclude:
            yield Fault("", "must have only one of include and exclude")


class PodSelector(Struct):
    name: str = ""
    selector: LabelSelector | None = None


class ObjectLimiter(Struct):
    """Limits the migrations of one workload in a time."""

    duration: Duration = "0s"
    max_migrating: CountOrPercent | None = None
    burst: int = 0


class Arbitration(Struct):
    enabled: bool = False
    interval: NonNegativeDuration | None = None


DEFAULT_ARBITRATION: Final = Arbitration(enabled=True, interval="500ms")


class MigrationControllerArgs(PluginArgs):
    """Which pods may be moved, how many at once, and how."""

    dry_run: bool = False
    max_concurrent_reconciles: Positive = 1
    evict_failed_bare_pods: bool = False
    evict_all_bare_pods: bool = False
    evict_local_storage_pods: bool = False
    evict_system_critical_pods: bool = False
    ignore_pvc_pods: bool = field(name="ignorePvcPods", default=False)
    priority_threshold: PriorityThreshold | None = None
    label_selector: LabelSelector | None = None
    namespaces: Namespaces | None = None
    node_fit: bool = False
    node_selector: str = ""
    skip_eviction_gates: tuple[EvictionGate, ...] = ()
    max_migrating_globally: Count | None = None
    max_migrating_per_node: Count = 2
    max_migrating_per_namespace: Count | None = None
    max_migrating_per_workload: CountOrPercent | None = None
    max_unavailable_per_workload: CountOrPercent | None = None
    skip_check_expected_replicas: bool = False
    object_limiters: Mapping[str, ObjectLimiter] = EMPTY
    default_job_mode: Literal["ReservationFirst", "EvictDirectly"] = "ReservationFirst"
    default_job_ttl: NonNegativeDuration = "5m0s"
    scheduler_names: tuple[str, ...] = ()
    evict_qps: Rate = 10
    evict_burst: Positive = 1
    eviction_policy: Literal["Eviction", "Delete", "SoftEviction"] = "Eviction"
    default_delete_options: Mapping[str, Any] = EMPTY
    arbitration_args: Arbitration | None = None

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
    consecutive_abnormalities: Count = 0
    consecutive_normalities: Count = 0


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
    usage_aggregated_duration: NonNegativeDuration = "0s"


class NodePool(Struct):
    """Thresholds for some nodes. What it lacks is taken from the plugin's own."""

    name: str = ""
    node_selector: LabelSelector | None = None
    use_deviation_thresholds: bool = False
    high_thresholds: Percents = EMPTY
    low_thresholds: Percents = EMPTY
    prod_high_thresholds: Percents = EMPTY
    prod_low_thresholds: Percents = EMPTY
    resource_weights: Mapping[str, int] = EMPTY
    anomaly_condition: AnomalyCondition | None = None

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
    dry_run: bool = False
    number_of_nodes: Count = 0
    node_metric_expiration_seconds: Positive = 180
    aggregated: UsageAggregation | None = None
    evictable_namespaces: Namespaces | None = None
    node_selector: LabelSelector | None = None
    pod_selectors: tuple[PodSelector, ...] = ()
    node_fit: bool = True
    use_deviation_thresholds: bool = False
    high_thresholds: Percents = EMPTY
    low_thresholds: Percents = EMPTY
    prod_high_thresholds: Percents = EMPTY
    prod_low_thresholds: Percents = EMPTY
    resource_weights: Mapping[str, int] = EMPTY
    anomaly_condition: AnomalyCondition | None = None
    detector_cache_timeout: NonNegativeDuration = "5m0s"
    node_pools: tuple[NodePool, ...] = ()

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
    node_selector: LabelSelector
    keep_threshold: Mapping[str, Annotated[float, Meta(ge=0, le=100)]] = EMPTY
    reject_threshold: Mapping[str, Annotated[float, Meta(ge=0, le=100)]] = EMPTY


class CustomPriorityArgs(PluginArgs):
    """Moves pods from expensive nodes to cheaper ones."""

    paused: bool = False
    dry_run: bool = False
    evictable_namespaces: Namespaces | None = None
    node_selector: LabelSelector | None = None
    pod_selectors: tuple[PodSelector, ...] = ()
    node_fit: bool = True
    eviction_order: tuple[PriorityLevel, ...] = ()
    mode: Literal["BestEffort", "DrainNode"] = "BestEffort"
    auto_cordon: bool = False

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
    dry_run: bool = False
    node_selector: LabelSelector | None = None
    evictable_namespaces: Namespaces | None = None
    pod_selectors: tuple[PodSelector, ...] = ()
    node_fit: bool = True
    resources: tuple[str, ...] = ()
    imbalance_threshold: Annotated[float, Meta(ge=0)] = 0.15
    min_improvement_threshold: Annotated[float, Meta(ge=0)] = 0.02

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
    strategy: Literal["CalculateOnly", "EvictDirectly"] = "CalculateOnly"
    max_pods_to_evict: int | None = None
    node_selector: LabelSelector | None = None
    pod_selectors: tuple[PodSelector, ...] = ()
    evictable_namespaces: Namespaces | None = None
    resources: tuple[str, ...] = ()
    resource_weights: Mapping[str, Annotated[float, Meta(gt=0)]] = EMPTY

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
