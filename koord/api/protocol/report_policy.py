"""How a node measures and reports its usage: what its NodeMetric asks for, with defaults filled in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from koord.api.protocol.crd.node_metric import NodeMetricCollectPolicy
from koord.api.text.stored import stored_duration

REPORT_S: Final = 60
WINDOW_S: Final = 300
LONGER_WINDOWS_S: Final = (300.0, 600.0, 1800.0)
DAY_S: Final = 86400.0


@dataclass(frozen=True, slots=True)
class ReportPolicy:
    report_s: float = REPORT_S
    window_s: float = WINDOW_S
    longer_s: tuple[float, ...] = LONGER_WINDOWS_S
    memory: str = "usageWithoutPageCache"


def policy_of(asked: NodeMetricCollectPolicy | None, default: ReportPolicy) -> ReportPolicy:
    """What the NodeMetric's spec asks for, as far as it can be meant."""
    if asked is None:
        return default
    longer = asked.node_aggregate_policy
    return ReportPolicy(
        _within_a_day(asked.report_interval_seconds, default.report_s),
        _within_a_day(asked.aggregate_duration_seconds, default.window_s),
        tuple(_within_a_day(stored_duration(duration), 1.0) for duration in longer.durations)
        if longer is not None
        else default.longer_s,
        asked.node_memory_collect_policy or default.memory,
    )


def _within_a_day(asked_s: float | None, default_s: float) -> float:
    return default_s if not asked_s or asked_s < 0 else min(float(asked_s), DAY_S)
