"""NodeVolumeLimits: a node's drivers can attach a limited number of volumes there, as its CSINode says.

A volume that several pods of the node use is attached once. One that is still to be made counts for its claim.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Set
from functools import partial
from typing import ClassVar

import numpy as np
from msgspec.structs import replace

from koord.api.kubernetes.pod import Pod, PodSpec
from koord.api.kubernetes.storage import CSINode
from koord.scheduler.core.queue import ClusterEvent
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.cells import Cells, Numbers
from koord.scheduler.framework.change import Change, without_pods
from koord.scheduler.framework.judge import Judge
from koord.scheduler.framework.nominating import Nominating
from koord.scheduler.framework.plugin import KeyedBy, Plugin
from koord.scheduler.framework.queueing import Queueing
from koord.scheduler.framework.stable import Version
from koord.scheduler.plugins.volume_use import is_said_by_spec, noted_use, volume_use_of
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.notes import Notes
from koord.scheduler.state.pods import PodRecord, brings_claims
from koord.scheduler.state.storage import Disk
from koord.scheduler.state.table import Reason, Row


class ClaimUses:
    """How many pods use a claim, by claim and row."""

    def __init__(self) -> None:
        self.rows_of: dict[str, dict[Row, int]] = {}

    def pod_moved(self, record: PodRecord, row: Row, sign: int) -> None:
        for claim in noted_use(record, Attached.name).of_claims(record.namespace):
            self.count(claim, row, sign)

    def count(self, claim: str, row: Row, sign: int) -> int:
        """One more pod, or one less, uses a claim on a row: how many do then."""
        rows = self.rows_of.setdefault(claim, {})
        left = rows[row] = rows.get(row, 0) + sign
        if not left:
            del rows[row]
            if not rows:
                del self.rows_of[claim]
        return left


class Attached(Notes):
    """The volumes attached to each row, by driver. A note is what a pod uses."""

    name: ClassVar[str] = "NodeVolumeLimits"
    changes_views: ClassVar[bool] = False

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._storage = cluster.storage
        self._storage.take_changed_claims()
        self._uses = ClaimUses()
        self._disk_of: dict[str, Disk | None] = {}
        self._held: dict[str, dict[Row, dict[str, int]]] = {}
        "By driver, row and volume, how many claims lead to it."
        self._rows_with: dict[Disk, int] = {}

    def by_spec(self, spec: PodSpec) -> bool:
        return is_said_by_spec(spec)

    def of(self, pod: Pod) -> object | None:
        return volume_use_of(pod)

    def moved(self, note: object, record: PodRecord, row: Row, sign: int) -> None:
        for claim in noted_use(record, self.name).of_claims(record.namespace):
            left = self._uses.count(claim, row, sign)
            if left == sign > 0:
                if claim not in self._disk_of:
                    self._disk_of[claim] = self._storage.disk_of(claim)
                self._hold(self._disk_of[claim], row, +1)
            elif not left:
                self._hold(self._disk_of[claim], row, -1)
                if claim not in self._uses.rows_of:
                    del self._disk_of[claim]

    def volumes(self, driver: str, row: Row, hidden: ClaimUses | None) -> Set[str]:
        """The volumes of a driver on a row, without those that only hidden pods use."""
        held = self._held.get(driver, {}).get(row, {})
        if hidden is None or not held:
            return held.keys()
        left = dict(held)
        for claim, rows in hidden.rows_of.items():
            if row in rows and rows[row] == self._uses.rows_of[claim][row]:
                disk = self._disk_of[claim]
                if disk is not None and disk[0] == driver:
                    left[disk[1]] -= 1
        return {volume for volume, claims in left.items() if claims}

    def is_somewhere(self, disk: Disk) -> bool:
        return disk in self._rows_with

    def catch_up(self) -> None:
        """Claims may lead to other volumes than before: rows that use them are judged again."""
        for claim in self._storage.take_changed_claims():
            if claim not in self._uses.rows_of:
                continue
            old, new = self._disk_of[claim], self._storage.disk_of(claim)
            if old == new:
                continue
            self._disk_of[claim] = new
            for row in self._uses.rows_of[claim]:
                self._hold(old, row, -1)
                self._hold(new, row, +1)
                self.cluster.table.touch(row, int(Reason.PODS))

    def _hold(self, disk: Disk | None, row: Row, sign: int) -> None:
        if disk is None:
            return
        driver, volume = disk
        on_row = self._held.setdefault(driver, {}).setdefault(row, {})
        before = on_row.get(volume, 0)
        on_row[volume] = before + sign
        if not before:
            self._rows_with[disk] = self._rows_with.get(disk, 0) + 1
        elif not on_row[volume]:
            del on_row[volume]
            if not on_row:
                del self._held[driver][row]
            self._rows_with[disk] -= 1
            if not self._rows_with[disk]:
                del self._rows_with[disk]


def _meets(ask: Ask, promised: PodRecord) -> bool:
    use = noted_use(promised, NodeVolumeLimits.name)
    return bool(ask.spec.volumes and (use.claims or use.own_claims))


def _helps(ask: Ask, event: ClusterEvent, cluster: Cluster) -> bool:
    """A pod that came helps by what it brought along: its volumes are attached already, for others as well."""
    came = event.reasons & Reason.PODS and not event.reasons & (NodeVolumeLimits.wakes_on & ~Reason.PODS)
    return not came or not isinstance(event.subject, Pod) or brings_claims(event.subject)


class NodeVolumeLimits(Plugin):
    name = "NodeVolumeLimits"
    notes = Attached
    wakes_on = Reason.NODE | Reason.PODS | Reason.FREED | Reason.STORAGE
    queueing = Queueing(helps=_helps)
    nominating = Nominating(meets=_meets)

    def keyed_by(self, ask: Ask, cluster: Cluster) -> KeyedBy:
        return KeyedBy.POD if ask.spec.volumes else KeyedBy.SPEC

    def key(self, ask: Ask, cluster: Cluster) -> Hashable:
        if not ask.spec.volumes:
            return None
        attached, storage = cluster.notes(Attached), cluster.storage
        attached.catch_up()
        disks = {storage.disk_of(f"{ask.meta.namespace}/{name}") for name in (*ask.claims, *ask.own_claims)}
        limited = sorted(disk for disk in disks if disk is not None and disk[0] in storage.limits)
        if not limited:
            return None
        # Of volumes that are on no node yet only the number matters, so that pods which bring their own are alike.
        new = Counter(driver for driver, volume in limited if not attached.is_somewhere((driver, volume)))
        present = tuple(disk for disk in limited if attached.is_somewhere(disk))
        return tuple(sorted(new.items())), present, Version(storage.limits_version)

    def compile(self, ask: Ask, cluster: Cluster) -> Judge | None:
        hidden = None if ask.view is None else ask.view.keep(ClaimUses)
        match self.key(ask, cluster):
            case (tuple(new), tuple(present), int()):
                return _Attachable(dict(new), present, cluster, hidden)
        return None


class _Attachable(Judge):
    filters_on = Reason.NODE | Reason.PODS
    eased = True

    def __init__(
        self, new: dict[str, int], present: tuple[Disk, ...], cluster: Cluster, hidden: ClaimUses | None
    ) -> None:
        self._cluster, self._attached, self._new, self._hidden = cluster, cluster.notes(Attached), new, hidden
        self._known: dict[str, set[str]] = {driver: set() for driver in new}
        for driver, volume in present:
            self._known.setdefault(driver, set()).add(volume)

    def feasible(self, cells: Cells) -> Numbers:
        table, limits = self._cluster.table, self._cluster.storage.limits
        if isinstance(cells.rows, int):
            name = table.names[cells.rows]
            return int(any(self._exceeds(d, cells.rows, limits[d][name]) for d in self._known if name in limits[d]))
        feasible = np.zeros(table.capacity, np.bool_)
        for driver in self._known:
            for name, limit in limits[driver].items():
                row = table.row_of.get(name)
                if row is not None and self._exceeds(driver, row, limit):
                    feasible[row] = True
        return feasible[cells.rows]

    def _exceeds(self, driver: str, row: Row, limit: int) -> bool:
        return self._excess(driver, row, limit) > 0

    def _excess(self, driver: str, row: Row, limit: int) -> int:
        """How many volumes too many there would be."""
        attached = self._attached.volumes(driver, row, self._hidden)
        more = self._new.get(driver, 0) + len(self._known[driver] - attached)
        return len(attached) + more - limit if more > 0 else 0

    def fixes(self, ask: Ask, row: Row) -> list[Change]:
        """For the first driver that has no room: a higher limit, or fewer pods with volumes of it."""
        storage, name = self._cluster.storage, self._cluster.table.names[row]
        for driver in self._known:
            limit = storage.limits[driver].get(name)
            excess = 0 if limit is None else self._excess(driver, row, limit)
            if limit is None or excess <= 0:
                continue
            volumes = f"{excess} more volume{'s' if excess > 1 else ''} of {driver}"
            raised = partial(storage.tried, _raised(storage.csi_nodes[name], driver, limit + excess))
            changes = [Change(f"room for {volumes} there", trial=raised, whose="node", size=3.0)]
            users = self._users(driver, row, excess)
            return [*changes, without_pods(users, f"to make room for {volumes}")] if users else changes
        return []

    def _users(self, driver: str, row: Row, number: int) -> list[str]:
        """As few pods as can be, and the least important, with that many volumes of a driver that no other pod uses."""
        storage, used_by, disks = self._cluster.storage, Counter[Disk](), dict[str, set[Disk]]()
        records = self._cluster.pods_on[row]
        there = list(records.values())
        for record in there if self.view is None else self.view.visible(there, row):
            key, claims = record.key, noted_use(record, Attached.name).of_claims(record.namespace)
            disks_of_claims = {
                disk for claim in claims if (disk := storage.disk_of(claim)) is not None and disk[0] == driver
            }
            if disks_of_claims:
                disks[key] = disks_of_claims
                used_by.update(disks_of_claims)
        alone = {
            key: sum(1 for disk in disks_of_claims if used_by[disk] == 1) for key, disks_of_claims in disks.items()
        }
        chosen, freed = [], 0
        for key in sorted(alone, key=lambda key: (-min(alone[key], number), records[key].priority, key)):
            if freed < number and alone[key]:
                chosen.append(key)
                freed += alone[key]
        return chosen if freed >= number else []

    def reasons(self, mask: int) -> list[str]:
        return ["node(s) exceed max volume count"]


def _raised(node: CSINode, driver: str, limit: int) -> CSINode:
    """The node with another limit of one driver."""
    drivers = tuple(
        replace(node_driver, allocatable=replace(node_driver.allocatable, count=limit))
        if node_driver.name == driver and node_driver.allocatable is not None
        else node_driver
        for node_driver in node.spec.drivers
    )
    return replace(node, spec=replace(node.spec, drivers=drivers))
