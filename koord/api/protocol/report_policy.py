"""How a node measures and reports its usage: what its NodeMetric asks for, with defaults filled in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from koord.api.protocol.crd.node_metric import NodeMetricCollectPolicy
from koord.api.text.duration import parse_duration

REPORT_S: Final = 60
WINDOW_S: Final = 300
LONGER_WINDOWS_S: Final = (300.0, 600.0, 1800.0)


@dataclass(frozen=True, slots=True)
class ReportPolicy:
    report_s: float = REPORT_S
    window_s: float = WINDOW_S
    longer_s: tuple[float, ...] = LONGER_WINDOWS_S
    memory: str = "usageWithoutPageCache"


def policy_of(asked: NodeMetricCollectPolicy | None, default: ReportPolicy) -> ReportPolicy:
    """What the NodeMetric's spec asks for."""
    if asked is None:
        return default
    longer = asked.node_aggregate_policy
    return ReportPolicy(
        float(asked.report_interval_seconds or default.report_s),
        float(asked.aggregate_duration_seconds or default.window_s),
        tuple(map(parse_duration, longer.durations)) if longer is not None else default.longer_s,
        asked.node_memory_collect_policy or default.memory,
    )
