"""NodeSLO: how a node's agent protects latency-sensitive pods from best-effort ones. Named as the node.

The manager writes it from slo-controller-config; the agent overlays it on the defaults, so an absent field means the
default that its description names. Every threshold has a lower bound, where the agent stops freeing resources.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Meta

from koord.api.kubernetes.meta import ObjectMeta
from koord.api.machinery.struct import EMPTY, Struct
from koord.api.protocol.crd.fields import INT32_FORMAT, FreeForm, Int32, Percent, Switch
from koord.api.protocol.crd.resource_qos import ResourceQOSStrategy
from koord.api.text.quantity import Quantity


class ResourceThresholdStrategy(Struct):
    enable: bool | None = None
    "Whether best-effort pods are suppressed or evicted at all. Default: false."
    cpu_suppress_threshold_percent: Percent | None = None
    "Node CPU usage up to which best-effort pods may fill what others leave, in percent. Default: 65."
    cpu_suppress_min_percent: Percent | None = None
    "Share of the node's CPUs that is left to best-effort pods in any case, in percent."
    cpu_suppress_policy: Literal["cpuset", "cfsQuota"] | None = None
    "How best-effort pods are held down: by fewer CPUs (cpuset, the default) or by less time on them (cfsQuota)."
    memory_evict_threshold_percent: Percent | None = None
    "Node memory usage above which best-effort pods are evicted, in percent. Default: 70."
    memory_evict_lower_percent: Percent | None = None
    "Node memory usage down to which best-effort pods are evicted, in percent. Default: the threshold less 2."
    memory_allocatable_evict_threshold_percent: Annotated[int, Meta(ge=0)] | None = None
    "Memory requested, as a percentage of what is allocatable to it, above which pods are evicted. 110 is advised."
    memory_allocatable_evict_lower_percent: Annotated[int, Meta(ge=0)] | None = None
    "Memory requested, as a percentage of what is allocatable to it, down to which pods are evicted. 100 is advised."
    cpu_evict_be_satisfaction_upper_percent: Percent | None = None
    "Eviction ends when the CPU limit of best-effort pods is above this percentage of their request."
    cpu_evict_be_satisfaction_lower_percent: Percent | None = None
    "Eviction begins when the CPU limit of best-effort pods is below this percentage of their request."
    cpu_evict_be_usage_threshold_percent: Percent | None = None
    "Nothing is evicted while best-effort pods use less than this percentage of their CPU limit. Default: 90."
    cpu_evict_time_window_seconds: Annotated[int, Meta(gt=0)] | None = None
    "Length of the period that CPU usage is averaged over before evicting, in seconds."
    cpu_evict_threshold_percent: Percent | None = None
    "Node CPU usage above which pods are evicted, in percent."
    cpu_evict_lower_percent: Percent | None = None
    "Node CPU usage down to which pods are evicted, in percent. Default: the threshold less 2."
    cpu_allocatable_evict_threshold_percent: Annotated[int, Meta(ge=0)] | None = None
    "CPU requested, as a percentage of what is allocatable to it, above which pods are evicted. 110 is advised."
    cpu_allocatable_evict_lower_percent: Annotated[int, Meta(ge=0)] | None = None
    "CPU requested, as a percentage of what is allocatable to it, down to which pods are evicted. 100 is advised."
    cpu_evict_policy: Literal["evictByRealLimit", "evictByAllocatable"] | None = None
    "What the CPU limit of best-effort pods is: what they really have (evictByRealLimit, the default) or batch-cpu."
    evict_enabled_priority_threshold: Int32 | None = None
    "Highest priority that eviction by node usage may take. Needed by CPUEvict and MemoryEvict."
    allocatable_evict_priority_threshold: Annotated[int, Meta(ge=0, le=7999, extra_json_schema=INT32_FORMAT)] | None = (
        None
    )
    "Highest priority that eviction by allocatable may take; below prod. Needed by the AllocatableEvict features."


class CPUBurstConfig(Struct):
    policy: Literal["none", "cpuBurstOnly", "cfsQuotaBurstOnly", "auto"] | None = None
    "What containers may do at their CPU limit: save up unused time, get a larger quota, both (auto), none (default)."
    cpu_burst_percent: Annotated[int, Meta(ge=0, le=10000)] | None = None
    "CPU time that a container can save up, as a percentage of its limit. Default: 1000."
    cfs_quota_burst_percent: Annotated[int, Meta(ge=100)] | None = None
    "Quota that a throttled container can be raised to, as a percentage of its limit. Default: 300."
    cfs_quota_burst_period_seconds: Annotated[int, Meta(ge=-1)] | None = None
    "How long a container may keep a raised quota, in seconds. -1, the default, is without end."


class CPUBurstStrategy(CPUBurstConfig):
    share_pool_threshold_percent: Percent | None = None
    "CPU usage of the share pool above which quotas are lowered again, in percent. Default: 50."


class SystemStrategy(Struct):
    min_free_kbytes_factor: Annotated[int, Meta(gt=0)] | None = None
    "vm.min_free_kbytes, in ten-thousandths of the node's memory. 100 is advised."
    watermark_scale_factor: Annotated[int, Meta(gt=0, le=400)] | None = None
    "vm.watermark_scale_factor, in ten-thousandths of the node's memory. 150 is advised."
    memcg_reap_back_ground: Switch | None = None
    "1 lets the kernel reclaim the memory of deleted cgroups in the background."
    sched_group_identity_enabled: int | None = None
    "1 switches the kernel's group identity on, 0 off."
    sched_idle_saver_wmark: int | None = None
    "Idle time below which a CPU takes no yielding task, in nanoseconds (kernel.sched_idle_saver_wmark)."
    sched_features: Mapping[str, bool] = EMPTY
    "Features of the kernel's scheduler to switch on or off."
    page_cache_limit_enabled: Switch | None = None
    "1 lets the kernel limit page cache for each pod; needed by memoryQOS.pageCacheEnable."
    total_network_bandwidth: Quantity | None = None
    "Network bandwidth of the node in bit/s. 0 or absent: as the network card reports it."


class CgroupPath(Struct):
    base: Literal["CgroupRoot", "Kubepods", "KubepodsBurstable", "KubepodsBesteffort"] | None = None
    "Directory that the path starts from: the root of all cgroups, or of all pods of a Kubernetes QoS class."
    parent_dir: str = ""
    "Directory below base."
    relative_path: str = ""
    "Directory below parentDir."


class HostApplicationStrategy(Struct):
    """Reserved. There are no settings yet."""


class HostApplicationSpec(Struct):
    name: str = ""
    "Name of the application."
    priority: str = ""
    "Priority class of the application: koord-prod, koord-mid, koord-batch, koord-free, or empty."
    qos: str = ""
    "QoS class of the application: LSE, LSR, LS, BE, SYSTEM, or empty."
    cgroup_path: CgroupPath | None = None
    "The cgroup of the application. Absent: host-latency-sensitive/name or host-best-effort/name, by QoS class."
    strategy: HostApplicationStrategy | None = None
    "Reserved."


class LendingStrategy(Struct):
    cpu_safety_mark_percent: Annotated[int, Meta(ge=1, le=100)] | None = None
    "CPU usage of the node, in percent, that best-effort pods must not push it above. Default: 85."
    policy: str | None = None
    "caster, lar, crane or katalyst: best effort is held in the box of that policy. Absent: below a learned ceiling."
    cpu_reclaim_threshold_percent: int | None = None
    "With policy: share of the node's CPU that may be used in all. Absent: the policy's own."
    memory_reclaim_threshold_percent: int | None = None
    "The same of memory."


class NodeSLOSpec(Struct):
    resource_used_threshold_with_be: ResourceThresholdStrategy | None = None
    "When best-effort pods are suppressed or evicted. From resource-threshold-config."
    resource_qos_strategy: ResourceQOSStrategy | None = None
    "Kernel settings for each QoS class. From resource-qos-config."
    cpu_burst_strategy: CPUBurstStrategy | None = None
    "When containers may exceed their CPU limit for a while. From cpu-burst-config."
    system_strategy: SystemStrategy | None = None
    "Kernel settings of the node as a whole. From system-config."
    extensions: FreeForm = EMPTY
    "Further settings, by agreement between writers and readers."
    host_applications: tuple[HostApplicationSpec, ...] = ()
    "Applications that run on the node outside of Kubernetes. From host-application-config."
    lending_strategy: LendingStrategy | None = None
    """How the agent holds best-effort pods below a learned ceiling, or in the box of another system's policy. Absent:
    they are held by cpuSuppressThresholdPercent. An addition of koord, from colocation-config (cpuCalculatePolicy)."""


class NodeSLOStatus(Struct):
    """Nothing is reported."""


class NodeSLO(Struct):
    """How a node's agent protects latency-sensitive pods from best-effort ones. Named as the node."""

    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSLOSpec = NodeSLOSpec()
    "The settings. Written by the manager from slo-controller-config."
    status: NodeSLOStatus = NodeSLOStatus()
    "Not used."
