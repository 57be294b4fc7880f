"""InterferenceAvoidance: keeps workloads apart that were seen to disturb each other, where there is a choice.

    score = 100 - min(100, sum of the weights of pairs whose other workload has pods on the node)

Pairs are InterferencePair objects, which the manager learns from agents and forgets with time. A pair counts both ways:
the culprit keeps off the victim's nodes, and the victim off the culprit's. It never rules a node out. Pods of
workloads without a pair are not looked at.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import lru_cache
from typing import Final

import numpy as np

from koord.api.kinds import INTERFERENCE_PAIRS
from koord.api.kubernetes.meta import OwnerReference
from koord.api.kubernetes.owners import TEMPLATE_HASH, owners
from koord.api.protocol.crd.interference_pair import InterferencePair, PairedWorkload
from koord.api.protocol.slowed_by import paired_of
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.explains import Explains
from koord.scheduler.framework.facet import KeepsGroups
from koord.scheduler.framework.judge import Judge
from koord.scheduler.framework.plugin import KeyedBy, Plugin, Taking
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.pods import PodRecord
from koord.scheduler.state.table import Array, Changes, Row
from koord.scheduler.state.watchers import Index

MOST_REMARKS: Final = 5

Partners = tuple[tuple[PairedWorkload, int], ...]
"""Workloads that a pod had better not share a node with, and how many points that costs; sorted."""


class Pairs(Index):
    """Which workloads are paired, and on which rows the pods of those are. One for a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.partners: dict[PairedWorkload, Partners] = {}
        self.version: dict[PairedWorkload, int] = {}
        "Of each paired workload, how often its pods have moved."
        self._pairs: dict[str, InterferencePair] = {}
        self._rows: dict[PairedWorkload, dict[Row, int]] = {}
        "Of each paired workload, how many pods it has on which rows."
        self._is_counted = True

    def put(self, pair: InterferencePair) -> None:
        if self._pairs.get(pair.metadata.name) != pair:
            self._pairs[pair.metadata.name] = pair
            self._changed()

    def remove(self, pair: InterferencePair) -> None:
        if self._pairs.pop(pair.metadata.name, None) is not None:
            self._changed()

    def _changed(self) -> None:
        by_workload: dict[PairedWorkload, dict[PairedWorkload, int]] = {}
        for pair in self._pairs.values():
            victim, culprit, weight = pair.spec.victim, pair.spec.culprit, pair.status.weight
            if weight > 0 and victim != culprit:
                for one, other in ((victim, culprit), (culprit, victim)):
                    others = by_workload.setdefault(one, {})
                    others[other] = max(others.get(other, 0), weight)
        self.partners = {workload: tuple(sorted(others.items(), key=str)) for workload, others in by_workload.items()}
        if self.partners.keys() != self._rows.keys():
            # Counted on the next read: pairs may come by the hundred.
            self._is_counted = False

    def rows(self, workload: PairedWorkload) -> dict[Row, int]:
        if not self._is_counted:
            self._count()
        return self._rows.get(workload, {})

    def _count(self) -> None:
        self._rows = {workload: {} for workload in self.partners}
        self._is_counted = True
        for workload in self._rows:
            self.version[workload] = self.version.get(workload, 0) + 1
        for row, pods in self.cluster.pods_on.items():
            for record in pods.values():
                self.pod_moved(record, row, 1)

    def pod_moved(self, record: PodRecord, row: Row, sign: int) -> None:
        if not self._rows or not self._is_counted or record.owner is None:
            return
        workload = _workload(record.owner, record.labels.get(TEMPLATE_HASH, ""), record.namespace)
        rows = None if workload is None else self._rows.get(workload)
        if workload is None or rows is None:
            return
        number = rows.get(row, 0) + sign
        if number > 0:
            rows[row] = number
        else:
            rows.pop(row, None)
        self.version[workload] = self.version.get(workload, 0) + 1


@lru_cache(maxsize=16384)
def _workload(owner: OwnerReference, template: str, namespace: str) -> PairedWorkload | None:
    return paired_of(owners(owner, {TEMPLATE_HASH: template}, namespace))


class InterferenceAvoidance(Plugin):
    name = "InterferenceAvoidance"

    _pairs: Pairs | None = None

    def attach(self, cluster: Cluster) -> None:
        self._pairs = cluster.index(Pairs)

    @property
    def pairs(self) -> Pairs:
        assert self._pairs is not None, "a plugin is attached to a cluster before it is told anything"
        return self._pairs

    def takes(self) -> Sequence[Taking]:
        return (Taking(INTERFERENCE_PAIRS, lambda pair: self.pairs.put(pair), lambda pair: self.pairs.remove(pair)),)

    def keyed_by(self, ask: Ask, cluster: Cluster) -> KeyedBy:
        return KeyedBy.LABELS

    def key(self, ask: Ask, cluster: Cluster) -> Hashable:
        return _partners(ask, cluster) or None

    def compile(self, ask: Ask, cluster: Cluster) -> Judge | None:
        partners = _partners(ask, cluster)
        return _Avoiding(partners, cluster) if partners else None


def _partners(ask: Ask, cluster: Cluster) -> Partners:
    partners = cluster.index(Pairs).partners
    if not partners or not ask.meta.owner_references:
        return ()
    meta = ask.meta
    owner = meta.controller
    workload = None if owner is None else _workload(owner, meta.labels.get(TEMPLATE_HASH, ""), meta.namespace)
    return () if workload is None else partners.get(workload, ())


class _Avoiding(Judge, Explains):
    def __init__(self, partners: Partners, cluster: Cluster) -> None:
        self._partners = partners
        self.facets = (_Penalties(partners, cluster),)

    def remarks(self) -> Sequence[str]:
        remarks = [
            f"InterferenceAvoidance: nodes with pods of {workload} lose {weight} points: the two disturb each other"
            for workload, weight in sorted(self._partners, key=lambda item: -item[1])
        ]
        more = len(remarks) - MOST_REMARKS
        return [*remarks[:MOST_REMARKS], f"InterferenceAvoidance: and {more} more"] if more > 0 else remarks


class _Penalties(KeepsGroups):
    """Rows grouped by how many points they lose; group 0 loses none."""

    normalised = False

    def __init__(self, partners: Partners, cluster: Cluster) -> None:
        self._partners, self._cluster, self._index = partners, cluster, cluster.index(Pairs)
        self._seen: tuple[int, ...] | None = None
        self._groups = np.zeros(0, np.int64)
        self._points: list[int] = [0]

    def refresh(self, changed: Changes | None) -> bool:
        by_partner = [(self._index.rows(workload), weight) for workload, weight in self._partners]
        seen = (self._cluster.table.capacity, *(self._index.version.get(workload, 0) for workload, _ in self._partners))
        if changed is not None and seen == self._seen:
            return False
        self._seen = seen
        lost: dict[Row, int] = {}
        for rows, weight in by_partner:
            for row in rows:
                lost[row] = min(lost.get(row, 0) + weight, 100)
        self._points = [0, *sorted(set(lost.values()))]
        number = {points: group for group, points in enumerate(self._points)}
        self._groups = np.zeros(self._cluster.table.capacity, np.int64)
        for row, points in lost.items():
            self._groups[row] = number[points]
        return True

    @property
    def size(self) -> int:
        return len(self._points)

    def table(self, candidates: Array | None) -> Array:
        return 100 - np.array(self._points, np.int64)
