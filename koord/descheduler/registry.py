"""Every plugin of the descheduler that finds pods to move, by its name in configuration files: the one list.

A plugin is imported when a profile has it.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Final

from koord.api.configuration.component_config import PluginArgs
from koord.descheduler.plugin import Plugin

_HERE: Final = "koord.descheduler.plugins"

PLUGINS: Final[Mapping[str, str]] = {
    "LowNodeLoad": f"{_HERE}.low_node_load",
    "CustomPriority": f"{_HERE}.custom_priority",
    "FragmentationAware": f"{_HERE}.fragmentation_aware",
    "ScaleDownBinPack": f"{_HERE}.scale_down_bin_pack",
    "PodLifeTime": f"{_HERE}.pod_life_time",
    "RemoveDuplicates": f"{_HERE}.remove_duplicates",
    "RemovePodsHavingTooManyRestarts": f"{_HERE}.too_many_restarts",
    "RemovePodsViolatingNodeAffinity": f"{_HERE}.violating_node_affinity",
    "RemovePodsViolatingTopologySpreadConstraint": f"{_HERE}.violating_topology_spread",
}
"""Name to module, which has a class of that name."""


def cools(name: str) -> bool:
    """Whether a plugin moves pods because their node is used too much. False for names that are not in the list."""
    module = PLUGINS.get(name)
    return module is not None and bool(getattr(import_module(module), name).cools)


def make(name: str, args: PluginArgs) -> Plugin:
    """A plugin with its completed arguments."""
    plugin = getattr(import_module(PLUGINS[name]), name)(args)
    assert isinstance(plugin, Plugin)
    return plugin
