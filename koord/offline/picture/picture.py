"""The picture of a node: all its sections that have something to show."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from koord.api import kinds
from koord.api.text.manifest import Manifests
from koord.offline.picture.cpus import cpus
from koord.offline.picture.devices import devices
from koord.offline.picture.forecast import forecast
from koord.offline.picture.memory import memory
from koord.offline.picture.reservations import reservations
from koord.offline.picture.section import Section, Seen
from koord.offline.picture.yarn import yarn

SECTIONS: Final[tuple[Callable[[Seen], Section | None], ...]] = (cpus, memory, devices, reservations, forecast, yarn)
"""In the order in which they are shown."""


def picture_of(manifests: Manifests, name: str) -> list[Section]:
    """Of a node in manifests; nothing where it is not there."""
    node = next((each for each in manifests.of(kinds.NODES) if each.metadata.name == name), None)
    if node is None:
        return []

    pods = tuple(each for each in manifests.of(kinds.PODS) if each.spec.node_name == name and not each.is_finished)
    topologies = [each for each in manifests.of(kinds.NODE_RESOURCE_TOPOLOGIES) if each.metadata.name == name]
    found = [each for each in manifests.of(kinds.DEVICES) if each.metadata.name == name]
    held = tuple(each for each in manifests.of(kinds.RESERVATIONS) if each.status.node_name == name)
    metric = next((each for each in manifests.of(kinds.NODE_METRICS) if each.metadata.name == name), None)
    seen = Seen(node, next(iter(topologies), None), next(iter(found), None), pods, held, metric)
    return [section for make in SECTIONS if (section := make(seen)) is not None]
