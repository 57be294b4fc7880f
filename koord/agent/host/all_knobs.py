"""Knobs by name: those that every kernel has one of, and families with one for each disk, feature or group."""

from __future__ import annotations

from typing import Final

from koord.agent.host.core_sched_knobs import CORE_COOKIE
from koord.agent.host.io_knobs import io_knob
from koord.agent.host.knobs import KNOBS, PROCESS_KNOBS, Knob
from koord.agent.host.resctrl_knobs import RESCTRL_TASKS, group_named
from koord.agent.host.system_knobs import SYSTEM_KNOBS, scheduler_feature_named
from koord.agent.host.time_slices import TIME_SLICE

_SINGLE: Final = (RESCTRL_TASKS, CORE_COOKIE, TIME_SLICE)
_BY_NAME: Final = {knob.name: knob for knob in (*KNOBS, *PROCESS_KNOBS, *SYSTEM_KNOBS, *_SINGLE)}


def knob_named(name: str) -> Knob | None:
    return (
        _BY_NAME.get(name) or io_knob(name) or scheduler_feature_named(name) or group_named(name) or _network_knob(name)
    )


def _network_knob(name: str) -> Knob | None:
    """Loaded only where one is meant."""
    if name.startswith("tc "):
        from koord.agent.host.network.knobs import network_knob_named

        return network_knob_named(name)
    if name.startswith("terway "):
        from koord.agent.host.terway_knobs import terway_knob_named

        return terway_knob_named(name)
    return None
