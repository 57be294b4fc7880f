"""A section of a node's picture: lines for a terminal, and the same as data for programs."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Pod
from koord.api.protocol.crd.device import Device
from koord.api.protocol.crd.node_metric import NodeMetric
from koord.api.protocol.crd.node_resource_topology import NodeResourceTopology
from koord.api.protocol.crd.reservation import Reservation
from koord.scheduler.plugins.reservation.unused import unused


class Span(NamedTuple):
    """A piece of a line in one colour; without one, as the terminal has it."""

    text: str
    colour: str = ""


Line: TypeAlias = tuple[Span, ...]


class NodeView(NamedTuple):
    """The objects that a picture of a node is drawn from."""

    node: Node
    topology: NodeResourceTopology | None
    device: Device | None
    pods: tuple[Pod, ...]
    "The pods on the node."
    reservations: tuple[Reservation, ...] = ()
    "The reservations on the node."
    metric: NodeMetric | None = None

    @property
    def holders(self) -> tuple[Pod, ...]:
        """Holders of CPUs and devices: pods, and reservations with their unused part."""
        return (*self.pods, *unused(self.reservations, self.pods))


class Section(NamedTuple):
    name: str
    title: str
    "The text beside the name."
    lines: tuple[Line, ...]
    data: object
    "Becomes JSON."
