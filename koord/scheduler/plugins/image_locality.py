"""ImageLocality: prefers nodes that have a pod's images already, above all images that many nodes have.

    sum   = over containers whose image is on the node: int(size * nodes that have it / all nodes)
    score = 100 * (s - 23Mi) / (1000Mi * containers - 23Mi),  s the sum, between 23Mi and 1000Mi * containers
The share of nodes changes for all rows at once, so rows are grouped by the images that they have and their sizes.
An image that is on no node does not count: pods that differ only in absent images are one class.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from functools import lru_cache
from typing import Final

import numpy as np

from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.facet import KeepsGroups, OfNodes
from koord.scheduler.framework.judge import Judge
from koord.scheduler.framework.plugin import KeyedBy, Plugin
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.table import Array, Changes, Reason, Row
from koord.scheduler.state.watchers import Index

MIB: Final = 1024**2
LEAST_BYTES: Final = 23 * MIB
MOST_BYTES: Final = 1000 * MIB
"""For each container."""
_CONCERNS_IT: Final = int(Reason.NODE | Reason.IMAGES)


class ImagesOnNodes(Index):
    """Which rows have which images, by every name of the image, and how large."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.sizes: dict[str, dict[Row, int]] = {}
        self._of_row: dict[Row, tuple[object, list[str]]] = {}
        for row in cluster.nodes:
            self.node_put(row)

    def node_put(self, row: Row) -> None:
        images = self.cluster.nodes[row].status.images
        images_of_row = self._of_row.get(row)
        if images_of_row is not None and images_of_row[0] == images:
            return
        self.node_removed(row)
        held: list[str] = []
        for image in images:
            for name in image.names:
                by_row = self.sizes.setdefault(name, {})
                # Where a node lists a name twice, the first counts.
                if row not in by_row:
                    by_row[row] = image.size_bytes
                    held.append(name)
        self._of_row[row] = (images, held)

    def amounts_put(self, row: Row, changed: frozenset[str]) -> None:
        """Amounts do not matter."""

    def node_removed(self, row: Row) -> None:
        for name in self._of_row.pop(row, (None, []))[1]:
            by_row = self.sizes[name]
            del by_row[row]
            if not by_row:
                del self.sizes[name]


class ImageLocality(Plugin):
    name = "ImageLocality"

    def attach(self, cluster: Cluster) -> None:
        cluster.index(ImagesOnNodes)

    def keyed_by(self, ask: Ask, cluster: Cluster) -> KeyedBy:
        return KeyedBy.LABELS

    def key(self, ask: Ask, cluster: Cluster) -> Hashable:
        sizes = cluster.index(ImagesOnNodes).sizes
        if not sizes:
            return None
        spec = ask.spec
        containers = (*spec.init_containers, *spec.containers) if spec.init_containers else spec.containers
        sized = [name for name in [full_name(container.image) for container in containers] if name in sizes]
        return (len(containers), *sorted(sized)) if sized else None

    def compile(self, ask: Ask, cluster: Cluster) -> Judge | None:
        key = self.key(ask, cluster)
        if not isinstance(key, tuple):
            return None
        containers, *images = key
        return _Near(containers, Counter(images), cluster)


class _Near(Judge):
    def __init__(self, containers: int, images: Counter[str], cluster: Cluster) -> None:
        self.facets = (_Holdings(containers, images, cluster),)


class _Holdings(KeepsGroups, OfNodes):
    """Rows grouped by the images that they have and their sizes; group 0 has none."""

    normalised = False

    def __init__(self, containers: int, images: Counter[str], cluster: Cluster) -> None:
        self._containers, self._images = containers, sorted(images.items())
        self._cluster, self._index = cluster, cluster.index(ImagesOnNodes)
        self._none: tuple[int | None, ...] = (None,) * len(self._images)
        self._groups = np.zeros(0, np.int64)
        self._number: dict[tuple[int | None, ...], int] = {self._none: 0}

    def refresh(self, changed: Changes | None) -> bool:
        if changed is not None and not changed.reasons & _CONCERNS_IT:
            return False
        self._groups = np.zeros(self._cluster.table.capacity, np.int64)
        by_image = [self._index.sizes.get(name, {}) for name, _ in self._images]
        self._number = {self._none: 0}
        for row in set().union(*by_image):
            sizes = tuple([of_image.get(row) for of_image in by_image])
            self._groups[row] = self._number.setdefault(sizes, len(self._number))
        return True

    @property
    def size(self) -> int:
        return len(self._number)

    def table(self, candidates: Array | None) -> Array:
        total = len(self._cluster.table)
        spread = [len(self._index.sizes.get(name, ())) / total for name, _ in self._images]
        times = [number for _, number in self._images]
        return np.array([self._score(sizes, spread, times) for sizes in self._number], np.int64)

    def _score(self, sizes: tuple[int | None, ...], spread: list[float], times: list[int]) -> int:
        held = zip(sizes, spread, times, strict=True)
        amount = sum(int(size * share) * number for size, share, number in held if size is not None)
        most = MOST_BYTES * self._containers
        return 100 * (min(max(amount, LEAST_BYTES), most) - LEAST_BYTES) // (most - LEAST_BYTES)


@lru_cache(maxsize=16384)
def full_name(image: str) -> str:
    """An image's name with a tag, which is `latest` where none is given."""
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"
