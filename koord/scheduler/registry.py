"""Every plugin of the scheduler, by its name in configuration files: the one list.

The order is that in which a node meets them: filters first, as in Kubernetes and Koordinator, then those that only
score. A plugin is imported when a profile has it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from inspect import signature
from typing import Final

from koord.api.configuration.component_config import PluginArgs
from koord.api.configuration.features import SchedulerGate
from koord.scheduler.framework.plugin import Plugin

_HERE: Final = "koord.scheduler.plugins"

PLUGINS: Final[Mapping[str, str]] = {
    "SchedulingGates": f"{_HERE}.scheduling_gates",
    "SchedulingHint": f"{_HERE}.scheduling_hint",
    "Coscheduling": f"{_HERE}.coscheduling",
    "PrioritySort": f"{_HERE}.priority_sort",
    "NodeUnschedulable": f"{_HERE}.node_unschedulable",
    "NodeName": f"{_HERE}.node_name",
    "TaintToleration": f"{_HERE}.taint_toleration",
    "NodeAffinity": f"{_HERE}.node_affinity",
    "NodePorts": f"{_HERE}.node_ports",
    "NodeResourcesFit": f"{_HERE}.node_resources_fit",
    "VolumeRestrictions": f"{_HERE}.volume_restrictions",
    "NodeVolumeLimits": f"{_HERE}.node_volume_limits",
    "VolumeBinding": f"{_HERE}.volume_binding",
    "VolumeZone": f"{_HERE}.volume_zone",
    "PodTopologySpread": f"{_HERE}.pod_topology_spread",
    "InterPodAffinity": f"{_HERE}.inter_pod_affinity",
    "DynamicResources": f"{_HERE}.dynamic_resources.plugin",
    "LoadAwareScheduling": f"{_HERE}.load_aware_scheduling",
    "NodeNUMAResource": f"{_HERE}.numa.node_numa_resource",
    "Reservation": f"{_HERE}.reservation.plugin",
    "NodeClosing": f"{_HERE}.node_closing",
    "DeviceShare": f"{_HERE}.devices.plugin",
    "NodeResourcesBalancedAllocation": f"{_HERE}.node_resources_balanced_allocation",
    "ImageLocality": f"{_HERE}.image_locality",
    "NodeResourcesFitPlus": f"{_HERE}.node_resources_fit_plus",
    "ScarceResourceAvoidance": f"{_HERE}.scarce_resource_avoidance",
    "InterferenceAvoidance": f"{_HERE}.interference_avoidance",
    "ElasticQuota": f"{_HERE}.quota.elastic_quota",
    "DefaultPreemption": f"{_HERE}.default_preemption",
}
"""Name to module, which has a class of that name."""

SHELL: Final = frozenset({"DefaultBinder", "DefaultPreBind"})
"""Not policies: the part that carries out placements does their work."""


def is_built(name: str) -> bool:
    return name in PLUGINS or name in SHELL


def takes_args(name: str) -> bool:
    """Whether a plugin accepts arguments from a configuration file."""
    return "args" in _parameters(_class(name))


def takes_gates(name: str) -> bool:
    """Whether a plugin depends on feature gates."""
    return "gates" in _parameters(_class(name))


def make(name: str, args: PluginArgs | None, gates: Mapping[SchedulerGate, bool] | None = None) -> Plugin:
    """A new plugin, with its arguments and feature gates where it has any."""
    given = {"args": args, "gates": gates if takes_gates(name) else None}
    plugin = _class(name)(**{key: value for key, value in given.items() if value is not None})
    assert isinstance(plugin, Plugin)
    return plugin


def _class(name: str) -> type:
    class_: type = getattr(import_module(PLUGINS[name]), name)
    return class_


@cache
def _parameters(plugin: type) -> frozenset[str]:
    return frozenset(signature(plugin).parameters)
