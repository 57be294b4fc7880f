"""Whether a node's report is to be believed: what is too old means that nothing is lent.

A report counts up to and including `degradeTimeMinutes` after it was written, and no longer before: one that is dated
further ahead says nothing about now. That it goes stale is no event: `due` says when to look again.
"""

from __future__ import annotations

from koord.api.configuration.slo_config_types import ColocationStrategy
from koord.api.protocol.report_age import report_age_s
from koord.manager.node_resource.settings import given, setting
from koord.manager.node_resource.state import NodeState


def stale_at_s(state: NodeState, strategy: ColocationStrategy) -> float | None:
    """Until when, inclusive, the report counts; None where there is none."""
    reported_s = state.reported_s
    return None if reported_s is None else reported_s + 60 * given(strategy.degrade_time_minutes)


def reason(state: NodeState) -> str:
    """A word for why a report is not believed."""
    return "NoReport" if state.reported_s is None else "StaleReport"


def distrust(state: NodeState, strategy: ColocationStrategy, now_s: float) -> str:
    """Why the report is not believed; empty where it is."""
    if state.metric is None:
        return "the node has no NodeMetric"
    until_s = stale_at_s(state, strategy)
    if until_s is None:
        return "the NodeMetric has no report yet (status.updateTime is not set)"
    if now_s > until_s:
        reported_s = given(state.reported_s)
        age = duration(now_s - reported_s)
        return f"the NodeMetric is stale: its report is {age} old ({setting(strategy, 'degrade_time_minutes')})"
    dated_s, within_s = state.metric.updated_s, 60 * given(strategy.degrade_time_minutes)
    if report_age_s(dated_s, now_s) > within_s:
        ahead = duration(given(dated_s) - now_s)
        return (
            f"the NodeMetric is dated {ahead} ahead of now: the clock of the node is wrong"
            f" ({setting(strategy, 'degrade_time_minutes')})"
        )
    return ""


def duration(seconds: float) -> str:
    """`14m48s`, for people."""
    left = max(0, round(seconds))
    hours, left = divmod(left, 3600)
    minutes, left = divmod(left, 60)
    if hours:
        return f"{hours}h{minutes}m"
    if minutes:
        return f"{minutes}m{left}s" if left else f"{minutes}m"
    return f"{left}s"
