"""The defaults behind slo-controller-config and NodeSLO: the values of fields that are not set.

`default_node_slo()` is what the manager starts from; it leaves the QoS classes open. `default_qos_strategy()` and
`qos_off()` are what the node agent fills them with: the advised values of a class where its switch is on, neutral
ones where it is off.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from msgspec.structs import replace

from koord.api.configuration.overlay import overlay
from koord.api.protocol.crd.node_slo import CPUBurstStrategy, NodeSLOSpec, ResourceThresholdStrategy, SystemStrategy
from koord.api.protocol.crd.resource_qos import (
    BlkIOQOSCfg,
    CPUQOSCfg,
    MemoryQOSCfg,
    NetworkQOSCfg,
    ResctrlQOSCfg,
    ResourceQOS,
    ResourceQOSPolicies,
    ResourceQOSStrategy,
)

QOSClass: TypeAlias = Literal["LSR", "LS", "BE", "SYSTEM"]

THRESHOLD_STRATEGY: Final = ResourceThresholdStrategy(
    enable=False,
    cpu_suppress_threshold_percent=65,
    cpu_suppress_policy="cpuset",
    memory_evict_threshold_percent=70,
    cpu_evict_policy="evictByRealLimit",
)

EVICT_LOWER_MARGIN_PERCENT: Final = 2
"""How far below its threshold an eviction stops where no lower bound is set."""

CPU_EVICT_BE_USAGE_THRESHOLD_PERCENT: Final = 90
"""The agent's own default; it is not written into NodeSLO."""

CPU_BURST_STRATEGY: Final = CPUBurstStrategy(
    policy="none",
    cpu_burst_percent=1000,
    cfs_quota_burst_percent=300,
    cfs_quota_burst_period_seconds=-1,
    share_pool_threshold_percent=50,
)

SYSTEM_STRATEGY: Final = SystemStrategy(total_network_bandwidth="0")

QOS_POLICIES: Final = ResourceQOSPolicies(cpu_policy="groupIdentity", net_qos_policy="tc")

_OFF: Final = ResourceQOS(
    cpu_qos=CPUQOSCfg(enable=False, group_identity=0, sched_idle=0, core_expeller=False),
    memory_qos=MemoryQOSCfg(
        enable=False,
        min_limit_percent=0,
        low_limit_percent=0,
        throttling_percent=0,
        wmark_ratio=0,
        wmark_scale_permill=50,
        wmark_min_adj=0,
        priority_enable=0,
        priority=0,
        oom_kill_group=0,
    ),
    blkio_qos=BlkIOQOSCfg(enable=False),
    resctrl_qos=ResctrlQOSCfg(enable=False, cat_range_start_percent=0, cat_range_end_percent=100, mba_percent=100),
    network_qos=NetworkQOSCfg(enable=False, ingress_request=0, ingress_limit=0, egress_request=0, egress_limit=0),
)

_ROOT: Final = ResourceQOS(blkio_qos=BlkIOQOSCfg(enable=False))

_LATENCY_SENSITIVE: Final = ResourceQOS(
    cpu_qos=CPUQOSCfg(group_identity=2, core_expeller=True),
    memory_qos=MemoryQOSCfg(wmark_ratio=95, wmark_scale_permill=20, wmark_min_adj=-25),
)
_BEST_EFFORT: Final = ResourceQOS(
    cpu_qos=CPUQOSCfg(group_identity=-1),
    memory_qos=MemoryQOSCfg(wmark_ratio=95, wmark_scale_permill=20, wmark_min_adj=50),
    resctrl_qos=ResctrlQOSCfg(cat_range_end_percent=30),
)

_CLASSES: Final[Mapping[QOSClass, ResourceQOS]] = {
    "LSR": overlay(_OFF, _LATENCY_SENSITIVE),
    "LS": overlay(_OFF, _LATENCY_SENSITIVE),
    "BE": overlay(_OFF, _BEST_EFFORT),
    "SYSTEM": _OFF,
}


def default_node_slo() -> NodeSLOSpec:
    """What the manager writes for a node where the ConfigMap says nothing."""
    return NodeSLOSpec(
        resource_used_threshold_with_be=THRESHOLD_STRATEGY,
        resource_qos_strategy=ResourceQOSStrategy(),
        cpu_burst_strategy=CPU_BURST_STRATEGY,
        system_strategy=SYSTEM_STRATEGY,
    )


def default_qos(qos: QOSClass) -> ResourceQOS:
    """The advised settings of a class, all switched off."""
    return _CLASSES[qos]


def qos_off() -> ResourceQOS:
    """Settings that do nothing: what a class is set to when it is switched off, and so undone."""
    return _OFF


def default_qos_strategy() -> ResourceQOSStrategy:
    """What the agent lays a NodeSLO's resourceQOSStrategy over."""
    return ResourceQOSStrategy(
        policies=QOS_POLICIES,
        lsr_class=default_qos("LSR"),
        ls_class=default_qos("LS"),
        be_class=default_qos("BE"),
        system_class=default_qos("SYSTEM"),
        cgroup_root=_ROOT,
    )


def effective_qos_strategy(written: ResourceQOSStrategy | None) -> ResourceQOSStrategy:
    """What the agent applies: `written` over the defaults, and neutral values for whatever is switched off.

    Only CPU, memory and cache settings of LSR, LS and BE are neutralised; the others check their switch themselves.
    """
    strategy = overlay(default_qos_strategy(), written)
    return replace(
        strategy,
        lsr_class=_neutral_where_off(strategy.lsr_class),
        ls_class=_neutral_where_off(strategy.ls_class),
        be_class=_neutral_where_off(strategy.be_class),
    )


def _neutral_where_off(qos: ResourceQOS | None) -> ResourceQOS | None:
    if qos is None:
        return None
    return replace(
        qos,
        cpu_qos=qos.cpu_qos if qos.cpu_qos and qos.cpu_qos.enable else _OFF.cpu_qos,
        memory_qos=qos.memory_qos if qos.memory_qos and qos.memory_qos.enable else _OFF.memory_qos,
        resctrl_qos=qos.resctrl_qos if qos.resctrl_qos and qos.resctrl_qos.enable else _OFF.resctrl_qos,
    )
