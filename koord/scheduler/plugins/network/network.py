"""The network as the scheduler knows it: its tree, and pods by what they want to be near to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, Final

import msgspec
import numpy as np

from koord.api.kinds import CLUSTER_NETWORK_TOPOLOGIES
from koord.api.kubernetes.pod import Pod
from koord.api.protocol.annotations.gang import NETWORK_TOPOLOGY_SELECTOR
from koord.api.protocol.crd.network_topology import ClusterNetworkTopology
from koord.scheduler.framework.writes import Patch
from koord.scheduler.plugins.network.tree import BadLayers, Tree, status_of, tree_of
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.notes import Notes
from koord.scheduler.state.pods import PodRecord
from koord.scheduler.state.table import Array, Reason, Row

NAME: Final = "default"
"""Of the only object that counts."""
NO_OBJECT: Final = f"there is no ClusterNetworkTopology {NAME}, which says how the network is laid out"
_CHANGES_IT: Final = int(Reason.NODE | Reason.LABELS)


class Network(Notes):
    """A note is what a pod says that others may want to be near to."""

    name: ClassVar[str] = "Network"
    heeds: ClassVar[frozenset[str]] = frozenset({NETWORK_TOPOLOGY_SELECTOR.key})

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.near: dict[str, dict[Row, int]] = {}
        "By selector, how many of its pods each row has."
        self.moves = 0
        "Counts pods that came into it, or left it."
        self._layers: ClusterNetworkTopology | None = None
        self._tree: Tree | str = NO_OBJECT
        self._rows: Array = np.zeros(0, np.intp)
        self._version = -1
        self._told: tuple[str, object] | None = None

    def of(self, pod: Pod) -> object | None:
        return NETWORK_TOPOLOGY_SELECTOR.read(pod.metadata) or None

    def by_name(self, pod: Pod) -> bool:
        return False

    def moved(self, note: object, record: PodRecord, row: Row, sign: int) -> None:
        self.moves += 1
        there = self.near.setdefault(str(note), {})
        there[row] = there.get(row, 0) + sign
        if not there[row]:
            del there[row]
            if not there:
                del self.near[str(note)]

    def put(self, layers: ClusterNetworkTopology) -> None:
        if layers.metadata.name == NAME:
            self._layers, self._version = layers, -1

    def remove(self, layers: ClusterNetworkTopology) -> None:
        if layers.metadata.name == NAME:
            self._layers, self._version = None, -1

    def tree(self) -> Tree | str:
        """As nodes are now; or why there is none."""
        table = self.cluster.table
        reasons = None if self._version < 0 else table.reasons(self._version)
        if reasons is None or reasons & _CHANGES_IT:
            self._tree = self._built()
            nodes = () if isinstance(self._tree, str) else self._tree.levels[-1].names
            self._rows = np.array([table.row_of[name] for name in nodes], np.intp)
        self._version = table.read()
        return self._tree

    @property
    def rows(self) -> Array:
        """Of the nodes of the tree that was last asked for, in their order there."""
        return self._rows

    def near_to(self, selector: str) -> Array:
        """How many pods of a selector each of those nodes has."""
        there = np.zeros(self.cluster.table.capacity, np.int64)
        if near := self.near.get(selector):
            there[list(near)] = list(near.values())
        return there[self._rows]

    def _built(self) -> Tree | str:
        if self._layers is None:
            return NO_OBJECT
        nodes = self.cluster.nodes.values()
        try:
            return tree_of(self._layers.spec, {node.metadata.name: node.metadata.labels for node in nodes})
        except BadLayers as error:
            return f"the ClusterNetworkTopology {NAME} cannot be used: {error}"

    def writes(self) -> Iterable[Patch]:
        """The status that the object should have for its tree, if it differs."""
        if self._layers is None:
            return
        tree = self.tree()
        if isinstance(tree, str):
            return
        wanted, uid = status_of(tree), self._layers.metadata.uid
        if wanted == self._layers.status:
            self._told = None
        elif self._told != (uid, wanted):
            self._told = uid, wanted
            body: dict[str, Any] = {"metadata": {"uid": uid}, "status": msgspec.to_builtins(wanted)}
            yield Patch(CLUSTER_NETWORK_TOPOLOGIES, NAME, body, subresource="status")
