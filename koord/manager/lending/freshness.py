"""Whether a node's report can be trusted: with a report that is too old, nothing is lent.

A report counts up to and including `degradeTimeMinutes` after it was written. A report that is dated further ahead than
that does not count. Going stale causes no event: `node_resource/requeue.py` says when to reconcile again.
"""

from __future__ import annotations

from koord.api.configuration.slo_config_types import ColocationStrategy
from koord.api.protocol.report_age import report_age_s
from koord.manager.colocation_settings import given, setting
from koord.manager.node_state import NodeState


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
