"""The labels and annotations that the descheduler reads. A test finds one that is missing here."""

from __future__ import annotations

from typing import Any, Final

from koord.api.protocol.annotations import colocation, load, notice, reservation
from koord.api.protocol.annotations.value import Value

READ: Final[tuple[Value[Any, Any], ...]] = (
    colocation.RAW_ALLOCATABLE,
    load.EVICTION_COST,
    load.EVICT_POLICY,
    load.EVICT_REASON,
    load.EVICT_TRIGGER,
    load.JOB_NODE,
    load.JOB_PROFILE,
    load.JOB_WORKLOAD,
    load.LAST_EVICTIONS,
    load.PASSED_ARBITRATION,
    notice.CHECKPOINTED_AT,
    notice.EVICTION_ASKED_BY,
    notice.EVICTION_NOTICE,
    notice.SCALED_FIRST,
    notice.SCALE_FIRST,
    reservation.RESERVATION_ALLOCATED,
    reservation.RESERVATION_ORDER,
)
