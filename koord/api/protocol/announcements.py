"""Which scheduler serves each scheduler name, by the cluster's leases.

A pod names its scheduler, and nothing in Kubernetes tells whether anybody answers to that name. So each koord scheduler
holds one lease per name that it schedules for (`koord-schedules-NAME`, with a label) while it decides. Other schedulers
are known by the lease of their leader election: kube-scheduler's stands for `default-scheduler`, any other for its own
name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from koord.api.kubernetes.coordination import Lease
from koord.api.kubernetes.words import SchedulerName
from koord.api.protocol.names import LEASE_SCHEDULER, NAMESPACE_KUBE_SYSTEM
from koord.api.text.timestamp import TimestampError, parse_timestamp

ANNOUNCED: Final = "koordinator.sh/schedules"
"""The label of every announcement, so that they are found in any namespace."""
BESIDE: Final = "koordinator.sh/schedules-beside"
"""An annotation of an announcement: other schedulers that announce the same name, comma-separated. They hold no
election, or not the same one."""
RENEWED_EACH_S: Final = 10.0
VALID_S: Final = 40
_PREFIX: Final = "koord-schedules-"
_KUBE_SCHEDULER: Final = "kube-scheduler"


def lease_name(scheduler_name: str) -> str:
    return f"{_PREFIX}{scheduler_name}"


def is_announcement(lease: str) -> bool:
    """Whether a lease of this name announces a scheduler of koord's."""
    return lease.startswith(_PREFIX)


@dataclass(frozen=True, slots=True)
class SchedulerLease:
    """A scheduler name that had a scheduler when the lease was last renewed."""

    lease: str
    "namespace/name"
    holder: str
    age_s: float
    fresh: bool
    schedules: bool
    "Whether it is a scheduler's for sure: an announcement, or the election of kube-scheduler or koord-scheduler."
    beside: tuple[str, ...] = ()
    "Other schedulers that decide for the same name at the same time."


@dataclass(frozen=True, slots=True)
class Schedulers:
    """What the leases say, by scheduler name."""

    by_name: Mapping[str, SchedulerLease]

    @property
    def answered(self) -> tuple[str, ...]:
        return tuple(sorted(name for name, held in self.by_name.items() if held.fresh and held.schedules))

    def nobody(self, scheduler_name: str) -> str:
        """Why no scheduler answers to a name; empty if one does."""
        held = self.by_name.get(scheduler_name)
        if held is None:
            return f"no scheduler answers to the name {scheduler_name}"
        if held.fresh:
            return ""
        ended = (
            f"{held.holder} last renewed lease {held.lease} {held.age_s:.0f} s ago" if held.holder else "it was stopped"
        )
        return f"the scheduler that answered to the name {scheduler_name} does not run: {ended}"


def schedulers(leases: Iterable[Lease], now_s: float) -> Schedulers:
    """Reads the leases of kube-system and koordinator-system, and all announcements."""
    all_leases = list(leases)
    announcing = {lease.spec.holder_identity for lease in all_leases if _is_announcement(lease)}
    by_name: dict[str, SchedulerLease] = {}
    for lease in all_leases:
        if not _is_announcement(lease) and lease.spec.holder_identity in announcing:
            # The election of a scheduler that announces what it schedules for: its lease may have any name.
            continue
        name, held = _scheduler_name(lease), _held(lease, now_s)
        if name not in by_name or held.age_s < by_name[name].age_s:
            by_name[name] = held
    return Schedulers(by_name)


def _is_announcement(lease: Lease) -> bool:
    return ANNOUNCED in lease.metadata.labels and lease.metadata.name.startswith(_PREFIX)


def _scheduler_name(lease: Lease) -> str:
    meta = lease.metadata
    if _is_announcement(lease):
        return meta.name.removeprefix(_PREFIX)
    if (meta.namespace, meta.name) == (NAMESPACE_KUBE_SYSTEM, _KUBE_SCHEDULER):
        return str(SchedulerName.DEFAULT)
    return meta.name


def _held(lease: Lease, now_s: float) -> SchedulerLease:
    spec = lease.spec
    try:
        age_s = now_s - parse_timestamp(spec.renew_time or "")
    except TimestampError:
        age_s = float("inf")
    fresh = bool(spec.holder_identity) and age_s <= max(1, spec.lease_duration_seconds)
    schedules = _is_announcement(lease) or lease.metadata.name in (_KUBE_SCHEDULER, LEASE_SCHEDULER)
    others = lease.metadata.annotations.get(BESIDE, "") if fresh and _is_announcement(lease) else ""
    beside = tuple(sorted(filter(None, others.split(","))))
    return SchedulerLease(lease.metadata.key, spec.holder_identity, age_s, fresh, schedules, beside)
