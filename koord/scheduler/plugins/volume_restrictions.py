"""VolumeRestrictions: disks that only one pod may use, and claims that only one pod in the cluster may use.

A disk that is named in pods themselves (not by claims) cannot be on a node twice, unless all who use it only read.
A claim with ReadWriteOncePod is in use or not, whatever the node.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import ClassVar, Final, TypeVar

import numpy as np

from koord.api.kubernetes.pod import Pod, PodSpec, Volume
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.cells import Cells, Numbers
from koord.scheduler.framework.change import Change, without_pods
from koord.scheduler.framework.judge import Judge, Refused
from koord.scheduler.framework.nominating import Nominating
from koord.scheduler.framework.plugin import KeyedBy, Plugin
from koord.scheduler.plugins.volume_use import disks_of, is_said_by_spec, noted_use, volume_use_of
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.notes import Notes
from koord.scheduler.state.pods import PodRecord
from koord.scheduler.state.table import Reason, Row

DISK_TAKEN: Final = 1
CLAIM_IN_USE: Final = 2
_REASONS: Final = {
    DISK_TAKEN: "node(s) had no available disk",
    CLAIM_IN_USE: "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
    "already in-use by another pod",
}


K = TypeVar("K", bound=Hashable)


class Users:
    """How many pods use a claim, and which disks are in use on which rows."""

    def __init__(self) -> None:
        self.of_claim: dict[str, int] = {}
        self.disks_on: dict[Row, dict[Volume, int]] = {}

    def pod_moved(self, record: PodRecord, row: Row, sign: int) -> None:
        use = noted_use(record, VolumeUsers.name)
        for name in use.claims:
            _count(self.of_claim, f"{record.namespace}/{name}", sign)
        if use.disks:
            on_row = self.disks_on.setdefault(row, {})
            for disk in use.disks:
                _count(on_row, disk, sign)
            if not on_row:
                del self.disks_on[row]


class VolumeUsers(Notes):
    """The volumes of all pods. A note is what one of them uses."""

    name: ClassVar[str] = "VolumeRestrictions"
    changes_views: ClassVar[bool] = False

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.users = Users()

    def by_spec(self, spec: PodSpec) -> bool:
        return is_said_by_spec(spec)

    def of(self, pod: Pod) -> object | None:
        return volume_use_of(pod)

    def moved(self, note: object, record: PodRecord, row: Row, sign: int) -> None:
        self.users.pod_moved(record, row, sign)


def _count(counts: dict[K, int], key: K, sign: int) -> None:
    left = counts.get(key, 0) + sign
    if left:
        counts[key] = left
    else:
        del counts[key]


def _meets(ask: Ask, promised: PodRecord) -> bool:
    return bool(ask.spec.volumes and any(noted_use(promised, VolumeRestrictions.name)))


class VolumeRestrictions(Plugin):
    name = "VolumeRestrictions"
    notes = VolumeUsers
    wakes_on = Reason.NODE | Reason.FREED | Reason.STORAGE
    nominating = Nominating(meets=_meets)

    def keyed_by(self, ask: Ask, cluster: Cluster) -> KeyedBy:
        return KeyedBy.POD if ask.spec.volumes else KeyedBy.SPEC

    def key(self, ask: Ask, cluster: Cluster) -> Hashable:
        if not ask.spec.volumes:
            return None
        claims = cluster.storage.claims
        alone = []
        for name in ask.claims:
            claim = claims.get(f"{ask.meta.namespace}/{name}")
            if claim is None:
                return f'persistentvolumeclaim "{name}" not found'
            if "ReadWriteOncePod" in claim.spec.access_modes:
                alone.append((claim.metadata.key, cluster.notes(VolumeUsers).users.of_claim.get(claim.metadata.key, 0)))
        disks = disks_of(ask.pod)
        used = tuple(disk_use for disk_use in alone if disk_use[1])
        return (disks, used) if disks or used else None

    def compile(self, ask: Ask, cluster: Cluster) -> Judge | None:
        hidden = None if ask.view is None else ask.view.keep(Users)
        match self.key(ask, cluster):
            case str(reason):
                return Refused(reason)
            case (tuple(disks), tuple(used)):
                return _Restricted(disks, tuple(claim for claim, _ in used), cluster, hidden)
        return None


class _Restricted(Judge):
    filters_on = Reason.NODE | Reason.PODS

    def __init__(
        self, disks: tuple[Volume, ...], alone: tuple[str, ...], cluster: Cluster, hidden: Users | None
    ) -> None:
        self._disks, self._alone = disks, alone
        self._users, self._hidden = cluster.notes(VolumeUsers).users, hidden
        self._cluster, self._table = cluster, cluster.table

    def feasible(self, cells: Cells) -> Numbers:
        otherwise = CLAIM_IN_USE if any(map(self._is_used, self._alone)) else 0
        if isinstance(cells.rows, int):
            return DISK_TAKEN if self._conflicts(cells.rows) else otherwise
        verdicts = np.full(self._table.capacity, otherwise, np.int64)
        if self._disks:
            verdicts[[row for row in self._users.disks_on if self._conflicts(row)]] = DISK_TAKEN
        return verdicts[cells.rows]

    def _is_used(self, claim: str) -> bool:
        """By a pod that is not hidden."""
        hidden = 0 if self._hidden is None else self._hidden.of_claim.get(claim, 0)
        return self._users.of_claim.get(claim, 0) > hidden

    def _conflicts(self, row: Row) -> bool:
        hidden = {} if self._hidden is None else self._hidden.disks_on.get(row, {})
        on_row = self._users.disks_on.get(row, {})
        return any(
            conflict(mine, its) for its, uses in on_row.items() if uses > hidden.get(its, 0) for mine in self._disks
        )

    def _seen(self, row: Row) -> list[PodRecord]:
        there = list(self._cluster.pods_on[row].values())
        return there if self.view is None else self.view.visible(there, row)

    def reasons(self, mask: int) -> list[str]:
        return [_REASONS[mask]]

    def fixes(self, ask: Ask, row: Row) -> list[Change]:
        """The pods that use what only one may use, gone."""
        namespace, pods = ask.meta.namespace, self._cluster.pods
        if self._conflicts(row):
            users = [
                record.key
                for record in self._seen(row)
                if any(conflict(a, b) for a in noted_use(record, VolumeUsers.name).disks for b in self._disks)
            ]
            return [without_pods(users, "to free the disk")]
        claims = self._cluster.storage.claims
        alone = {
            name
            for name in ask.claims
            if (claim := claims.get(f"{namespace}/{name}")) and "ReadWriteOncePod" in claim.spec.access_modes
        }
        users = [
            key
            for key, (pod, _) in pods.items()
            if pod.namespace == namespace and alone & {*noted_use(pod, VolumeUsers.name).claims}
        ]
        return [without_pods(users, "to free the claim")] if users else []


def conflict(a: Volume, b: Volume) -> bool:
    """Whether two volumes are one disk that the pods cannot both use on one node."""
    if a.gce_persistent_disk and b.gce_persistent_disk:
        gce, other_gce = a.gce_persistent_disk, b.gce_persistent_disk
        return gce.pd_name == other_gce.pd_name and not (gce.read_only and other_gce.read_only)
    if a.aws_elastic_block_store and b.aws_elastic_block_store:
        return a.aws_elastic_block_store.volume_id == b.aws_elastic_block_store.volume_id
    if a.iscsi and b.iscsi:
        return a.iscsi.iqn == b.iscsi.iqn and not (a.iscsi.read_only and b.iscsi.read_only)
    if a.rbd and b.rbd:
        same = (a.rbd.pool, a.rbd.image) == (b.rbd.pool, b.rbd.image)
        shared = same and not set(a.rbd.monitors).isdisjoint(b.rbd.monitors)
        return shared and not (a.rbd.read_only and b.rbd.read_only)
    return False
