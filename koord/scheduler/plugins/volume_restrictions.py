"""VolumeRestrictions: disks that only one pod may use, and claims that only one pod in the cluster may use.

A disk that is named in pods themselves (not by claims) cannot be on a node twice, unless all who use it only read.
A claim with ReadWriteOncePod is in use or not, whatever the node.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

import numpy as np

from koord.api.kubernetes.pod import Volume
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.cells import Cells, Numbers
from koord.scheduler.framework.change import Change, without_pods
from koord.scheduler.framework.judge import Judge, Refused
from koord.scheduler.framework.plugin import Plugin
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.pods import PodRecord, disks_of
from koord.scheduler.state.table import Reason, Row
from koord.scheduler.state.watchers import Index

DISK_TAKEN: Final = 1
CLAIM_IN_USE: Final = 2
_REASONS: Final = {
    DISK_TAKEN: "node(s) had no available disk",
    CLAIM_IN_USE: "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
    "already in-use by another pod",
}


class VolumeUsers(Index):
    """How many pods use a claim, and which disks are in use on which rows."""

    special = True

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.of_claim: dict[str, int] = {}
        self.disks_on: dict[Row, dict[Volume, int]] = {}
        for record, row in cluster.pods.values():
            self.pod_moved(record, row, +1)

    def pod_moved(self, record: PodRecord, row: Row, sign: int) -> None:
        for name in record.claims:
            _count(self.of_claim, f"{record.namespace}/{name}", sign)
        if record.disks:
            on_row = self.disks_on.setdefault(row, {})
            for disk in record.disks:
                _count(on_row, disk, sign)
            if not on_row:
                del self.disks_on[row]


def _count(counts: dict[str, int] | dict[Volume, int], key: str | Volume, sign: int) -> None:
    left = counts.get(key, 0) + sign  # type: ignore[arg-type]  # each caller's keys are of its own map's type
    if left:
        counts[key] = left  # type: ignore[index]
    else:
        del counts[key]  # type: ignore[arg-type]


class VolumeRestrictions(Plugin):
    name = "VolumeRestrictions"
    wakes_on = Reason.NODE | Reason.FREED | Reason.STORAGE

    def attach(self, cluster: Cluster) -> None:
        cluster.index(VolumeUsers)

    def keyed_by_spec(self, ask: Ask) -> bool:
        return not ask.spec.volumes

    def key(self, ask: Ask, cluster: Cluster) -> Hashable:
        if not ask.spec.volumes:
            return None
        users, claims = cluster.index(VolumeUsers).of_claim, cluster.storage.claims
        in_use = False
        for name in ask.claims:
            claim = claims.get(f"{ask.meta.namespace}/{name}")
            if claim is None:
                return f'persistentvolumeclaim "{name}" not found'
            in_use |= "ReadWriteOncePod" in claim.spec.access_modes and claim.metadata.key in users
        disks = disks_of(ask.pod)
        return (disks, in_use) if disks or in_use else None

    def meets(self, ask: Ask, promised: PodRecord) -> bool:
        return bool(ask.spec.volumes and (promised.claims or promised.own_claims or promised.disks))

    def compile(self, ask: Ask, cluster: Cluster) -> Judge | None:
        match self.key(ask, cluster):
            case str(reason):
                return Refused(reason)
            case (tuple(disks), bool(in_use)):
                return _Restricted(disks, in_use, cluster)
        return None


class _Restricted(Judge):
    filters_on = Reason.NODE | Reason.PODS

    def __init__(self, disks: tuple[Volume, ...], in_use: bool, cluster: Cluster) -> None:
        self._disks, self._users = disks, cluster.index(VolumeUsers)
        self._cluster, self._table = cluster, cluster.table
        self._otherwise = CLAIM_IN_USE if in_use else 0

    def feasible(self, cells: Cells) -> Numbers:
        if isinstance(cells.rows, int):
            return DISK_TAKEN if self._conflicts(cells.rows) else self._otherwise
        found = np.full(self._table.capacity, self._otherwise, np.int64)
        if self._disks:
            found[[row for row in self._users.disks_on if self._conflicts(row)]] = DISK_TAKEN
        return found[cells.rows]

    def _conflicts(self, row: Row) -> bool:
        return any(conflict(mine, its) for its in self._users.disks_on.get(row, ()) for mine in self._disks)

    def reasons(self, mask: int) -> list[str]:
        return [_REASONS[mask]]

    def mend(self, ask: Ask, row: Row) -> list[Change]:
        """The pods that use what only one may use, gone."""
        namespace, pods = ask.meta.namespace, self._cluster.pods
        if self._conflicts(row):
            on_row = self._cluster.pods_on[row].items()
            users = [key for key, pod in on_row if any(conflict(a, b) for a in pod.disks for b in self._disks)]
            return [without_pods(users, "to free the disk")]
        claims = self._cluster.storage.claims
        alone = {
            name
            for name in ask.claims
            if (claim := claims.get(f"{namespace}/{name}")) and "ReadWriteOncePod" in claim.spec.access_modes
        }
        users = [key for key, (pod, _) in pods.items() if pod.namespace == namespace and alone & {*pod.claims}]
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
