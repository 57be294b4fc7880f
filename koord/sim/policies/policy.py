"""What a lending policy is, as the simulator runs it.

A policy answers four questions, each for all nodes at once: what the agent learns from a minute, what batch may use
right now, what the node lends, and which batch pods are evicted. It holds no state: what it remembers is a value that
the run keeps, writes into checkpoints and passes in again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias, TypeVar

from koord.api.configuration.slo_config_types import ColocationStrategy
from koord.api.protocol.crd.node_slo import ResourceThresholdStrategy
from koord.sim.minutes import Floats, Ints, NodeColumns, NodeMinutes

Band: TypeAlias = Literal["batch", "mid", "plain"]
"""plain: batch pods request CPU and memory like services, and run on what services do not request."""
M = TypeVar("M")


@dataclass(frozen=True, slots=True)
class Settings:
    """What a user may set, in the words of `slo-controller-config`, laid over the defaults: no field is absent that has
    one."""

    mark_percent: float
    "The safety mark: use of a node above it is a violation."
    colocation: ColocationStrategy
    thresholds: ResourceThresholdStrategy
    cpu_percent: float | None = None
    """Share of a node's CPU that may be used in all, where the scenario says it (cpuReclaimThresholdPercent): for
    policies whose own default is another one. The same of memory."""
    memory_percent: float | None = None


@dataclass(frozen=True, slots=True)
class Lent:
    """What nodes lend: total figures, what is requested already included."""

    cpu_milli: Floats
    memory_bytes: Floats
    measured_milli: Floats | None = None
    """How much of the figure was measured, and so goes up and down from one report to the next: the manager does not
    write what this explains. None: nothing."""
    measured_bytes: Floats | None = None
    room_milli: Floats | None = None
    """Of a figure that is made of requests and room: the room, which is what is for sale. The manager judges a change
    by it."""


class Future(Protocol):
    """What only an oracle may ask."""

    def services_milli(self, seconds: float) -> Floats:
        """Mean use of services on each node over the next seconds."""
        ...

    def services_memory_bytes(self, seconds: float) -> Floats:
        """The highest over the next seconds."""
        ...


class Policy(Protocol[M]):
    @property
    def name(self) -> str:
        """As scenarios and configurations name it."""
        ...

    @property
    def summary(self) -> str:
        """One line for `koord sim policies`."""
        ...

    @property
    def band(self) -> Band:
        """Whose resources it publishes, and so which ones batch pods request."""
        ...

    @property
    def knows_now(self) -> bool:
        """Whether `ceiling` is given what services use in the coming 10 s: only an oracle's is."""
        ...

    def begin(self, nodes: NodeColumns, settings: Settings) -> M:
        """The memory before the first minute."""
        ...

    def after_minute(self, memory: M, minutes: NodeMinutes) -> M:
        """Called once a minute with what happened in it. Returns the new memory; may reuse the arrays of the old."""
        ...

    def ceiling(self, memory: M, services_milli: Floats) -> Floats:
        """What batch may use now, by services' mean of the last 30 s (see `knows_now`); infinite where nothing holds it
        back. Called every 10 s."""
        ...

    def lent(self, memory: M, minutes: NodeMinutes, future: Future) -> Lent | None:
        """What nodes publish after this minute; NaN where a node keeps its figure, None: no lending at all."""
        ...

    def evictions(self, memory: M, minutes: NodeMinutes, ceiling_milli: Floats) -> tuple[Ints, M]:
        """Rows of `minutes.pods` to evict now, in order, and the memory after it."""
        ...
