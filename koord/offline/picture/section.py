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


class Seen(NamedTuple):
    """What is known of the node."""

    node: Node
    topology: NodeResourceTopology | None
    device: Device | None
    pods: tuple[Pod, ...]
    "That are on it."
    reservations: tuple[Reservation, ...] = ()
    "Likewise."
    metric: NodeMetric | None = None

    @property
    def holders(self) -> tuple[Pod, ...]:
        """Who has CPUs and devices: pods, and reservations with what nobody uses of them yet."""
        return (*self.pods, *unused(self.reservations, self.pods))


class Section(NamedTuple):
    name: str
    title: str
    "What is said beside the name."
    lines: tuple[Line, ...]
    data: object
    "Becomes JSON."
