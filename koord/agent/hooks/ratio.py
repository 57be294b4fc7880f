"""CPU normalisation: on a fast CPU a core's worth is less time."""

from __future__ import annotations

import math

from koord.agent.host.convert import LEAST_QUOTA_US, UNLIMITED
from koord.agent.state import NodeState
from koord.api.protocol.annotations.colocation import CPU_NORMALIZATION_RATIO
from koord.api.protocol.annotations.value import AnnotationError


def normalization_ratio(state: NodeState) -> float | None:
    """None where the node has none, or one that cannot be read."""
    try:
        return CPU_NORMALIZATION_RATIO.read(state.node.metadata)
    except AnnotationError:
        return None


def normalized(quota_us: int, ratio: float | None) -> int:
    if ratio is None or ratio <= 1 or quota_us == UNLIMITED:
        return quota_us
    return max(math.ceil(quota_us / ratio), LEAST_QUOTA_US)
