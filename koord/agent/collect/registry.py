"""The collectors, in the order in which they run: what is summed up comes after its parts.

Without usage nothing can be decided, so a round in which it cannot be read is left out. Other measurements
are optional: if the kernel, or the agent's own container, refuses one, the agent logs that once and goes on.
"""

from __future__ import annotations

import logging
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
    services,
    switching,
    system,
    waiting,
)
from koord.agent.collect.round import Round

log = logging.getLogger(__name__)

Collector = Callable[[Round], None]

USAGE: Final[tuple[tuple[str, Collector], ...]] = (
    ("node", node.collect),
    ("pods", pods.collect),
    ("host_applications", host_applications.collect),
    ("guests", guests.collect),
    ("best_effort", best_effort.collect),
    ("system", system.collect),
)
BEYOND: Final[tuple[tuple[str, Collector], ...]] = (
    ("services", services.collect),
    ("cold_memory", cold_memory.collect),
    ("pressure", pressure.collect),
    ("waiting", waiting.collect),
    ("memory_delays", memory_delays.collect),
    ("cpi", cpi.collect),
    ("switching", switching.collect),
    ("resctrl", resctrl.collect),
)


def collect(this: Round) -> None:
    for _, collector in USAGE:
        collector(this)
    for name, collector in BEYOND:
        try:
            collector(this)
        except (OSError, ValueError) as error:
            _complain(this, name, str(error))
        else:
            this.complaints.pop(name, None)
    if this.rates.kept_for is this.state:
        return
    this.rates.kept_for = this.state
    living = [*this.state.pods, *this.state.guests]
    living += [container.id for pod in this.state.pods.values() for container in pod.containers if container.id]
    if this.state.slo:
        living += [app.name for app in this.state.slo.host_applications]
    this.samples.keep(living)
    this.rates.keep(living)


def _complain(this: Round, name: str, text: str) -> None:
    if this.complaints.get(name) != text:
        this.complaints[name] = text
        log.warning("%s is not known: %s", name.replace("_", " "), text)
