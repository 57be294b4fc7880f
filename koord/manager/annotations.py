"""The labels and annotations that the manager reads. A test finds one that is missing here."""

from __future__ import annotations

from typing import Any, Final

from koord.api.protocol.annotations import colocation, cpu, quota
from koord.api.protocol.annotations.value import Value

READ: Final[tuple[Value[Any, Any], ...]] = (
    colocation.CPU_NORMALIZATION_ENABLED,
    colocation.CPU_NORMALIZATION_RATIO,
    colocation.ORIGIN_EXTENDED_ALLOCATABLE,
    colocation.THIRD_PARTY_ALLOCATIONS,
    cpu.CPU_BASIC_INFO,
    cpu.NODE_RESERVATION,
    cpu.RESOURCE_STATUS,
    quota.RESOURCE_KEYS,
)
