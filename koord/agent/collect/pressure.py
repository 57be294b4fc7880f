"""Pressure: the share of ten seconds in which tasks waited, of the node and of each pod, where the kernel tells."""

from __future__ import annotations

from typing import Final

from koord.agent.collect.round import Round
from koord.agent.host import proc, usage
from koord.agent.host.pressure import Pressure
from koord.agent.series import names

RESOURCES: Final = ("cpu", "memory", "io")
INTERVAL_S: Final = 10.0


def collect(this: Round) -> None:
    if not this.asks_pressure:
        return
    for resource in RESOURCES:
        own = proc.pressure(this.cgroups.files, resource) if not this.cgroups.root else None
        _put(this, "", resource, own or usage.pressure(this.cgroups, "", resource))
        for uid, pod in this.state.pods.items():
            _put(this, uid, resource, usage.pressure(this.cgroups, pod.directory, resource))


def _put(this: Round, owner: str, resource: str, pressure_now: Pressure | None) -> None:
    if pressure_now is not None:
        this.put(names.pressure(owner, resource, "some"), pressure_now.some.avg10)
        this.put(names.pressure(owner, resource, "full"), pressure_now.full.avg10)
        if owner:
            this.put_slowly(names.pod_stalled_us(owner, resource), pressure_now.some.total_us)
