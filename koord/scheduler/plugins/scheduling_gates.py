"""SchedulingGates: a pod with gates is not tried until their owners have taken them off."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.scheduler.framework.plugin import Plugin
from koord.scheduler.framework.queueing import Queueing

if TYPE_CHECKING:
    from koord.scheduler.core.entity import Entity


def blocks(entity: Entity) -> str | None:
    """Which gates an entity waits for, or None."""
    for ask in entity.pods:
        if ask.spec.scheduling_gates:
            names = [gate.name for member in entity.pods for gate in member.spec.scheduling_gates]
            return f"waiting for scheduling gates: [{' '.join(names)}]"
    return None


class SchedulingGates(Plugin):
    name = "SchedulingGates"
    # Only a change of the pod itself takes a gate off, and that is always looked at.
    queueing = Queueing(blocks=blocks)
