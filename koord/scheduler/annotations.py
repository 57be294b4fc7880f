"""The labels and annotations that the scheduler reads. A test finds one that is missing here."""

from __future__ import annotations

from typing import Any, Final

from koord.api.protocol.annotations import colocation, cpu, device, gang, load, notice, quota, reservation
from koord.api.protocol.annotations.value import Value

READ: Final[tuple[Value[Any, Any], ...]] = (
    cpu.CPU_BIND_POLICY,
    cpu.CPU_MANAGER_POLICY,
    cpu.CPU_TOPOLOGY,
    cpu.NODE_RESERVATION,
    cpu.NUMA_ALLOCATE_STRATEGY,
    cpu.NUMA_TOPOLOGY_POLICY,
    cpu.NUMA_TOPOLOGY_SPEC,
    cpu.POD_CPU_ALLOCS,
    cpu.RESOURCE_SPEC,
    cpu.RESOURCE_STATUS,
    cpu.SYSTEM_QOS_RESOURCE,
    colocation.RAW_ALLOCATABLE,
    colocation.RESOURCE_AMPLIFICATION_RATIO,
    device.CAMBRICON_DSMLU_LOCK,
    device.DEVICE_ALLOCATED,
    device.DEVICE_ALLOCATE_HINT,
    device.DEVICE_JOINT_ALLOCATE,
    device.GPU_PARTITION_SPEC,
    device.GPU_PARTITIONS,
    device.HAMI_LOCK,
    gang.NETWORK_TOPOLOGY_INDEX,
    gang.NETWORK_TOPOLOGY_SELECTOR,
    load.LAST_EVICTIONS,
    load.LOAD_ESTIMATED_SCALING_FACTORS,
    load.LOAD_ESTIMATED_SECONDS_AFTER_INITIALIZED,
    load.LOAD_ESTIMATED_SECONDS_AFTER_POD_SCHEDULED,
    load.USAGE_THRESHOLDS,
    notice.CHECKPOINTED_AT,
    notice.EVICTION_ASKED_BY,
    notice.EVICTION_NOTICE,
    quota.NAMESPACES,
    quota.SHARED_WEIGHT,
    quota.TOTAL_RESOURCE,
    quota.UNSCHEDULABLE_RESOURCE,
    reservation.EXACT_MATCH_RESERVATION,
    reservation.OPERATING_MODE,
    reservation.PRE_ALLOCATION_REQUIRED,
    reservation.RESERVATION_AFFINITY,
    reservation.RESERVATION_ALLOCATED,
    reservation.RESERVATION_IGNORED,
    reservation.RESERVATION_ORDER,
    reservation.RESERVATION_OWNERS,
    reservation.RESERVATION_RESIZE_ALLOCATABLE,
    reservation.RESERVATION_RESTRICTED_OPTIONS,
    reservation.SCHEDULING_HINT,
)
