"""The labels and annotations that the scheduler reads. A test finds one that is missing here."""

from __future__ import annotations

from typing import Any, Final

from koord.api.protocol.annotations import colocation, cpu, load
from koord.api.protocol.annotations.value import Value

READ: Final[tuple[Value[Any, Any], ...]] = (
    cpu.NODE_RESERVATION,
    colocation.RAW_ALLOCATABLE,
    load.LAST_EVICTIONS,
    load.LOAD_ESTIMATED_SCALING_FACTORS,
    load.LOAD_ESTIMATED_SECONDS_AFTER_INITIALIZED,
    load.LOAD_ESTIMATED_SECONDS_AFTER_POD_SCHEDULED,
    load.USAGE_THRESHOLDS,
)
