"""Watchers: parts that keep their own data about nodes and pods, and receive every change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from koord.scheduler.state.pods import PodRecord
from koord.scheduler.state.table import Row

if TYPE_CHECKING:
    from koord.scheduler.state.cluster import Cluster


class Watcher(Protocol):
    """Keeps its own data about nodes and pods, and is called on every change, including undone ones."""

    def node_put(self, row: Row) -> None:
        """A node came or changed."""
        ...

    def amounts_put(self, row: Row, changed: frozenset[str]) -> None:
        """A node changed in what it gives of these extended resources, and in nothing else."""
        ...

    def node_removed(self, row: Row) -> None:
        """A node is gone. Its pods were removed before, one by one."""
        ...

    def pod_moved(self, record: PodRecord, row: Row, sign: int) -> None:
        """A pod came to a row (+1), or left it (-1)."""
        ...


class Index:
    """A watcher that is made for a cluster on first use, and reads the existing nodes and pods by itself."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def node_put(self, row: Row) -> None:
        """Nothing, unless overridden."""

    def amounts_put(self, row: Row, changed: frozenset[str]) -> None:
        """As any change of a node, unless overridden."""
        self.node_put(row)

    def node_removed(self, row: Row) -> None:
        """Nothing, unless overridden."""

    def pod_moved(self, record: PodRecord, row: Row, sign: int) -> None:
        """Nothing, unless overridden."""

    def recounted(self, row: Row) -> None:
        """Notes of the pods on a row add other amounts to its columns than before. Nothing, unless overridden."""

    def pod_expected(self, record: PodRecord, sign: int) -> None:
        """A pod that is taken off its node in a trial would be made again and wait (+1), or need not be (-1)."""

    def pod_homeless(self, record: PodRecord, sign: int) -> None:
        """A pod has a node that is not known (+1), or no longer (-1): the node came, or the pod went."""
