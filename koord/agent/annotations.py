"""The labels and annotations that the agent reads, of its node and of pods. A test finds one that is missing here."""

from __future__ import annotations

from typing import Any, Final

from koord.api.protocol.annotations import colocation, cpu, device, load, notice, pod_qos
from koord.api.protocol.annotations.value import Value

READ: Final[tuple[Value[Any, Any], ...]] = (
    colocation.COLOCATION_STRATEGY,
    colocation.CPU_NORMALIZATION_RATIO,
    colocation.RAW_ALLOCATABLE,
    cpu.ENABLE_NUMA_RESERVATION,
    cpu.NODE_RESERVATION,
    cpu.RESOURCE_STATUS,
    cpu.SYSTEM_QOS_RESOURCE,
    device.DEVICE_ALLOCATED,
    device.GPU_ISOLATION_PROVIDER,
    load.LAST_EVICTIONS,
    notice.EVICTION_ASKED_BY,
    notice.EVICTION_NOTICE,
    pod_qos.BLKIO_QOS,
    pod_qos.CORE_SCHED_GROUP_ID,
    pod_qos.CORE_SCHED_POLICY,
    pod_qos.CPU_BURST,
    pod_qos.CPU_QOS,
    pod_qos.EVICTION_ENABLED,
    pod_qos.EVICTION_POLICY,
    pod_qos.EVICTION_PRIORITY,
    pod_qos.EXTENDED_RESOURCE_SPEC,
    pod_qos.LATENCY_PROBE,
    pod_qos.MEMORY_QOS,
    pod_qos.NETWORK_QOS,
    pod_qos.OOM_SCORE_ADJ,
    pod_qos.OOM_SCORE_ADJ_SPEC,
    pod_qos.RESCTRL,
)
