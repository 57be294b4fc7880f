"""Every plugin of the descheduler that finds pods to move, by its name in configuration files: the one list."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from koord.api.configuration.descheduler_args import LowNodeLoadArgs
from koord.api.configuration.descheduler_config import DeschedulerProfile
from koord.descheduler.plugin import Plugin
from koord.descheduler.plugins.low_node_load import LowNodeLoad


def _low_node_load(profile: DeschedulerProfile, at_once: bool) -> Plugin:
    return LowNodeLoad(profile.args_of("LowNodeLoad", LowNodeLoadArgs), at_once=at_once)


PLUGINS: Final[Mapping[str, Callable[[DeschedulerProfile, bool], Plugin]]] = {
    "LowNodeLoad": _low_node_load,
}


def make(name: str, profile: DeschedulerProfile, *, at_once: bool) -> Plugin:
    """A plugin with its profile's arguments. `at_once`: what takes several rounds counts in the first."""
    return PLUGINS[name](profile, at_once)
