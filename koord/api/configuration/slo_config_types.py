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
    metric_aggregate_duration_seconds: Seconds | None = None
    metric_report_interval_seconds: Seconds | None = None
    metric_aggregate_policy: AggregatePolicy | None = None
    metric_memory_collect_policy: NodeMemoryCollectPolicy | None = None
    cpu_reclaim_threshold_percent: ShareOfNode | None = None
    """Share of the node's CPU that may be used in all before nothing is lent. May pass 100, to oversell; no node lends
    more than it has."""
    cpu_calculate_policy: str | None = None
    "One of `lending_policies.CALCULATE_POLICIES` for cpu; anything else acts as usage."
    cpu_safety_mark_percent: SafetyMark | None = None
    """With cpuCalculatePolicy adaptive: CPU usage of a node, in percent, that batch pods must not push it above. The
    agent stays below it by a margin that it learns. cpuReclaimThresholdPercent and cpuSuppressThresholdPercent have no
    effect then."""
    memory_reclaim_threshold_percent: ShareOfNode | None = None
    memory_calculate_policy: str | None = None
    "One of `lending_policies.CALCULATE_POLICIES` for memory; anything else acts as usage."
    degrade_time_minutes: Minutes | None = None
    update_time_threshold_seconds: Seconds | None = None
    resource_diff_threshold: Annotated[float, Meta(gt=0, le=1)] | None = None
    mid_reclaim_mode: str | None = None
    "static; anything else, or nothing, acts as dynamic."
    mid_cpu_threshold_percent: Percent | None = None
    mid_memory_threshold_percent: Percent | None = None
    mid_unallocated_percent: Percent | None = None
    mid_static_cpu_reserved_percent: Percent | None = None
    mid_static_memory_reserved_percent: Percent | None = None
    batch_cpu_threshold_percent: ShareOfNode | None = None
    "Cap of what is lent to batch pods, as a share of the whole node."
    batch_memory_threshold_percent: ShareOfNode | None = None
    extensions: FreeForm = EMPTY


class NodeColocation(ColocationStrategy):
    name: str = ""
    node_selector: LabelSelector | None = None


class ColocationConfig(ColocationStrategy):
    node_configs: tuple[NodeColocation, ...] = ()

    @property
    def items(self) -> Sequence[NodeColocation]:
        return self.node_configs


class NodeResourceThreshold(ResourceThresholdStrategy):
    name: str = ""
    node_selector: LabelSelector | None = None


class ResourceThresholdConfig(Struct):
    cluster_strategy: ResourceThresholdStrategy | None = None
    node_strategies: tuple[NodeResourceThreshold, ...] = ()

    @property
    def items(self) -> Sequence[NodeResourceThreshold]:
        return self.node_strategies


class NodeResourceQOS(ResourceQOSStrategy):
    name: str = ""
    node_selector: LabelSelector | None = None


class ResourceQOSConfig(Struct):
    cluster_strategy: ResourceQOSStrategy | None = None
    node_strategies: tuple[NodeResourceQOS, ...] = ()

    @property
    def items(self) -> Sequence[NodeResourceQOS]:
        return self.node_strategies


class NodeCPUBurst(CPUBurstStrategy):
    name: str = ""
    node_selector: LabelSelector | None = None


class CPUBurstConfig(Struct):
    cluster_strategy: CPUBurstStrategy | None = None
    node_strategies: tuple[NodeCPUBurst, ...] = ()

    @property
    def items(self) -> Sequence[NodeCPUBurst]:
        return self.node_strategies


class NodeSystem(SystemStrategy):
    name: str = ""
    node_selector: LabelSelector | None = None


class SystemConfig(Struct):
    cluster_strategy: SystemStrategy | None = None
    node_strategies: tuple[NodeSystem, ...] = ()

    @property
    def items(self) -> Sequence[NodeSystem]:
        return self.node_strategies


class NodeHostApplications(Struct):
    name: str = ""
    node_selector: LabelSelector | None = None
    applications: tuple[HostApplicationSpec, ...] = ()


class HostApplicationConfig(Struct):
    """Applications outside of Kubernetes. A node's list replaces the cluster's whole."""

    applications: tuple[HostApplicationSpec, ...] = ()
    node_configs: tuple[NodeHostApplications, ...] = ()

    @property
    def items(self) -> Sequence[NodeHostApplications]:
        return self.node_configs


class ModelRatio(Struct):
    """How much one CPU of a model is worth, by what is switched on in it."""

    base_ratio: float | None = None
    hyper_thread_enabled_ratio: float | None = None
    turbo_enabled_ratio: float | None = None
    hyper_thread_turbo_enabled_ratio: float | None = None


class CPUNormalizationStrategy(Struct):
    enable: bool | None = None
    default_ratio: float | None = None
    ratio_model: Mapping[str, ModelRatio] = EMPTY


class NodeCPUNormalization(CPUNormalizationStrategy):
    name: str = ""
    node_selector: LabelSelector | None = None


class CPUNormalizationConfig(CPUNormalizationStrategy):
    node_configs: tuple[NodeCPUNormalization, ...] = ()

    @property
    def items(self) -> Sequence[NodeCPUNormalization]:
        return self.node_configs


class ResourceAmplificationStrategy(Struct):
    enable: bool | None = None
    resource_amplification_ratio: Mapping[str, AmplificationRatio] = EMPTY


class NodeResourceAmplification(ResourceAmplificationStrategy):
    name: str = ""
    node_selector: LabelSelector | None = None


class ResourceAmplificationConfig(ResourceAmplificationStrategy):
    node_configs: tuple[NodeResourceAmplification, ...] = ()

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
