"""The shape of a report: an object of the cluster in which the node tells something of itself.

A report is a value: its object, its content, and its interval. `koord.agent.live` writes it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from koord.agent.host.files import Files
from koord.agent.lending.learner import LendingOutlook
from koord.agent.predict.forecast import Forecast
from koord.agent.series.samples import Samples
from koord.agent.state import NodeState
from koord.api.configuration.features import AgentGate
from koord.api.kinds import Kind
from koord.api.machinery.struct import Struct
from koord.api.protocol.slowed_by import Blame

T = TypeVar("T", bound=Struct)


@dataclass(frozen=True, slots=True)
class Facts:
    """What reports are made of."""

    state: NodeState
    samples: Samples
    files: Files
    now_s: float
    "In the time of the samples."
    at: str
    "In everybody's time."
    forecast: Forecast | None = None
    "None while nothing is known of the past."
    lending: LendingOutlook | None = None
    "None before the first minute."
    blames: Mapping[str, Sequence[Blame]] = field(default_factory=dict)
    "By uid of a pod that suffered a short time ago: the pods that slowed it down."


@dataclass(frozen=True, slots=True)
class Report(Generic[T]):
    name: str
    kind: Kind[T]
    change: Callable[[Facts, T | None], Mapping[str, Any] | None]
    """From the node's present object, if it exists: the merge patch with the new facts, or the whole object; None if
    there is nothing to report."""
    every_s: Callable[[T | None], float]
    idle_s: float
    "How soon it is asked again after it had nothing to tell."
    gates: tuple[AgentGate, ...] = ()
    "The report is written while one of these gates is on; always, if there are none."
    subresource: str = ""

    def is_on(self, gates: Mapping[AgentGate, bool]) -> bool:
        return not self.gates or any(gates[gate] for gate in self.gates)
