"""Resource QoS: the kernel settings that keep pods of one class from disturbing those of another.

Part of a NodeSLO, for each class; the same words appear in pod annotations. Every field is unset until someone sets
it: settings are overlaid, cluster on defaults, node on cluster, pod on node.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from koord.api.machinery.struct import Struct
from koord.api.protocol.crd.fields import IntOrString, Percent, Switch, served_default


class CPUQOS(Struct):
    group_identity: Annotated[int, Meta(ge=-1, le=2)] | None = None
    "Rank on a CPU, under policy groupIdentity: 2 high, 0 normal, -1 yields to all others."
    sched_idle: Switch | None = None
    "Under policy coreSched: 1 makes pods run only when a CPU would otherwise idle."
    core_expeller: bool | None = None
    "Under policy coreSched: whether these pods keep idle-class pods off the sibling threads of their cores."


class CPUQOSCfg(CPUQOS):
    enable: bool | None = None
    "Whether this is applied. Default: false."


class MemoryQOS(Struct):
    min_limit_percent: Percent | None = None
    "memory.min as a percentage of the memory request: never reclaimed below it. 0 is off."
    low_limit_percent: Percent | None = None
    "memory.low as a percentage of the memory request: reclaimed below it only when nothing else is left. 0 is off."
    throttling_percent: Percent | None = None
    (
        "How far memory.high lies from the request (0) towards the limit (100), or the node's allocatable where there "
        "is none. Above it the pod is slowed down to reclaim. 0 is off."
    )
    wmark_ratio: Percent | None = None
    "Percentage of its limit at which a pod's memory is reclaimed in the background. 0 is off, 95 is advised."
    wmark_scale_permill: Annotated[int, Meta(ge=1, le=1000)] | None = None
    "How far below wmarkRatio background reclaim stops, in thousandths of the limit. 20 is advised."
    wmark_min_adj: Annotated[int, Meta(ge=-25, le=50)] | None = None
    "Shifts the point at which the node's memory pressure reaches the pods: negative later, positive earlier."
    priority_enable: Switch | None = None
    "1 lets priority decide whom the out-of-memory killer takes first."
    priority: Annotated[int, Meta(ge=0, le=12)] | None = None
    "Rank for the out-of-memory killer; the lowest goes first."
    oom_kill_group: Switch | None = None
    "1 makes the out-of-memory killer end all processes of a container together."
    page_cache_enable: bool | None = None
    "Whether the page cache of each pod is limited. Needs a kernel that can."
    page_cache_limit_percent: Percent | None = None
    "Limit of the page cache as a percentage of the memory limit. 0 is no limit."
    page_cache_limit_size: int | None = None
    "Limit of the page cache in bytes, at most the memory limit. Wins over the percentage. 0 is no limit."
    page_cache_reclaim_sync: bool | None = None
    "Whether a pod waits while its page cache is brought below the limit. Default: false, in the background."


class MemoryQOSCfg(MemoryQOS):
    enable: bool | None = None
    "Whether this is applied. Default: false."


class IOCfg(Struct):
    read_iops: Annotated[int, Meta(ge=0)] | None = None
    "Read operations a second at most. 0 is no limit."
    write_iops: Annotated[int, Meta(ge=0)] | None = None
    "Write operations a second at most. 0 is no limit."
    read_bps: Annotated[int, Meta(ge=0)] | None = None
    "Bytes read a second at most. 0 is no limit."
    write_bps: Annotated[int, Meta(ge=0)] | None = None
    "Bytes written a second at most. 0 is no limit."
    io_weight_percent: Annotated[int, Meta(ge=1, le=100)] | None = None
    "Share of the disk when it is busy, against others. Default: 100."
    read_latency: int | None = None
    "Read latency from which the disk counts as saturated, in microseconds. For the cgroup root only."
    write_latency: int | None = None
    "Write latency from which the disk counts as saturated, in microseconds. For the cgroup root only."
    read_latency_percent: Percent | None = None
    "Percentage of reads that must be faster than readLatency. For the cgroup root only."
    write_latency_percent: Percent | None = None
    "Percentage of writes that must be faster than writeLatency. For the cgroup root only."
    enable_user_model: bool | None = None
    "Whether the model below describes the disk, not the kernel's own. Default: false. For the cgroup root only."
    model_read_bps: Annotated[int, Meta(ge=1)] | None = None
    "Bytes that the disk can read a second."
    model_write_bps: Annotated[int, Meta(ge=1)] | None = None
    "Bytes that the disk can write a second."
    model_read_seq_iops: Annotated[int, Meta(ge=1)] | None = None
    "Sequential reads that the disk can do a second."
    model_write_seq_iops: Annotated[int, Meta(ge=1)] | None = None
    "Sequential writes that the disk can do a second."
    model_read_rand_iops: Annotated[int, Meta(ge=1)] | None = None
    "Random reads that the disk can do a second."
    model_write_rand_iops: Annotated[int, Meta(ge=1)] | None = None
    "Random writes that the disk can do a second."


class BlockCfg(Struct):
    name: str = ""
    "Name of the device, volume group or pod volume."
    type: Literal["device", "volumegroup", "podvolume"] | None = None
    "What the name means: a device such as /dev/sdb, an LVM volume group, or a volume of the pod."
    io_cfg: IOCfg = IOCfg()
    "Limits and weights on it."


class BlkIOQOS(Struct):
    blocks: tuple[BlockCfg, ...] = ()
    "Settings for each block device."


class BlkIOQOSCfg(BlkIOQOS):
    enable: bool | None = None
    "Whether this is applied. Default: false."


class ResctrlQOS(Struct):
    cat_range_start_percent: Percent | None = None
    "Where the part of the last level cache that pods may fill begins, in percent of the cache."
    cat_range_end_percent: Percent | None = None
    "Where the part of the last level cache that pods may fill ends, in percent of the cache. Above the start."
    mba_percent: Percent | None = None
    "Share of the memory bandwidth that pods may use, in percent."


class ResctrlQOSCfg(ResctrlQOS):
    enable: bool | None = None
    "Whether this is applied. Default: false."


class NetworkQOS(Struct):
    ingress_request: Annotated[IntOrString | None, served_default(0)] = None
    "Incoming bandwidth that is guaranteed: a number is a percentage of the node's, a string bit/s, such as 50M."
    ingress_limit: Annotated[IntOrString | None, served_default(100)] = None
    "Incoming bandwidth at most: a number is a percentage of the node's, a string bit/s, such as 50M."
    egress_request: Annotated[IntOrString | None, served_default(0)] = None
    "Outgoing bandwidth that is guaranteed: a number is a percentage of the node's, a string bit/s, such as 50M."
    egress_limit: Annotated[IntOrString | None, served_default(100)] = None
    "Outgoing bandwidth at most: a number is a percentage of the node's, a string bit/s, such as 50M."


class NetworkQOSCfg(NetworkQOS):
    enable: bool | None = None
    "Whether this is applied. Default: false."


class ResourceQOS(Struct):
    cpu_qos: CPUQOSCfg | None = None
    "Rank on a CPU."
    memory_qos: MemoryQOSCfg | None = None
    "Protection and reclaim of memory."
    blkio_qos: BlkIOQOSCfg | None = None
    "Limits and weights of disk I/O."
    resctrl_qos: ResctrlQOSCfg | None = None
    "Shares of the last level cache and of memory bandwidth."
    network_qos: NetworkQOSCfg | None = None
    "Guaranteed and greatest network bandwidth."


class ResourceQOSPolicies(Struct):
    cpu_policy: Literal["groupIdentity", "coreSched"] | None = None
    "Kernel mechanism behind cpuQOS. Default: groupIdentity."
    net_qos_policy: Literal["tc", "terway-qos"] | None = None
    "Mechanism behind networkQOS. Default: tc."


class ResourceQOSStrategy(Struct):
    policies: ResourceQOSPolicies | None = None
    "Which mechanisms are used."
    lsr_class: ResourceQOS | None = None
    "Settings for LSE and LSR pods."
    ls_class: ResourceQOS | None = None
    "Settings for LS pods."
    be_class: ResourceQOS | None = None
    "Settings for BE pods."
    system_class: ResourceQOS | None = None
    "Settings for SYSTEM pods."
    cgroup_root: ResourceQOS | None = None
    "Settings for the node's root cgroup. Only blkioQOS is used."
