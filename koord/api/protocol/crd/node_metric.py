"""NodeMetric: what a node and its pods use, as the node agent measured it. Named as the node.

The manager writes the spec (how to measure), the agent the status. The manager derives batch and mid resources from
it, the scheduler and the descheduler how loaded a node is; all of them distrust a status that is too old.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from koord.api.kubernetes.meta import ObjectMeta
from koord.api.machinery.struct import EMPTY, Struct
from koord.api.protocol.crd.device import DeviceInfo
from koord.api.protocol.crd.fields import FreeForm, Int32
from koord.api.text.duration import Duration
from koord.api.text.quantity import Quantity, ResourceList
from koord.api.text.timestamp import Timestamp

NodeMemoryCollectPolicy: TypeAlias = Literal["usageWithHotPageCache", "usageWithoutPageCache", "usageWithPageCache"]


class AggregatePolicy(Struct):
    durations: tuple[Duration, ...] = ()
    "Lengths of the periods to report averages and percentiles for, each up to now."


class NodeMetricCollectPolicy(Struct):
    aggregate_duration_seconds: int | None = None
    "Length of the period that reported usage is averaged over, in seconds."
    report_interval_seconds: int | None = None
    "Time between two reports, in seconds."
    node_aggregate_policy: AggregatePolicy | None = None
    "Over which periods the node's usage is aggregated."
    node_memory_collect_policy: NodeMemoryCollectPolicy | None = None
    "What counts as used memory: without page cache (the default), with its hot part, or with all of it."


class NodeMetricSpec(Struct):
    metric_collect_policy: NodeMetricCollectPolicy | None = None
    "How to measure and report. Follows from colocation-config."


class ResourceMap(Struct):
    resources: ResourceList = EMPTY
    "Amount of each resource."
    devices: tuple[DeviceInfo, ...] = ()
    "Amount for each device."


class AggregatedUsage(Struct):
    usage: Mapping[str, ResourceMap] = EMPTY
    "Usage by kind of aggregation: avg, p50, p90, p95, p99."
    duration: Duration | None = None
    "Length of the period, up to the time of the report."


class NUMAUsage(Struct):
    numa_node_id: Int32
    "Number of the NUMA node."
    node_usage: ResourceMap = ResourceMap()
    "All usage on the NUMA node."
    system_usage: ResourceMap = ResourceMap()
    "Usage on the NUMA node that is not pods'. CPU is shared out in proportion to the NUMA nodes' CPU usage."


class PageCacheUsage(Struct):
    total: Quantity | None = None
    "Files that the kernel keeps in memory, and can drop."
    cold: Quantity | None = None
    "The part that was not used for 5 minutes. Absent if the kernel does not report it."
    counted: Literal["none", "hot", "all"] = "none"
    "Which part of it the memory of this report includes, for the node, the system and pods alike."


class NodeMetricInfo(Struct):
    node_usage: ResourceMap = ResourceMap()
    "All usage on the node."
    aggregated_node_usages: tuple[AggregatedUsage, ...] = ()
    "All usage on the node, aggregated over each period. Absent until there are enough samples."
    system_usage: ResourceMap = ResourceMap()
    "Usage of what is neither a pod nor a host application: the node's usage less both."
    aggregated_system_usages: tuple[AggregatedUsage, ...] = ()
    "System usage, aggregated over each period. Absent until there are enough samples."
    numa_usages: tuple[NUMAUsage, ...] = ()
    "Usage on each NUMA node."
    page_cache: PageCacheUsage | None = None
    "Page cache of the node. An addition of koord; of pods, extensions.pageCache tells it."


class PodMetricInfo(Struct):
    name: str = ""
    "Name of the pod."
    namespace: str = ""
    "Namespace of the pod."
    pod_usage: ResourceMap = ResourceMap()
    "What the pod uses."
    priority: str = ""
    "Priority class of the pod: koord-prod, koord-mid, koord-batch, koord-free, or empty."
    qos: str = ""
    "QoS class of the pod: LSE, LSR, LS, BE, SYSTEM, or empty."
    extensions: FreeForm = EMPTY
    "Further measurements, by agreement between writers and readers."


class HostApplicationMetricInfo(Struct):
    name: str = ""
    "Name of the application, as in the NodeSLO."
    usage: ResourceMap = ResourceMap()
    "What the application uses."
    priority: str = ""
    "Priority class of the application."
    qos: str = ""
    "QoS class of the application."


class ReclaimableMetric(Struct):
    resource: ResourceMap = ResourceMap()
    "What prod pods requested and are predicted not to use."


class ForecastMisses(Struct):
    minutes: int = 0
    "Minutes of the last day in which usage was compared with the peak that was predicted before."
    exceeded_minutes: Mapping[str, int] = EMPTY
    "In how many of these minutes usage was higher, for each resource."
    exceeded_by: ResourceList = EMPTY
    "Largest difference to higher usage, for each resource."


class PeakMetric(Struct):
    resource: ResourceMap = ResourceMap()
    "Highest usage that is predicted for prod pods, with system usage and the safety margin included."
    misses: ForecastMisses | None = None
    "How often the predictions of the last day were too low. An addition of koord; absent until there was one."


class CountedUsage(Struct):
    uid: str = ""
    "Of the pod."
    cpu: Quantity | None = None
    "CPU that it counts for."


class LendingMetric(Struct):
    """The figures of the policy adaptive. The manager publishes batch resources by them."""

    is_in_force: bool = False
    "Whether the agent holds best-effort pods below the learned ceiling."
    minutes: int = 0
    "Minutes of history."
    batch_minutes: int = 0
    "Of these, the minutes in which batch ran and the policy was in force."
    cpu_mark: Quantity | None = None
    "CPU usage that batch must not push the node above."
    cpu_rise: Quantity | None = None
    "How far services rose above their mean of the last 30 s in the worst 1 of 100 minutes; at least a minimum."
    scale_permille: int = 1000
    "Corrects the margin by the minutes in which the mark was passed; 1000 is a margin as large as the rise."
    cpu_margin: Quantity | None = None
    "The rise, scaled: the distance that batch keeps from the mark."
    cpu_services: Quantity | None = None
    "What all but batch used, on average over the last hour."
    cpu_more: Quantity | None = None
    "What may be sold beyond the mark, because batch was seldom short."
    cpu_amount: Quantity | None = None
    "Usage of batch that the node is good for: mark - margin - services + more, at least 0."
    cpu_stable: Quantity | None = None
    "Part of the amount that the p95 of services' usage leaves."
    cpu_ceiling: Quantity | None = None
    "What batch may use now: mark - margin - services' mean of the last 30 s."
    counted: tuple[CountedUsage, ...] = ()
    "What each batch pod counts for: its use, and its request while it is young."
    counted_of_others: Quantity | None = None
    "What containers of other systems (YARN) and best-effort host applications count for."
    requested_by_others: Quantity | None = None
    "What containers of other systems requested."
    memory_services: Quantity | None = None
    "Highest memory usage of all but batch in the last 24 h."
    short_permille: int = 0
    "Per mille of the last day's minutes in which batch got less than 90% of what it wanted."
    violated_permille: int = 0
    "Per mille of the last day's minutes in which batch pushed the node above the mark."
    got_permille: int = 1000
    "Per mille of what it wanted that batch got, in a moving mean of 15 minutes."


class PolicyLine(Struct):
    op: str = ""
    "start, minus, plus, atMost, atLeast or becomes: how the amount changes the result of the lines before."
    name: str = ""
    "What the amount is, in one word."
    amount: Quantity | None = None
    "CPU or memory."
    why: str = ""
    "What the amount was made of, for people."


class PolicyMetric(Struct):
    """The calculation of another system's policy, line by line. The manager publishes batch resources by it."""

    policy: str = ""
    "caster, lar, crane or katalyst."
    cpu: tuple[PolicyLine, ...] = ()
    "What the node lends."
    memory: tuple[PolicyLine, ...] = ()
    "The same of memory."
    box: tuple[PolicyLine, ...] = ()
    "CPU that best-effort pods may use now."


class BestEffortMetric(Struct):
    """CPU of the pods of QoS class BE."""

    cpu_used: Quantity | None = None
    "What they use."
    cpu_requested: Quantity | None = None
    "What they request, including containers of other systems (YARN)."
    cpu_limit: Quantity | None = None
    "What they may use now."
    cpu_held_back: Quantity | None = None
    "What they request above the limit; 0 if the limit does not bind."


class NodeMetricStatus(Struct):
    update_time: Timestamp | None = None
    "When the agent wrote this report. Readers ignore reports that are too old."
    node_metric: NodeMetricInfo | None = None
    "Usage of the node as a whole."
    pods_metric: tuple[PodMetricInfo, ...] = ()
    "Usage of each pod."
    host_application_metric: tuple[HostApplicationMetricInfo, ...] = ()
    "Usage of each application that runs on the node outside of Kubernetes."
    prod_reclaimable_metric: ReclaimableMetric | None = None
    "What may be lent to mid pods."
    prod_peak_metric: PeakMetric | None = None
    "How far the usage of prod pods is predicted to rise."
    lending_metric: LendingMetric | None = None
    "What the node has learned about lending CPU and memory to batch. An addition of koord."
    policy_metric: PolicyMetric | None = None
    "With the lending policy of another system: its figures. An addition of koord."
    best_effort_metric: BestEffortMetric | None = None
    "How far best-effort pods are held back. An addition of koord; absent until it was measured."


class NodeMetric(Struct):
    """What a node and its pods use, as the node agent measured it. Named as the node."""

    metadata: ObjectMeta = ObjectMeta()
    spec: NodeMetricSpec = NodeMetricSpec()
    "How to measure. Written by the manager."
    status: NodeMetricStatus = NodeMetricStatus()
    "The latest report. Written by the node agent."
