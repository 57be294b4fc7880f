"""Over-use: pods that have to go because their quota's share shrank below what they use.

Nothing is taken back at once: a quota that has used more than its share for longer than the delay loses pods, the least
important first, until the rest is within the share. Then those are let stay who still fit, the most important first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from koord.api.kinds import ELASTIC_QUOTAS
from koord.api.machinery.shield import Shielded
from koord.scheduler.plugins.default_preemption import is_held
from koord.scheduler.plugins.quota.quotas import Quotas
from koord.scheduler.plugins.quota.tree import Quota
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.pods import PodRecord
from koord.scheduler.state.ranking import importance


@dataclass(frozen=True, slots=True)
class Holder:
    """A pod that uses a quota."""

    key: str
    amounts: Mapping[str, int]
    fixed: bool = False
    "Whether it must not be evicted."


def to_revoke(pods: Sequence[Holder], used: Mapping[str, int], share: Mapping[str, int]) -> list[Holder]:
    """The pods to evict so that usage is within the share. `pods`: the most important first."""
    left = dict(used)
    going: list[Holder] = []
    for pod in reversed(pods):
        if _is_within(left, share):
            break
        if not pod.fixed and any(pod.amounts.get(key) for key in share):
            _add(left, pod.amounts, -1)
            going.append(pod)
    if not _is_within(left, share):
        return going[::-1]
    stays: set[str] = set()
    for pod in reversed(going):
        _add(left, pod.amounts, +1)
        if _is_within(left, share):
            stays.add(pod.key)
        else:
            _add(left, pod.amounts, -1)
    return [pod for pod in reversed(going) if pod.key not in stays]


def _is_within(used: Mapping[str, int], share: Mapping[str, int]) -> bool:
    return all(used.get(key, 0) <= bound for key, bound in share.items())


def _add(into: dict[str, int], amounts: Mapping[str, int], sign: int) -> None:
    for key, amount in amounts.items():
        if key in into:
            into[key] += sign * amount


@dataclass(frozen=True, slots=True)
class Revocation:
    """Pods of a quota that has used more than its share for too long."""

    quota: str
    pods: tuple[PodRecord, ...]


@dataclass(slots=True)
class Overuse:
    """How long each quota has used more than its share."""

    delay_s: float
    since_s: dict[str, float] = field(default_factory=dict)

    def look(self, quotas: Quotas, cluster: Cluster) -> list[Revocation]:
        """The pods to evict now. The delay of a quota that is returned starts again."""
        revocations: list[Revocation] = []
        over = [quota for quota in quotas.forest.quotas.values() if _is_over(quotas, quota, cluster)]
        self.since_s = {quota.name: self.since_s.get(quota.name, cluster.now_s) for quota in over}
        for quota in over:
            if cluster.now_s - self.since_s[quota.name] <= self.delay_s:
                continue
            del self.since_s[quota.name]
            with _shielded(quotas, quota, cluster):
                pods = revoked(quotas, quota, cluster)
                if pods:
                    revocations.append(Revocation(quota.name, pods))
        return revocations


def _is_over(quotas: Quotas, quota: Quota, cluster: Cluster) -> bool:
    with _shielded(quotas, quota, cluster):
        return is_over(quotas, quota)
    return False


def _shielded(quotas: Quotas, quota: Quota, cluster: Cluster) -> Shielded:
    spec = quotas.forest.specs.get(quota.name)
    heard = None if spec is None else quotas.objects.get(spec.key)
    return cluster.shield.about("look for over-use", ELASTIC_QUOTAS, None if heard is None else heard.metadata)


def is_over(quotas: Quotas, quota: Quota) -> bool:
    """Whether a quota uses more than its share."""
    return quota.parent is not None and not _is_within(quota.used, quotas.runtime(quota))


def revoked(quotas: Quotas, quota: Quota, cluster: Cluster) -> tuple[PodRecord, ...]:
    """The pods that would bring a quota back within its share, the most important first."""
    pods = list(pods_of(quotas, quota, cluster))
    records = sorted((record for record in pods if not record.terminating), key=importance)
    by_key = {record.key: record for record in records}
    holders = [Holder(record.key, quotas.counted(record), is_held(record)) for record in records]
    used = dict(quota.used)
    for record in pods:
        # A terminating pod counts as gone.
        if record.terminating:
            _add(used, quotas.counted(record), -1)
    return tuple(by_key[pod.key] for pod in to_revoke(holders, used, quotas.runtime(quota)))


def pods_of(quotas: Quotas, quota: Quota, cluster: Cluster) -> Iterator[PodRecord]:
    """The pods on nodes that are in a quota itself."""
    for bucket in quotas.buckets_of(quota.name):
        for row in bucket.rows:
            for record in cluster.pods_on[row].values():
                if quotas.bucket(record.labels, record.namespace) is bucket:
                    yield record
