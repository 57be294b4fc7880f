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
from koord.offline.picture.section import NodeView, Section
from koord.offline.picture.yarn import yarn

SECTIONS: Final[tuple[Callable[[NodeView], Section | None], ...]] = (
    cpus,
    memory,
    devices,
    reservations,
    forecast,
    yarn,
)
"""In the order in which they are shown."""


def picture_of(manifests: Manifests, name: str) -> list[Section]:
    """Of a node in manifests; nothing where it is not there."""
    node = next((node for node in manifests.of(kinds.NODES) if node.metadata.name == name), None)
    if node is None:
        return []

    pods = tuple(pod for pod in manifests.of(kinds.PODS) if pod.spec.node_name == name and not pod.is_finished)
    topologies = [
        topology for topology in manifests.of(kinds.NODE_RESOURCE_TOPOLOGIES) if topology.metadata.name == name
    ]
    devices_here = [device for device in manifests.of(kinds.DEVICES) if device.metadata.name == name]
    held = tuple(
        reservation for reservation in manifests.of(kinds.RESERVATIONS) if reservation.status.node_name == name
    )
    metric = next((metric for metric in manifests.of(kinds.NODE_METRICS) if metric.metadata.name == name), None)
    seen = NodeView(node, next(iter(topologies), None), next(iter(devices_here), None), pods, held, metric)
    return [section for make in SECTIONS if (section := make(seen)) is not None]
