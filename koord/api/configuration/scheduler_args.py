"""Arguments of every scheduler plugin: Koordinator's own, and Kubernetes' stock ones.

A field's default is the plugin's default. Where a default depends on other fields (thresholds only if none is given,
factors filled up), the field holds what was written and `completed()` fills it in. `ARGS` finds a plugin's type.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Final, Literal, Self, TypeAlias

from msgspec import Meta
from msgspec.structs import replace

from koord.api.configuration.component_config import NonNegativeDuration, PluginArgs, item_faults
from koord.api.kubernetes.pod import NodeAffinity, TopologySpreadConstraint
from koord.api.machinery.faults import Fault, join
from koord.api.machinery.struct import EMPTY, Struct, field
from koord.api.protocol import names
from koord.api.text.naming import label_key_fault
from koord.api.text.quantity import ResourceList
from koord.api.text.quantity import parse as parse_quantity
from koord.api.text.selector import node_selector_faults

Percent: TypeAlias = Annotated[int, Meta(ge=0, le=100)]
Weight: TypeAlias = Annotated[int, Meta(ge=1, le=100)]
Count: TypeAlias = Annotated[int, Meta(ge=0)]
Positive: TypeAlias = Annotated[int, Meta(ge=1)]
Aggregation: TypeAlias = Literal["", "avg", "p50", "p90", "p95", "p99"]

DEFAULT_USAGE_THRESHOLDS: Final[Mapping[str, int]] = {"cpu": 65, "memory": 95}
DEFAULT_RESOURCE_WEIGHTS: Final[Mapping[str, int]] = {"cpu": 1, "memory": 1}
DEFAULT_SCALING_FACTORS: Final[Mapping[str, int]] = {"cpu": 85, "memory": 70}
UNLIMITED: Final = str((2**63 - 1) // 5)
"""The ceiling of the default and system quotas: far above any cluster, low enough to add up without overflow."""


class LoadAwareAggregation(Struct):
    """Filter and score by percentiles instead of the mean."""

    usage_thresholds: Mapping[str, Percent] = EMPTY
    "Usage in percent above which a node is filtered out, by resource."
    usage_aggregation_type: Aggregation = ""
    "Statistic of usage that is compared with usageThresholds."
    usage_aggregated_duration: NonNegativeDuration = "0s"
    "Period of that statistic. 0s: the longest one reported."
    score_aggregation_type: Aggregation = ""
    "Statistic of usage that nodes are scored by."
    score_aggregated_duration: NonNegativeDuration = "0s"
    "Period of that statistic. 0s: the longest one reported."


class LoadAwareSchedulingArgs(PluginArgs):
    """Keep pods off nodes that are busy, by measured usage. A threshold of 0 is not checked."""

    filter_expired_node_metrics: bool = True
    "Whether nodes whose report is too old are filtered out."
    node_metric_expiration_seconds: Positive = 180
    "Maximum age of a report, in seconds."
    enable_schedule_when_node_metrics_expired: bool = False
    "With filterExpiredNodeMetrics: whether these nodes are left unchecked instead."
    resource_weights: Mapping[str, Weight] = EMPTY
    "Weight of each resource in the score. Default: cpu and memory 1 each."
    dominant_resource_weight: Percent = 0
    "Weight of the resource that is used most, in addition."
    usage_thresholds: Mapping[str, Percent] = EMPTY
    "Usage in percent above which a node is filtered out, by resource. Default: cpu 65, memory 95."
    prod_usage_thresholds: Mapping[str, Percent] = EMPTY
    "The same for the usage of prod pods, checked for prod pods."
    prod_usage_include_sys: bool = False
    "Whether the usage of the system counts as usage of prod pods."
    score_according_prod_usage: bool = False
    "Whether prod pods are scored by the usage of prod pods alone."
    estimator: str = ""
    "Accepted without effect."
    estimated_scaling_factors: Mapping[str, Weight] = EMPTY
    "Share of its request that a new pod is expected to use, by resource. Default: cpu 85, memory 70."
    estimated_seconds_after_pod_scheduled: int | None = None
    "For how long after its placement a pod counts by the estimate."
    estimated_seconds_after_initialized: int | None = None
    "For how long after its start a pod counts by the estimate."
    allow_customize_estimation: bool = False
    "Whether a pod's annotation may change its scaling factors."
    aggregated: LoadAwareAggregation | None = None
    "Filter and score by percentiles."
    supported_resources: tuple[str, ...] = ()
    "Resources that are estimated, in addition to those weighed."

    def completed(self) -> Self:
        weights = self.resource_weights
        if not weights and self.dominant_resource_weight == 0:
            weights = DEFAULT_RESOURCE_WEIGHTS
        return replace(
            self,
            resource_weights=weights,
            usage_thresholds=self.usage_thresholds or DEFAULT_USAGE_THRESHOLDS,
            estimated_scaling_factors={**DEFAULT_SCALING_FACTORS, **self.estimated_scaling_factors},
        )

    def faults(self) -> Iterable[Fault]:
        for resource in self.resource_weights:
            if resource not in self.estimated_scaling_factors:
                yield Fault("estimatedScalingFactors", f"needs an entry for {resource}, which resourceWeights weighs")


class ResourceWeight(Struct):
    name: str
    "Name of the resource."
    weight: int = 1
    "Its weight, from 1 to 100."


CPU_AND_MEMORY: Final = (ResourceWeight("cpu"), ResourceWeight("memory"))


def _least_allocated() -> Literal["LeastAllocated"]:
    """A default that is written all the same: Kubernetes and Koordinator refuse a strategy without a type."""
    return "LeastAllocated"


class _Weighing(Struct):
    """A way to rank nodes, and the resources that it looks at."""

    type: str = field(default_factory=_least_allocated)
    "LeastAllocated prefers empty nodes, MostAllocated full ones, BalancedAllocation evenly used ones."
    resources: tuple[ResourceWeight, ...] = ()
    "Resources that count, with their weights."

    def over(self, resources: tuple[ResourceWeight, ...]) -> Self:
        """With these resources where none are named: a strategy that weighs nothing would rank nothing."""
        return self if self.resources else replace(self, resources=resources)

    def faults(self) -> Iterable[Fault]:
        return item_faults("resources", self.resources, _weight_faults)


class ScoringStrategy(_Weighing):
    """Which nodes Koordinator's plugins prefer: empty ones, full ones, or evenly used ones."""

    type: Literal["LeastAllocated", "MostAllocated", "BalancedAllocation"] = field(default_factory=_least_allocated)
    "LeastAllocated prefers empty nodes, MostAllocated full ones, BalancedAllocation evenly used ones."


class DeviceScoringStrategy(_Weighing):
    """The same for devices, which may also be packed: by fragments (FGD), or by shadow prices."""

    type: Literal["LeastAllocated", "MostAllocated", "BalancedAllocation", "FGD", "ShadowPrices"] = field(
        default_factory=_least_allocated
    )
    "As above; FGD leaves the fewest fragments of GPUs, ShadowPrices weighs what later pods will need."


def _weight_faults(resource: ResourceWeight) -> Iterable[Fault]:
    if not 1 <= resource.weight <= 100:
        yield Fault("weight", f"must be an integer from 1 to 100, not {resource.weight}")


def _under(path: str, faults: Iterable[Fault]) -> Iterable[Fault]:
    return (fault.under(path) for fault in faults)


class NodeNUMAResourceArgs(PluginArgs):
    """CPUs and NUMA nodes. An empty default policy binds only pods that ask for it."""

    default_cpu_bind_policy: Literal["", "FullPCPUs", "SpreadByPCPUs"] = "FullPCPUs"
    "How LSE and LSR pods without a policy of their own are bound: to whole cores, or spread over cores."
    scoring_strategy: ScoringStrategy = ScoringStrategy()
    "How nodes are scored."
    numa_scoring_strategy: ScoringStrategy = ScoringStrategy()
    "How the NUMA nodes of a node are scored."

    def completed(self) -> Self:
        return replace(
            self,
            scoring_strategy=self.scoring_strategy.over(CPU_AND_MEMORY),
            numa_scoring_strategy=self.numa_scoring_strategy.over(CPU_AND_MEMORY),
        )

    def faults(self) -> Iterable[Fault]:
        yield from _under("scoringStrategy", self.scoring_strategy.faults())
        yield from _under("numaScoringStrategy", self.numa_scoring_strategy.faults())


class PreAllocationConfig(Struct):
    enable_cluster_mode: bool = False
    "Whether Reservations with the pre-allocation mode Cluster take over any pod with clusterLabelKey."
    cluster_label_key: str = names.LABEL_IS_PRE_ALLOCATABLE
    "Label of pods that may be pre-allocated."
    cluster_priority_annotation_key: str = names.ANNOTATION_PRE_ALLOCATABLE_PRIORITY
    "Annotation with the pod's rank among them."
    prefer_no_pre_allocated_pods: bool = False
    "Whether nodes without pods to take over are preferred."


class ReservationSelectorIndex(Struct):
    enabled: bool = False
    "Whether reservations are indexed by labels."
    key_prefixes: tuple[str, ...] = ()
    "Prefixes of the labels to index."
    keys: tuple[str, ...] = ()
    "Labels to index."


def is_extended_resource(name: str) -> bool:
    """Whether a resource name belongs to a vendor: `domain/name`, outside Kubernetes' own domain."""
    domain, slash, _ = name.partition("/")
    own = domain == "kubernetes.io" or domain.endswith(".kubernetes.io")
    return bool(slash) and not own and not name.startswith("requests.") and label_key_fault(name) is None


def _ignored_faults(resources: Iterable[str], groups: Iterable[str]) -> Iterable[Fault]:
    for i, name in enumerate(resources):
        if not is_extended_resource(name):
            wanted = "must be an extended resource such as example.com/gpu"
            yield Fault(f"ignoredResources[{i}]", f"{wanted}, not {name!r}")
    for i, group in enumerate(groups):
        if "/" in group or not is_extended_resource(f"{group}/x"):
            wanted = "must be a vendor's domain such as example.com, without a slash"
            yield Fault(f"ignoredResourceGroups[{i}]", f"{wanted}, not {group!r}")


class ReservationArgs(PluginArgs):
    """Reservations: their matching, their preemption, their end."""

    enable_preemption: bool = False
    "Whether a Reservation may preempt pods of lower priority."
    min_candidate_nodes_percentage: Percent = 10
    "Accepted without effect: set it in DefaultPreemption."
    min_candidate_nodes_absolute: Count = 100
    "Accepted without effect: set it in DefaultPreemption."
    controller_workers: Positive = 1
    "Accepted without effect."
    gc_duration_seconds: Count = 86400
    "Age at which a Reservation that has ended is deleted."
    gc_interval_seconds: Count = 60
    "Time between two looks for such Reservations."
    disable_garbage_collection: bool = False
    "Whether they are kept."
    resync_interval_seconds: Count = 60
    "Accepted without effect: a Reservation is checked when it changes, and when its time is up."
    pre_allocation_config: PreAllocationConfig = PreAllocationConfig()
    "Reservations that take over the resources of running pods."
    ignored_resources: tuple[str, ...] = ()
    "Extended resources that a Reservation does not hold."
    ignored_resource_groups: tuple[str, ...] = ()
    "Domains of these resources."
    reservation_selector_index: ReservationSelectorIndex = ReservationSelectorIndex()
    "Labels that reservations are indexed by."

    def completed(self) -> Self:
        """A time of 0 counts as unset."""
        return replace(
            self,
            gc_duration_seconds=self.gc_duration_seconds or 86400,
            gc_interval_seconds=self.gc_interval_seconds or 60,
            resync_interval_seconds=self.resync_interval_seconds or 60,
        )

    def faults(self) -> Iterable[Fault]:
        return _ignored_faults(self.ignored_resources, self.ignored_resource_groups)


class HookPlugin(Struct):
    key: str = ""
    "Accepted without effect."
    factory_key: str = ""
    "Accepted without effect."
    factory_args: str = ""
    "Accepted without effect."


class ElasticQuotaArgs(PluginArgs):
    delay_evict_time: NonNegativeDuration = "2m0s"
    "How long a quota may exceed its share before pods are evicted, with monitorAllQuotas."
    revoke_pod_interval: NonNegativeDuration = "1s"
    "Time between two checks for that."
    default_quota_group_max: ResourceList = EMPTY
    "Maximum of the quota for pods that name none. Default: practically unlimited."
    system_quota_group_max: ResourceList = EMPTY
    "Maximum of the quota for system pods. Default: practically unlimited."
    quota_group_namespace: str = names.NAMESPACE_KOORDINATOR
    "Namespace of the quotas that koord creates."
    monitor_all_quotas: bool = False
    "Evict pods of quotas that have used more than their share for longer than delayEvictTime."
    only_report_overuse: bool = False
    "With monitorAllQuotas: evict no pod, and say in the quota's condition Overused which pods would go."
    enable_check_parent_quota: bool = False
    "Whether a pod must also fit into the quotas above its own."
    enable_runtime_quota: bool = True
    "Whether quotas borrow what others leave idle. Otherwise a pod is checked against the quota's max."
    enable_min_quota_scale: bool = True
    "Whether guarantees shrink in proportion where the cluster cannot keep all of them."
    disable_default_quota_preemption: bool = True
    "Whether pods of the default quota are never preempted for a quota's guarantee."
    enable_queue_hint: bool = False
    "Accepted without effect."
    quota_snapshot_update_interval: NonNegativeDuration = "2m0s"
    "Accepted without effect."
    hook_plugins: tuple[HookPlugin, ...] = ()
    "Accepted without effect."

    def completed(self) -> Self:
        unlimited = {"cpu": UNLIMITED, "memory": UNLIMITED}
        return replace(
            self,
            default_quota_group_max=self.default_quota_group_max or unlimited,
            system_quota_group_max=self.system_quota_group_max or unlimited,
            quota_group_namespace=self.quota_group_namespace or names.NAMESPACE_KOORDINATOR,
        )

    def faults(self) -> Iterable[Fault]:
        for path, limits in (
            ("defaultQuotaGroupMax", self.default_quota_group_max),
            ("systemQuotaGroupMax", self.system_quota_group_max),
        ):
            for resource, text in limits.items():
                if parse_quantity(text).mantissa < 0:
                    yield Fault(join(path, resource), f"must be 0 or more, not {text}")


class CoschedulingArgs(PluginArgs):
    default_timeout: NonNegativeDuration = "10m0s"
    "How long placed pods of a gang wait for the others."
    controller_workers: Positive = 1
    "Accepted without effect."
    skip_check_schedule_cycle: bool = False
    "Accepted without effect."
    enable_preemption: bool = False
    "Whether a gang may preempt pods of lower priority."
    aware_network_topology: bool = False
    "Whether gangs are placed by the ClusterNetworkTopology."
    default_match_policy: Literal["only-waiting", "waiting-and-running", "once-satisfied"] = "once-satisfied"
    "Which pods count for minMember: those that wait, also those that run, or all once it was reached."


class GPUSharedResourceTemplates(Struct):
    config_map_namespace: str = names.NAMESPACE_KOORDINATOR
    "Namespace of the ConfigMap with templates of vendors."
    config_map_name: str = names.CONFIGMAP_GPU_SHARED_RESOURCE_TEMPLATES
    "Its name."
    matched_resources: tuple[str, ...] = (names.RESOURCE_HUAWEI_NPU_CORE,)
    "Resources that are allocated by templates."


class GPUModel(Struct):
    vendor: str
    "Vendor of the GPU."
    model: str
    "Model of the GPU."


DEVICE_RESOURCES: Final = tuple(
    ResourceWeight(name)
    for name in (
        names.RESOURCE_GPU_MEMORY_RATIO,
        names.RESOURCE_GPU_MEMORY,
        names.RESOURCE_RDMA,
        names.RESOURCE_FPGA,
    )
)


class DeviceShareArgs(PluginArgs):
    allocator: str = ""
    "Accepted without effect."
    scoring_strategy: DeviceScoringStrategy = DeviceScoringStrategy()
    "How nodes and devices are scored."
    disable_device_numa_topology_alignment: bool = False
    "Whether devices are chosen without regard to NUMA nodes."
    gpu_shared_resource_templates_config: GPUSharedResourceTemplates = GPUSharedResourceTemplates()
    "Where templates of shared GPUs are."
    gpu_share_unsupported_models: tuple[GPUModel, ...] = ()
    "GPUs that are allocated only as a whole."

    def completed(self) -> Self:
        return replace(self, scoring_strategy=self.scoring_strategy.over(DEVICE_RESOURCES))

    def faults(self) -> Iterable[Fault]:
        return _under("scoringStrategy", self.scoring_strategy.faults())


class ScarceResourceAvoidanceArgs(PluginArgs):
    resources: tuple[str, ...] = ()
    "Resources that few nodes have: pods that do not request them prefer other nodes."


class FitPlusResource(Struct):
    type: Literal["LeastAllocated", "MostAllocated"]
    "LeastAllocated prefers empty nodes, MostAllocated full ones."
    weight: Positive
    "Weight of the resource."


class NodeResourcesFitPlusArgs(PluginArgs):
    resources: Mapping[str, FitPlusResource] = EMPTY
    "How nodes are scored, by resource."


class SchedulingHintArgs(PluginArgs):
    max_hint_nodes: Positive = 100
    "How many of the nodes that a pod's hint prefers are tried first."


class DefaultPreBindArgs(PluginArgs):
    """Nothing to set."""


class ShapePoint(Struct):
    utilization: Percent
    "Utilization in percent."
    score: Annotated[int, Meta(ge=0, le=10)]
    "Score at that utilization, from 0 to 10."


def _shape_faults(shape: tuple[ShapePoint, ...]) -> Iterable[Fault]:
    if not shape:
        yield Fault("shape", "needs at least one point")
    for i in range(1, len(shape)):
        if shape[i - 1].utilization >= shape[i].utilization:
            yield Fault(
                f"shape[{i}].utilization", f"must be above that of the point before ({shape[i - 1].utilization})"
            )


class RequestedToCapacityRatio(Struct):
    shape: tuple[ShapePoint, ...] = ()
    "Points of the curve from utilization to score."


class FitScoringStrategy(Struct):
    type: Literal["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"] = field(
        default_factory=_least_allocated
    )
    "LeastAllocated prefers empty nodes, MostAllocated full ones, RequestedToCapacityRatio follows a curve."
    resources: tuple[ResourceWeight, ...] = ()
    "Resources that count, with their weights. Default: cpu and memory."
    requested_to_capacity_ratio: RequestedToCapacityRatio | None = None
    "The curve."


def _weighed(resources: tuple[ResourceWeight, ...]) -> tuple[ResourceWeight, ...]:
    """Kubernetes' rule: no resources means cpu and memory, and a weight of 0 is 1."""
    if not resources:
        return CPU_AND_MEMORY
    return tuple(replace(resource, weight=resource.weight or 1) for resource in resources)


class NodeResourcesFitArgs(PluginArgs):
    ignored_resources: tuple[str, ...] = ()
    "Resources that are not checked."
    ignored_resource_groups: tuple[str, ...] = ()
    "Domains of resources that are not checked."
    scoring_strategy: FitScoringStrategy = FitScoringStrategy()
    "How nodes are scored."

    def completed(self) -> Self:
        strategy = self.scoring_strategy
        return replace(self, scoring_strategy=replace(strategy, resources=_weighed(strategy.resources)))

    def faults(self) -> Iterable[Fault]:
        for i, name in enumerate(self.ignored_resources):
            if label_key_fault(name):
                yield Fault(f"ignoredResources[{i}]", f"must be the name of a resource, not {name!r}")
        for i, group in enumerate(self.ignored_resource_groups):
            if "/" in group or label_key_fault(group):
                yield Fault(f"ignoredResourceGroups[{i}]", f"must be a domain without a slash, not {group!r}")
        strategy = self.scoring_strategy
        yield from _under("scoringStrategy", item_faults("resources", strategy.resources, _weight_faults))
        ratio = strategy.requested_to_capacity_ratio
        if strategy.type == "RequestedToCapacityRatio":
            at = "scoringStrategy.requestedToCapacityRatio"
            yield from _under(at, _shape_faults(ratio.shape if ratio else ()))


class NodeResourcesBalancedAllocationArgs(PluginArgs):
    resources: tuple[ResourceWeight, ...] = ()
    "Resources that should be used evenly. Default: cpu and memory."

    def completed(self) -> Self:
        return replace(self, resources=_weighed(self.resources))

    def faults(self) -> Iterable[Fault]:
        seen: set[str] = set()
        for i, resource in enumerate(self.resources):
            if resource.name in seen:
                yield Fault(f"resources[{i}].name", f"{resource.name} is listed twice")
            seen.add(resource.name)
            if resource.weight != 1:
                yield Fault(f"resources[{i}].weight", f"must be 1, not {resource.weight}")


class InterPodAffinityArgs(PluginArgs):
    hard_pod_affinity_weight: Percent = 1
    "Score for required affinities of pods that are on a node."
    ignore_preferred_terms_of_existing_pods: bool = False
    "Whether preferences of pods that are on a node do not count."


class PodTopologySpreadArgs(PluginArgs):
    default_constraints: tuple[TopologySpreadConstraint, ...] = ()
    "Constraints for pods that have none."
    defaulting_type: Literal["System", "List"] = "System"
    "System: spread over nodes and zones; List: by defaultConstraints."

    def faults(self) -> Iterable[Fault]:
        if self.defaulting_type == "System" and self.default_constraints:
            yield Fault("defaultingType", "must be List where defaultConstraints are given")
        seen: set[tuple[str, str]] = set()
        for i, constraint in enumerate(self.default_constraints):
            at = f"defaultConstraints[{i}]"
            if constraint.max_skew <= 0:
                yield Fault(f"{at}.maxSkew", f"must be an integer of at least 1, not {constraint.max_skew}")
            if not constraint.topology_key:
                yield Fault(f"{at}.topologyKey", "must not be empty")
            actions = ("DoNotSchedule", "ScheduleAnyway")
            if constraint.when_unsatisfiable not in actions:
                yield Fault(
                    f"{at}.whenUnsatisfiable",
                    f"must be one of {', '.join(actions)}, not {constraint.when_unsatisfiable!r}",
                )
            if constraint.label_selector is not None:
                yield Fault(f"{at}.labelSelector", "must be absent: it is deduced for each pod")
            key = (constraint.topology_key, constraint.when_unsatisfiable)
            if key in seen:
                yield Fault(at, f"repeats the constraint on {key[0]} with {key[1]}")
            seen.add(key)


class NodeAffinityArgs(PluginArgs):
    added_affinity: NodeAffinity | None = None
    "Node affinity of all pods, in addition to their own."

    def faults(self) -> Iterable[Fault]:
        if self.added_affinity is None:
            return
        required = self.added_affinity.required_during_scheduling_ignored_during_execution
        if required is not None:
            at = "addedAffinity.requiredDuringSchedulingIgnoredDuringExecution"
            if not required.node_selector_terms:
                yield Fault(f"{at}.nodeSelectorTerms", "must not be empty")
            yield from _under(at, node_selector_faults(required))
        for i, term in enumerate(self.added_affinity.preferred_during_scheduling_ignored_during_execution):
            at = f"addedAffinity.preferredDuringSchedulingIgnoredDuringExecution[{i}]"
            if not 1 <= term.weight <= 100:
                yield Fault(f"{at}.weight", f"must be an integer from 1 to 100, not {term.weight}")
            yield from _under(f"{at}.preference", node_selector_faults(term.preference))


class DefaultPreemptionArgs(PluginArgs):
    min_candidate_nodes_percentage: Percent = 10
    "Share of the nodes that are tried for preemption."
    min_candidate_nodes_absolute: Count = 100
    "Number of nodes that are tried at least."

    def faults(self) -> Iterable[Fault]:
        if self.min_candidate_nodes_percentage == 0 and self.min_candidate_nodes_absolute == 0:
            yield Fault("minCandidateNodesPercentage", "must not be 0 while minCandidateNodesAbsolute is 0")


class VolumeBindingArgs(PluginArgs):
    bind_timeout_seconds: Count = 600
    "How long binding of volumes may take."
    shape: tuple[ShapePoint, ...] = ()
    "Accepted without effect."

    def faults(self) -> Iterable[Fault]:
        return _shape_faults(self.shape) if self.shape else ()


class DynamicResourcesArgs(PluginArgs):
    filter_timeout: NonNegativeDuration = "10s"
    "Accepted without effect."
    binding_timeout: NonNegativeDuration = field(name="bindingTimeout", default="10m0s")
    "Accepted without effect."


ARGS: Final[Mapping[str, type[PluginArgs]]] = {
    "LoadAwareScheduling": LoadAwareSchedulingArgs,
    "NodeNUMAResource": NodeNUMAResourceArgs,
    "Reservation": ReservationArgs,
    "ElasticQuota": ElasticQuotaArgs,
    "Coscheduling": CoschedulingArgs,
    "DeviceShare": DeviceShareArgs,
    "ScarceResourceAvoidance": ScarceResourceAvoidanceArgs,
    "NodeResourcesFitPlus": NodeResourcesFitPlusArgs,
    "SchedulingHint": SchedulingHintArgs,
    "DefaultPreBind": DefaultPreBindArgs,
    "NodeResourcesFit": NodeResourcesFitArgs,
    "NodeResourcesBalancedAllocation": NodeResourcesBalancedAllocationArgs,
    "InterPodAffinity": InterPodAffinityArgs,
    "PodTopologySpread": PodTopologySpreadArgs,
    "NodeAffinity": NodeAffinityArgs,
    "DefaultPreemption": DefaultPreemptionArgs,
    "VolumeBinding": VolumeBindingArgs,
    "DynamicResources": DynamicResourcesArgs,
}
"""The arguments of each plugin that has any."""
