"""What quotas keep for nominated pods, while their victims terminate.

A nomination holds its room in the quota as it does on the node: against pods of the same or a lower priority.
Otherwise the replacement of the first victim would take the room before the last victim is gone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from koord.scheduler.framework.ask import Ask
from koord.scheduler.plugins.quota.quotas import Quotas, is_fixed_record
from koord.scheduler.plugins.quota.tree import Amounts, Quota


@dataclass(frozen=True, slots=True)
class PromisedAmounts:
    """By name of quota, what is kept for pods of it and of all below."""

    whole: Mapping[str, Amounts] = field(default_factory=dict)
    fixed: Mapping[str, Amounts] = field(default_factory=dict)
    "The part of pods that must not be preempted."

    def used(self, quota: Quota, used: Amounts) -> Amounts:
        return _sum(used, self.whole.get(quota.name)) if self.whole else used

    def fixed_used(self, quota: Quota, used: Amounts) -> Amounts:
        return _sum(used, self.fixed.get(quota.name)) if self.fixed else used


NOT_HELD: Final = PromisedAmounts()


def held_for(quotas: Quotas, ask: Ask) -> PromisedAmounts:
    """What others were promised that a pod must leave to them."""
    cluster = quotas.cluster
    if not cluster.nominations.any or cluster.nominations.floor(ask.priority) is None:
        return NOT_HELD
    key, priority, pods = ask.key, ask.priority, cluster.pods
    whole: dict[str, Amounts] = {}
    fixed: dict[str, Amounts] = {}
    for promise in cluster.nominations:
        record = promise.record
        if record.priority < priority or record.key == key or record.key in pods:
            continue
        quota = quotas.bucket(record.labels, record.namespace).quota
        if quota is None:
            continue
        amounts = quotas.counted(record)
        for above in quota.path() if quota.parent is not None else (quota,):
            whole[above.name] = _sum(whole.get(above.name, {}), amounts)
            if is_fixed_record(record):
                fixed[above.name] = _sum(fixed.get(above.name, {}), amounts)
    return PromisedAmounts(whole, fixed)


def _sum(some: Mapping[str, int], more: Mapping[str, int] | None) -> Amounts:
    return dict(some) if more is None else {key: some.get(key, 0) + more.get(key, 0) for key in {**some, **more}}
