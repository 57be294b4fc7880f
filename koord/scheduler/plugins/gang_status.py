"""What the status of a PodGroup says, as a function of its pods: exactly the truth, once all has been heard.

Pending          there are no pods, or none of fewer than the minimum has had a node
PreScheduling    there are enough, or one has a node; where its pods have an owner, `occupiedBy` is that
Scheduling       fewer than the minimum have a node; `scheduleStartTime` is when that began
Scheduled        enough have one
Running          as many run, or have succeeded
Finished         as many have succeeded: this is the end
Failed           some have failed, and as many as the minimum run or have ended: this is the end
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from koord.api.kinds import POD_GROUPS
from koord.api.kubernetes.words import PodPhase
from koord.api.protocol.crd.pod_group import PodGroup, PodGroupPhase, PodGroupStatus
from koord.api.text.timestamp import from_seconds
from koord.scheduler.framework.pending_statuses import PendingStatuses
from koord.scheduler.framework.writes import Patch
from koord.scheduler.plugins.gangs import Gang, Gangs, Member
from koord.scheduler.state.cluster import Cluster

_ENDED: Final = (PodGroupPhase.FINISHED, PodGroupPhase.FAILED)
WRITTEN_EVERY_S: Final = 0.5


class PodGroupStatuses:
    """Writes the status of PodGroups."""

    def __init__(self, gangs: Gangs, cluster: Cluster) -> None:
        self._gangs, self._cluster = gangs, cluster
        self._pending: PendingStatuses[PodGroupStatus] = PendingStatuses()
        "Statuses that were written and not seen yet, by gang."
        self._written_s: dict[str, float] = {}
        "By gang, when its PodGroup was last written."

    def writes(self) -> Iterator[Patch]:
        """The statuses that differ from what PodGroups say. The first change is written at once, and one whose pods get
        their nodes just now twice a second: otherwise a large gang would be written at each of its pods."""
        gangs, cluster = self._gangs, self._cluster
        touched, gangs.touched = gangs.touched, set()
        touched.update(self._pending.take_lost(cluster.now_s))
        for id_ in sorted(touched):
            gang = gangs.all.get(id_)
            group = None if gang is None else gang.pod_group
            if gang is None or group is None:
                self._pending.heard(id_)
                self._written_s.pop(id_, None)
                continue
            uid = group.metadata.uid
            if self._pending.last(id_, uid) == group.status:
                self._pending.heard(id_)
            again_s = self._written_s.get(id_, -math.inf) + WRITTEN_EVERY_S
            if cluster.now_s < again_s:
                gangs.touched.add(id_)
                cluster.ask_again(again_s)
                continue
            wanted = None
            with cluster.shield.about("keep its status", POD_GROUPS, group.metadata):
                wanted = status_of(gang, cluster.now_s)
            last = self._pending.last(id_, uid) or group.status
            if wanted is not None and wanted != last:
                self._pending.sent(id_, uid, wanted, cluster.now_s)
                self._written_s[id_] = cluster.now_s
                yield status_write(group, wanted)
        if (lost_s := self._pending.next_s()) is not None:
            cluster.ask_again(lost_s)


def status_of(gang: Gang, now_s: float) -> PodGroupStatus | None:
    """What the gang's PodGroup should say; None where there is none."""
    group = gang.pod_group
    if group is None:
        return None
    status, members = group.status, list(gang.members.values())
    # Each step leads from one phase to the next: at rest, all of them have been taken.
    for _ in PodGroupPhase:
        after = _step(status, group, members, now_s)
        if after == status:
            break
        status = after
    return status


def status_write(group: PodGroup, wanted: PodGroupStatus) -> Patch:
    """What makes a PodGroup say it. Counts are written also where they are 0."""
    meta = group.metadata
    status = {
        "phase": str(wanted.phase),
        "occupiedBy": wanted.occupied_by,
        "scheduled": wanted.scheduled,
        "running": wanted.running,
        "succeeded": wanted.succeeded,
        "failed": wanted.failed,
        "scheduleStartTime": wanted.schedule_start_time,
    }
    body = {"metadata": {"uid": meta.uid}, "status": status}
    # The definition of this kind has no subresource for it.
    return Patch(POD_GROUPS, meta.name, body, meta.namespace)


def _step(status: PodGroupStatus, group: PodGroup, members: list[Member], now_s: float) -> PodGroupStatus:
    # Where no minimum is said, one pod is the least that can run, fail or succeed.
    least, phase = max(1, group.spec.min_member), status.phase
    if phase in _ENDED:
        return status
    if phase == PodGroupPhase.NEW:
        return replace(status, phase=PodGroupPhase.PENDING)
    if phase == PodGroupPhase.PENDING:
        if least <= len(members) or any(member.node for member in members):
            return replace(status, phase=PodGroupPhase.PRE_SCHEDULING, occupied_by=_owners(members))
        return _counted(status, members)
    if not members:
        return replace(_counted(status, members), phase=PodGroupPhase.PENDING)
    status = _counted(status, members)
    running, succeeded, failed = status.running, status.succeeded, status.failed
    if status.scheduled < least:
        started = status.schedule_start_time or from_seconds(now_s)
        status, phase = replace(status, schedule_start_time=started), PodGroupPhase.SCHEDULING
    else:
        phase = PodGroupPhase.SCHEDULED
        if succeeded + running >= least:
            phase = PodGroupPhase.RUNNING
    if failed and failed + running + succeeded >= least:
        phase = PodGroupPhase.FAILED
    if succeeded >= least:
        phase = PodGroupPhase.FINISHED
    return replace(status, phase=phase)


def _counted(status: PodGroupStatus, members: list[Member]) -> PodGroupStatus:
    phases = Counter(member.phase for member in members)
    return replace(
        status,
        scheduled=sum(1 for member in members if member.node),
        running=phases[PodPhase.RUNNING],
        succeeded=phases[PodPhase.SUCCEEDED],
        failed=phases[PodPhase.FAILED],
    )


def _owners(members: list[Member]) -> str:
    """Those of one pod: a gang is made by one workload."""
    first = min(members, key=lambda member: member.key)
    return ",".join(sorted(first.owners))
