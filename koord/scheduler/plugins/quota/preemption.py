"""Preemption inside a quota: less important pods of the same quota go so that a pod gets room in it, and a node.

Pods that must not be preempted never go, and neither do pods of the default quota unless that is allowed. Each node
with less important pods of the quota is tried out: they are taken off, and as many as possible put back. The rest, the
victims, give the pod both its node and its quota, so no pod goes in vain.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from koord.api.kubernetes.words import PreemptionPolicy
from koord.api.protocol.names import QUOTA_DEFAULT
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.engine import Engine
from koord.scheduler.framework.remedy import Remedy
from koord.scheduler.plugins.default_preemption import (
    AWAITED,
    NEVER,
    Candidate,
    going_for,
    less_important,
    promised_row,
    tried_out,
)
from koord.scheduler.plugins.quota.quotas import Bucket, Quotas
from koord.scheduler.plugins.quota.tree import Quota
from koord.scheduler.state.pods import PodRecord
from koord.scheduler.state.table import Row

MOST_ROWS: Final = 100
"""This many nodes with victims are enough to choose from."""


def remedy(quotas: Quotas, ask: Ask, engine: Engine) -> Remedy | None:
    """The pods of its own quota that would have to go for a pod; None if its quota does not decide that."""
    quota, is_refused = quotas.quota_of(ask), engine.refusal(ask) is not None
    if quota is None:
        return None
    is_protected = quota.name == QUOTA_DEFAULT and (quotas.rules is None or quotas.rules.protects_default)
    if is_protected or not quotas.forest.is_usable(quota.name):
        if not is_refused or _awaits_victims(ask, engine):
            return None
        # Nobody makes room for it, so a node that it was promised is free for others.
        return Remedy(clears=True)
    if ask.spec.preemption_policy == PreemptionPolicy.NEVER:
        return Remedy(message=f"preemption: {NEVER}") if is_refused else None
    if _awaits_victims(ask, engine, lambda record: _bucket(quotas, record).quota is quota):
        return Remedy(message=f"preemption: {AWAITED}")
    with engine.cluster.nominations.without(ask.key):
        outcome = _best(quotas, quota, ask, engine)
    if outcome is not None:
        return Remedy(engine.cluster.table.names[outcome.row], outcome.victims)
    if not is_refused:
        return None
    why = f"preemption: no less important pods of quota {quota.name} on one node would make enough room."
    return Remedy(message=why, clears=True)


def _best(quotas: Quotas, quota: Quota, ask: Ask, engine: Engine) -> Candidate | None:
    cluster = engine.cluster
    hashes = cluster.node_hashes()
    rows = {row for bucket in quotas.buckets_of(quota.name) for row in bucket.rows}
    candidates: list[Candidate] = []
    for row in sorted(rows, key=lambda row: int(hashes[row])):
        lower = victims_on(quotas, quota, ask, engine, row)
        outcome = tried_out(ask, engine, row, lower) if lower else ()
        if isinstance(outcome, Candidate):
            candidates.append(outcome)
            if len(candidates) >= MOST_ROWS:
                break
    return min(candidates, key=lambda candidate: candidate[:5], default=None)


def _awaits_victims(ask: Ask, engine: Engine, counts: Callable[[PodRecord], bool] = lambda record: True) -> bool:
    """Whether pods are going already to make room for this one on the node that it was promised."""
    cluster = engine.cluster
    with cluster.nominations.without(ask.key) as promise:
        row = promised_row(ask, cluster, promise)
        if row is None:
            return False
        return any(map(counts, going_for(ask, cluster, promise, row, engine.class_of(ask).view)))


def victims_on(quotas: Quotas, quota: Quota, ask: Ask, engine: Engine, row: Row) -> list[PodRecord]:
    """Pods of a quota on a row that may have to go for one, the most important first."""
    view = engine.class_of(ask).view
    return [
        record
        for record in less_important(engine.cluster, row, ask.priority, view)
        if _bucket(quotas, record).quota is quota
    ]


def _bucket(quotas: Quotas, record: PodRecord) -> Bucket:
    return quotas.bucket(record.labels, record.namespace)
