"""The collectors, in the order in which they run: what is summed up comes after its parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from koord.agent.collect import (
    best_effort,
    cold_memory,
    cpi,
    guests,
    host_applications,
    memory_delays,
    node,
    pods,
    pressure,
    resctrl,
    switching,
    system,
    waiting,
)
from koord.agent.collect.round import Round

COLLECTORS: Final[tuple[tuple[str, Callable[[Round], None]], ...]] = (
    ("node", node.collect),
    ("pods", pods.collect),
    ("host_applications", host_applications.collect),
    ("guests", guests.collect),
    ("best_effort", best_effort.collect),
    ("system", system.collect),
    ("cold_memory", cold_memory.collect),
    ("pressure", pressure.collect),
    ("waiting", waiting.collect),
    ("memory_delays", memory_delays.collect),
    ("cpi", cpi.collect),
    ("switching", switching.collect),
    ("resctrl", resctrl.collect),
)


def collect(this: Round) -> None:
    for _, each in COLLECTORS:
        each(this)
    if this.rates.kept_for is this.state:
        return
    this.rates.kept_for = this.state
    living = [*this.state.pods, *this.state.guests]
    living += [each.id for pod in this.state.pods.values() for each in pod.containers if each.id]
    if this.state.slo:
        living += [each.name for each in this.state.slo.host_applications]
    this.samples.keep(living)
    this.rates.keep(living)
