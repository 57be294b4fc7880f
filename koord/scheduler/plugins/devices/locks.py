"""Locks on nodes for vendors' device plugins that cannot tell apart two pods that come at the same time.

A node with one of these plugins gets one pod at a time: before its binding, the pod's name and the time are written on
the node, and the vendor's plugin removes them when the pod has its devices. A lock holds for five minutes at most, and
only while its pod is on that node. A lock that was just written is remembered here until it is seen on the node.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from koord.api.protocol.annotations.device import CAMBRICON_DSMLU_LOCK, HAMI_LOCK, NodeLock
from koord.api.protocol.annotations.value import Annotation
from koord.api.protocol.names import LABEL_GPU_VENDOR
from koord.scheduler.plugins.devices.inventory import Machine
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.table import Reason, Row
from koord.scheduler.state.watchers import Index

LOCKS: Final[Mapping[str, Annotation[NodeLock, None]]] = {"cambricon": CAMBRICON_DSMLU_LOCK, "metax": HAMI_LOCK}
"""By vendor, as the Device object's label has it."""
HOLDS_S: Final = 300.0
LOCKED: Final = "node(s) locked for another pod, until its device plugin has given it devices"


def lock_of(machine: Machine) -> Annotation[NodeLock, None] | None:
    """The lock that the device plugin of a node's GPUs takes; None: it takes none."""
    return LOCKS.get(machine.labels.get(LABEL_GPU_VENDOR, ""))


class Locks(Index):
    """All locks of a cluster's nodes."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._taken: dict[Row, NodeLock] = {}
        "Those that were written, and have not been seen on their nodes."
        self._told: dict[Row, NodeLock] = {}
        "As nodes have them."
        for row in cluster.nodes:
            self.node_put(row)

    def holder(self, row: Row, besides: str) -> str | None:
        """The pod that a node is locked for; None: no other than `besides`."""
        now_s, pods = self.cluster.now_s, self.cluster.pods
        for lock in (self._told.get(row), self._taken.get(row)):
            if lock is not None and lock.pod != besides and now_s - lock.at_s <= HOLDS_S:
                holder = pods.get(lock.pod)
                if holder is not None and holder[1] == row:
                    return lock.pod
        return None

    def take(self, row: Row, lock: NodeLock) -> None:
        """It is being written."""
        self._taken[row] = lock

    def node_put(self, row: Row) -> None:
        """A node came or has changed."""
        meta = self.cluster.nodes[row].metadata
        current = next((lock for annotation in LOCKS.values() if (lock := annotation.read(meta)) is not None), None)
        if current == self._told.get(row):
            return
        # Pods that were rejected because of the lock may go there.
        self.cluster.table.touch(row, int(Reason.EXACT))
        if current is None:
            del self._told[row]
            return
        self._told[row] = current
        taken = self._taken.get(row)
        if taken is not None and taken.pod == current.pod:
            del self._taken[row]

    def amounts_put(self, row: Row, changed: frozenset[str]) -> None:
        """Annotations alone say that a node is locked."""

    def node_removed(self, row: Row) -> None:
        self._told.pop(row, None)
        self._taken.pop(row, None)

    def end_old(self) -> None:
        """Have nodes looked at again whose locks hold no more."""
        now_s = self.cluster.now_s
        for locks in (self._told, self._taken):
            for row in [row for row, lock in locks.items() if now_s - lock.at_s > HOLDS_S]:
                del locks[row]
                self.cluster.table.touch(row, int(Reason.EXACT))
