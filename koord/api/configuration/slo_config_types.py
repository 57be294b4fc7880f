"""The sections of the ConfigMap slo-controller-config, as users write them: JSON text under one key each.

Every section has settings for the cluster and items for some nodes; an item has a name, a selector, and any of the
same settings. All settings are optional: what is set is laid over what is below (`koord.api.configuration.overlay`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Final, Protocol, TypeAlias, TypeVar

from msgspec import Meta

from koord.api.machinery.struct import EMPTY, Struct
from koord.api.protocol.crd.fields import FreeForm, Percent
from koord.api.protocol.crd.node_metric import AggregatePolicy, NodeMemoryCollectPolicy
from koord.api.protocol.crd.node_slo import (
    CPUBurstStrategy,
    HostApplicationSpec,
    ResourceThresholdStrategy,
    SystemStrategy,
)
from koord.api.protocol.crd.resource_qos import ResourceQOSStrategy
from koord.api.text.selector import LabelSelector

COLOCATION: Final = "colocation-config"
RESOURCE_THRESHOLD: Final = "resource-threshold-config"
RESOURCE_QOS: Final = "resource-qos-config"
CPU_BURST: Final = "cpu-burst-config"
SYSTEM: Final = "system-config"
HOST_APPLICATION: Final = "host-application-config"
CPU_NORMALIZATION: Final = "cpu-normalization-config"
RESOURCE_AMPLIFICATION: Final = "resource-amplification-config"

MONTH_S: Final = 30 * 24 * 3600
Seconds: TypeAlias = Annotated[int, Meta(ge=1, le=MONTH_S)]
Minutes: TypeAlias = Annotated[int, Meta(ge=1, le=MONTH_S // 60)]
MOST_PERCENT: Final = 200
ShareOfNode: TypeAlias = Annotated[int, Meta(ge=0, le=MOST_PERCENT)]
"""In percent. Above 100 a node is oversold on purpose."""
SafetyMark: TypeAlias = Annotated[int, Meta(ge=1, le=100)]
AmplificationRatio: TypeAlias = Annotated[float, Meta(le=100)]

S_co = TypeVar("S_co", bound=Struct, covariant=True)


class NodeItem(Protocol):
    """Settings for the nodes that a selector picks. No selector picks none, an empty one picks all."""

    @property
    def name(self) -> str: ...
    @property
    def node_selector(self) -> LabelSelector | None: ...


class Section(Protocol):
    """What all sections have in common."""

    @property
    def items(self) -> Sequence[NodeItem]: ...


class ColocationStrategy(Struct):
    """How much of a node is lent to batch and mid pods, and how its usage is measured for that."""

    enable: bool | None = None
    "Whether nodes lend."
    metric_aggregate_duration_seconds: Seconds | None = None
    "Length of the period that the agent averages usage over, in seconds."
    metric_report_interval_seconds: Seconds | None = None
    "Time between two reports of an agent, in seconds."
    metric_aggregate_policy: AggregatePolicy | None = None
    "Periods for which the agent also reports averages and percentiles."
    metric_memory_collect_policy: NodeMemoryCollectPolicy | None = None
    "What counts as used memory: without page cache, with its hot part, or with all of it."
    cpu_reclaim_threshold_percent: ShareOfNode | None = None
    """Share of the node's CPU that may be used in all before nothing is lent. May pass 100, to oversell; no node lends
    more than it has."""
    cpu_calculate_policy: str | None = None
    "usage, maxUsageRequest or adaptive; anything else acts as usage."
    cpu_safety_mark_percent: SafetyMark | None = None
    """With cpuCalculatePolicy adaptive: CPU usage of a node, in percent, that batch pods must not push it above. The
    agent stays below it by a margin that it learns. cpuReclaimThresholdPercent and cpuSuppressThresholdPercent have no
    effect then."""
    memory_reclaim_threshold_percent: ShareOfNode | None = None
    "Share of the node's memory that may be used in all before nothing is lent."
    memory_calculate_policy: str | None = None
    "usage, request, maxUsageRequest or adaptive; anything else acts as usage."
    degrade_time_minutes: Minutes | None = None
    "A report older than this is not used: the node then lends nothing."
    update_time_threshold_seconds: Seconds | None = None
    "What a node lends is published again after this time, even if it hardly changed."
    resource_diff_threshold: Annotated[float, Meta(gt=0, le=1)] | None = None
    "What a node lends is published at once when it changes by this share."
    mid_reclaim_mode: str | None = None
    "static; anything else, or nothing, acts as dynamic."
    mid_cpu_threshold_percent: Percent | None = None
    "Cap of what is lent to mid pods, as a share of the node's CPU."
    mid_memory_threshold_percent: Percent | None = None
    "Cap of what is lent to mid pods, as a share of the node's memory."
    mid_unallocated_percent: Percent | None = None
    "Share of what no prod pod requests that mid pods may also get."
    mid_static_cpu_reserved_percent: Percent | None = None
    "With midReclaimMode static: share of the node's CPU that is not lent to mid pods."
    mid_static_memory_reserved_percent: Percent | None = None
    "With midReclaimMode static: share of the node's memory that is not lent to mid pods."
    batch_cpu_threshold_percent: ShareOfNode | None = None
    "Cap of what is lent to batch pods, as a share of the whole node."
    batch_memory_threshold_percent: ShareOfNode | None = None
    "Cap of the memory that is lent to batch pods, as a share of the whole node."
    pool_names: tuple[str, ...] = ()
    """Names of other systems under which nodes also publish batch resources: crane, caster or katalyst. What pods
    request by any of these names counts, whether or not it is published."""
    extensions: FreeForm = EMPTY
    "Settings of other programs, which koord keeps and does not read."


class NodeColocation(ColocationStrategy):
    name: str = ""
    "Name of the item, for messages."
    node_selector: LabelSelector | None = None
    "Nodes that the item is for, by their labels. Absent: none; empty: all."


class ColocationConfig(ColocationStrategy):
    node_configs: tuple[NodeColocation, ...] = ()
    "Settings for some nodes. The first item that selects a node counts."

    @property
    def items(self) -> Sequence[NodeColocation]:
        return self.node_configs


class NodeResourceThreshold(ResourceThresholdStrategy):
    name: str = ""
    "Name of the item, for messages."
    node_selector: LabelSelector | None = None
    "Nodes that the item is for, by their labels. Absent: none; empty: all."


class ResourceThresholdConfig(Struct):
    cluster_strategy: ResourceThresholdStrategy | None = None
    "Settings for all nodes."
    node_strategies: tuple[NodeResourceThreshold, ...] = ()
    "Settings for some nodes. The first item that selects a node counts."

    @property
    def items(self) -> Sequence[NodeResourceThreshold]:
        return self.node_strategies


class NodeResourceQOS(ResourceQOSStrategy):
    name: str = ""
    "Name of the item, for messages."
    node_selector: LabelSelector | None = None
    "Nodes that the item is for, by their labels. Absent: none; empty: all."


class ResourceQOSConfig(Struct):
    cluster_strategy: ResourceQOSStrategy | None = None
    "Settings for all nodes."
    node_strategies: tuple[NodeResourceQOS, ...] = ()
    "Settings for some nodes. The first item that selects a node counts."

    @property
    def items(self) -> Sequence[NodeResourceQOS]:
        return self.node_strategies


class NodeCPUBurst(CPUBurstStrategy):
    name: str = ""
    "Name of the item, for messages."
    node_selector: LabelSelector | None = None
    "Nodes that the item is for, by their labels. Absent: none; empty: all."


class CPUBurstConfig(Struct):
    cluster_strategy: CPUBurstStrategy | None = None
    "Settings for all nodes."
    node_strategies: tuple[NodeCPUBurst, ...] = ()
    "Settings for some nodes. The first item that selects a node counts."

    @property
    def items(self) -> Sequence[NodeCPUBurst]:
        return self.node_strategies


class NodeSystem(SystemStrategy):
    name: str = ""
    "Name of the item, for messages."
    node_selector: LabelSelector | None = None
    "Nodes that the item is for, by their labels. Absent: none; empty: all."


class SystemConfig(Struct):
    cluster_strategy: SystemStrategy | None = None
    "Settings for all nodes."
    node_strategies: tuple[NodeSystem, ...] = ()
    "Settings for some nodes. The first item that selects a node counts."

    @property
    def items(self) -> Sequence[NodeSystem]:
        return self.node_strategies


class NodeHostApplications(Struct):
    name: str = ""
    "Name of the item, for messages."
    node_selector: LabelSelector | None = None
    "Nodes that the item is for, by their labels. Absent: none; empty: all."
    applications: tuple[HostApplicationSpec, ...] = ()
    "Applications on these nodes."


class HostApplicationConfig(Struct):
    """Applications outside of Kubernetes. A node's list replaces the cluster's whole."""

    applications: tuple[HostApplicationSpec, ...] = ()
    "Applications on all nodes."
    node_configs: tuple[NodeHostApplications, ...] = ()
    "Settings for some nodes. The first item that selects a node counts."

    @property
    def items(self) -> Sequence[NodeHostApplications]:
        return self.node_configs


class ModelRatio(Struct):
    """How much one CPU of a model is worth, by what is switched on in it."""

    base_ratio: float | None = None
    "With neither hyper-threading nor turbo."
    hyper_thread_enabled_ratio: float | None = None
    "With hyper-threading."
    turbo_enabled_ratio: float | None = None
    "With turbo."
    hyper_thread_turbo_enabled_ratio: float | None = None
    "With both."


class CPUNormalizationStrategy(Struct):
    enable: bool | None = None
    "Whether nodes get a ratio."
    default_ratio: float | None = None
    "Ratio of models that ratioModel does not name."
    ratio_model: Mapping[str, ModelRatio] = EMPTY
    "Ratios by the model of the CPU, as the agent reports it."


class NodeCPUNormalization(CPUNormalizationStrategy):
    name: str = ""
    "Name of the item, for messages."
    node_selector: LabelSelector | None = None
    "Nodes that the item is for, by their labels. Absent: none; empty: all."


class CPUNormalizationConfig(CPUNormalizationStrategy):
    node_configs: tuple[NodeCPUNormalization, ...] = ()
    "Settings for some nodes. The first item that selects a node counts."

    @property
    def items(self) -> Sequence[NodeCPUNormalization]:
        return self.node_configs


class ResourceAmplificationStrategy(Struct):
    enable: bool | None = None
    "Whether resources are amplified."
    resource_amplification_ratio: Mapping[str, AmplificationRatio] = EMPTY
    "Factor by resource, for example cpu: 1.5. A factor of at most 1 changes nothing."


class NodeResourceAmplification(ResourceAmplificationStrategy):
    name: str = ""
    "Name of the item, for messages."
    node_selector: LabelSelector | None = None
    "Nodes that the item is for, by their labels. Absent: none; empty: all."


class ResourceAmplificationConfig(ResourceAmplificationStrategy):
    node_configs: tuple[NodeResourceAmplification, ...] = ()
    "Settings for some nodes. The first item that selects a node counts."

    @property
    def items(self) -> Sequence[NodeResourceAmplification]:
        return self.node_configs


COLOCATION_DEFAULTS: Final = ColocationStrategy(
    enable=False,
    metric_aggregate_duration_seconds=300,
    metric_report_interval_seconds=60,
    metric_aggregate_policy=AggregatePolicy(durations=("5m0s", "10m0s", "30m0s")),
    metric_memory_collect_policy="usageWithoutPageCache",
    cpu_reclaim_threshold_percent=60,
    cpu_calculate_policy="usage",
    cpu_safety_mark_percent=85,
    memory_reclaim_threshold_percent=65,
    memory_calculate_policy="usage",
    degrade_time_minutes=15,
    update_time_threshold_seconds=300,
    resource_diff_threshold=0.1,
    mid_cpu_threshold_percent=100,
    mid_memory_threshold_percent=100,
    mid_unallocated_percent=0,
    mid_static_cpu_reserved_percent=0,
    mid_static_memory_reserved_percent=0,
)
