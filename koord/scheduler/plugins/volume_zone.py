"""VolumeZone: a pod runs in the zone and region that its bound volumes say they are in.

A volume's label may list several, with `__` between them. A node without any zone or region label is in a cluster
without zones, and takes any volume.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

import numpy as np

from koord.api.text.selector import Operator, Requirement
from koord.scheduler.framework.ask import Ask
from koord.scheduler.framework.cells import Cells, Numbers
from koord.scheduler.framework.change import Change
from koord.scheduler.framework.judge import Judge, Refused
from koord.scheduler.framework.plugin import KeyedBy, Plugin
from koord.scheduler.plugins import volume_changes
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.storage import WAITS_FOR_POD, class_name
from koord.scheduler.state.table import Array, Reason, Row

PRESENT_NAMES: Final = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region": "topology.kubernetes.io/region",
}
"""Labels that say where a volume is, with the name under which nodes have them today."""

Place = tuple[str, tuple[str, ...]]
"""A label, and the values that will do."""


class VolumeZone(Plugin):
    name = "VolumeZone"
    wakes_on = Reason.NODE | Reason.LABELS | Reason.STORAGE

    def keyed_by(self, ask: Ask, cluster: Cluster) -> KeyedBy:
        return KeyedBy.POD if ask.spec.volumes else KeyedBy.SPEC

    def key(self, ask: Ask, cluster: Cluster) -> Hashable:
        if not ask.spec.volumes:
            return None
        places: list[Place] = []
        for name in ask.claims:
            places_of_claim = _places(ask.meta.namespace, name, cluster)
            if isinstance(places_of_claim, str):
                return places_of_claim
            places += places_of_claim
        return tuple(places) or None

    def compile(self, ask: Ask, cluster: Cluster) -> Judge | None:
        match self.key(ask, cluster):
            case str(reason):
                return Refused(reason)
            case tuple(places):
                return _There(places, cluster)
        return None


def _places(namespace: str, name: str, cluster: Cluster) -> list[Place] | str:
    """Where the volume of a claim is, or why that cannot be said."""
    storage = cluster.storage
    claim = storage.claims.get(f"{namespace}/{name}")
    if claim is None:
        return f'persistentvolumeclaim "{name}" not found'
    if claim.spec.volume_name:
        volume = storage.volumes.get(claim.spec.volume_name)
        if volume is None:
            return f'persistentvolume "{claim.spec.volume_name}" not found'
        listed = [(label, volume.metadata.labels.get(label)) for label in PRESENT_NAMES]
        split = [
            (label, tuple(part.strip() for part in text.split("__"))) for label, text in listed if text is not None
        ]
        return [(label, values) for label, values in split if all(values)]
    wanted = class_name(claim)
    if not wanted:
        return "PersistentVolumeClaim had no pv name and storageClass name"
    class_ = storage.classes.get(wanted)
    if class_ is None:
        return f'storageclass.storage.k8s.io "{wanted}" not found'
    return [] if class_.volume_binding_mode == WAITS_FOR_POD else "PersistentVolume had no name"


class _There(Judge):
    filters_on = Reason.NODE | Reason.LABELS

    def __init__(self, places: tuple[Place, ...], cluster: Cluster) -> None:
        self._places, self._cluster = places, cluster

    def feasible(self, cells: Cells) -> Numbers:
        if isinstance(cells.rows, int):
            return int(self._elsewhere(np.array([cells.rows], np.intp))[0])
        return self._elsewhere(np.arange(self._cluster.table.capacity)[cells.rows])

    def _elsewhere(self, rows: Array) -> Array:
        labels = self._cluster.labels
        has = {label: labels.matches(Requirement(label, Operator.EXISTS), rows) for label in PRESENT_NAMES}
        zoned = np.zeros(len(rows), np.bool_)
        for of_key in has.values():
            zoned |= of_key
        fits = np.ones(len(rows), np.bool_)
        for label, values in self._places:
            by_label = labels.matches(Requirement(label, Operator.IN, values), rows)
            by_present_name = labels.matches(Requirement(PRESENT_NAMES[label], Operator.IN, values), rows)
            fits &= np.where(has[label], by_label, by_present_name)
        return zoned & ~fits

    def fixes(self, ask: Ask, row: Row) -> list[Change]:
        """The first volume that is elsewhere, there."""
        index, storage = np.array([row], np.intp), self._cluster.storage
        for name in ask.claims:
            places = _places(ask.meta.namespace, name, self._cluster)
            if isinstance(places, str):
                return []
            elsewhere = [place for place in places if _There((place,), self._cluster)._elsewhere(index)[0]]
            if elsewhere:
                claim = storage.claims[f"{ask.meta.namespace}/{name}"]
                labels = tuple(label for label, _ in elsewhere)
                return [volume_changes.in_its_zone(storage.volumes[claim.spec.volume_name], name, labels, storage)]
        return []

    def reasons(self, mask: int) -> list[str]:
        return ["node(s) had no available volume zone"]

    def unresolvable(self, masks: Array, rows: Array) -> Array:
        return np.ones(len(rows), np.bool_)
