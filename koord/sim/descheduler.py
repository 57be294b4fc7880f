"""The descheduler of a run: its configuration, how often it has a round, and what its plugins remember."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from koord.api.configuration import descheduler_config
from koord.api.configuration.descheduler_config import SHIPPED
from koord.api.machinery.faults import BadInput
from koord.api.text.duration import parse_duration
from koord.api.text.manifest import Manifests
from koord.descheduler.compiled import Compiled, compiled
from koord.sim.scenario import TICK_S, Scenario


@dataclass(slots=True)
class Descheduler:
    compiled: Compiled
    every_ticks: int
    memory: Mapping[tuple[str, str], Any] = field(default_factory=dict)
    "What plugins remember of earlier rounds. A restart loses it."


def descheduler_of(scenario: Scenario, manifests: Manifests | None) -> Descheduler | None:
    """By the configuration among the manifests, or the shipped one. None: the scenario has no descheduler."""
    if scenario.descheduler is None:
        return None
    written = [
        (place, data)
        for place, data in (manifests.configurations if manifests is not None else ())
        if data.get("kind") == descheduler_config.KIND
    ]
    if len(written) > 1:
        raise BadInput(f"two descheduler configurations: {written[0][0]} and {written[1][0]}; keep one")
    config = descheduler_config.parse(written[0][1], str(written[0][0])) if written else SHIPPED
    every = scenario.descheduler.every
    return Descheduler(
        compiled(replace(config, descheduling_interval=every)), max(1, round(parse_duration(every) / TICK_S))
    )
