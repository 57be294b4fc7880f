"""Which scheduler plugins run at which point, in which order, with which weight.

`resolve` answers it from a profile's plugin sets, by kube-scheduler's rules: sets are merged over the defaults, then
`multiPoint` is spread over the points that each plugin has, explicit entries of a point coming before spread ones
only where they override a spread one, and after them otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from msgspec.structs import replace

from koord.api.configuration.component_config import PluginRef, PluginSet, unknown
from koord.api.machinery.faults import Fault
from koord.api.machinery.struct import Struct

POINTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "preEnqueue": "pre_enqueue",
        "queueSort": "queue_sort",
        "preFilter": "pre_filter",
        "filter": "filter",
        "postFilter": "post_filter",
        "preScore": "pre_score",
        "score": "score",
        "reserve": "reserve",
        "permit": "permit",
        "preBind": "pre_bind",
        "bind": "bind",
        "postBind": "post_bind",
    }
)
"""The extension points in the order in which a pod meets them, and the field of `Plugins` for each."""

IMPLEMENTS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        name: tuple(points.split())
        for name, points in {
            "SchedulingGates": "preEnqueue",
            "PrioritySort": "queueSort",
            "NodeUnschedulable": "filter",
            "NodeName": "filter",
            "TaintToleration": "filter preScore score",
            "NodeAffinity": "preFilter filter preScore score",
            "NodePorts": "preFilter filter",
            "NodeResourcesFit": "preFilter filter preScore score",
            "VolumeRestrictions": "preFilter filter",
            "NodeVolumeLimits": "preFilter filter",
            "VolumeBinding": "preFilter filter preScore score reserve preBind",
            "VolumeZone": "preFilter filter",
            "PodTopologySpread": "preFilter filter preScore score",
            "InterPodAffinity": "preFilter filter preScore score",
            "DynamicResources": "preEnqueue preFilter filter postFilter score reserve preBind",
            "DefaultPreemption": "preEnqueue postFilter",
            "NodeResourcesBalancedAllocation": "preScore score",
            "ImageLocality": "score",
            "DefaultBinder": "bind",
            "SchedulingHint": "preFilter",
            "LoadAwareScheduling": "preFilter filter score reserve",
            "NodeClosing": "filter",
            "InterferenceAvoidance": "score",
            "NodeNUMAResource": "preFilter filter preScore score reserve preBind",
            "DeviceShare": "preFilter filter preScore score reserve preBind",
            "Reservation": "preFilter filter postFilter preScore score reserve preBind bind",
            "Coscheduling": "preEnqueue preFilter postFilter preScore score reserve permit preBind postBind",
            "ElasticQuota": "preFilter postFilter reserve",
            "DefaultPreBind": "preBind",
            "NodeResourcesFitPlus": "preScore score",
            "ScarceResourceAvoidance": "preScore score",
        }.items()
    }
)
"""Every plugin there is, and the points it has."""

FORMER: Final[Mapping[tuple[str, str], str]] = MappingProxyType(
    {
        ("queueSort", "Coscheduling"): "PrioritySort",
        ("filter", "BatchResourceFit"): "NodeResourcesFit",
    }
)
"""What files of older releases name, and the plugin that does it: gangs no longer sort the queue themselves, and batch
resources fit as all others do."""

MAX_TOTAL_SCORE: Final = 2**63 - 1
MAX_NODE_SCORE: Final = 100


class Plugins(Struct):
    """The plugin sets of a profile, one for each extension point, and `multiPoint` for all points of a plugin."""

    pre_enqueue: PluginSet = PluginSet()
    "Which pods may enter the queue."
    queue_sort: PluginSet = PluginSet()
    "Order of the queue. All profiles have the same."
    pre_filter: PluginSet = PluginSet()
    "Judges a pod before its nodes."
    filter: PluginSet = PluginSet()
    "Which nodes a pod fits on."
    post_filter: PluginSet = PluginSet()
    "What makes room for a pod that fits nowhere."
    pre_score: PluginSet = PluginSet()
    "Prepares scores."
    score: PluginSet = PluginSet()
    "How good a node is, from 0 to 100, times the plugin's weight."
    reserve: PluginSet = PluginSet()
    "What a placed pod takes."
    permit: PluginSet = PluginSet()
    "Which placed pods wait for others."
    pre_bind: PluginSet = PluginSet()
    "What is written before the pod is bound."
    bind: PluginSet = PluginSet()
    "What binds the pod."
    post_bind: PluginSet = PluginSet()
    "What happens afterwards."
    multi_point: PluginSet = PluginSet()
    "Plugins for all the points that they have."

    def at(self, point: str) -> PluginSet:
        plugin_set: PluginSet = getattr(self, POINTS[point])
        return plugin_set


def _refs(text: str) -> tuple[PluginRef, ...]:
    """`"A B:5"` as references, the number being the weight."""
    pairs = (word.partition(":") for word in text.split())
    return tuple(PluginRef(name, int(weight) if weight else None) for name, _, weight in pairs)


DEFAULT_PLUGINS: Final = Plugins(
    multi_point=PluginSet(
        enabled=_refs(
            "SchedulingGates PrioritySort NodeUnschedulable NodeName TaintToleration:3 NodeAffinity:2 NodePorts "
            "NodeResourcesFit:1 VolumeRestrictions NodeVolumeLimits VolumeBinding VolumeZone PodTopologySpread:2 "
            "InterPodAffinity:2 DynamicResources:2 DefaultPreemption NodeResourcesBalancedAllocation:1 ImageLocality:1 "
            "DefaultBinder"
        )
    )
)
"""Kubernetes' default plugins, without those behind features that are off by default."""

_ALL = (PluginRef("*"),)

SHIPPED_PLUGINS: Final = Plugins(
    pre_enqueue=PluginSet(_refs("Coscheduling")),
    queue_sort=PluginSet(_refs("PrioritySort"), _ALL),
    pre_filter=PluginSet(_refs("SchedulingHint Reservation NodeNUMAResource DeviceShare Coscheduling ElasticQuota")),
    filter=PluginSet(_refs("LoadAwareScheduling NodeNUMAResource DeviceShare Reservation")),
    post_filter=PluginSet(_refs("Reservation Coscheduling ElasticQuota DefaultPreemption"), _ALL),
    pre_score=PluginSet(_refs("Reservation Coscheduling")),
    score=PluginSet(_refs("LoadAwareScheduling:1 NodeNUMAResource:1 DeviceShare:1 Reservation:5000 Coscheduling:1")),
    reserve=PluginSet(
        _refs("LoadAwareScheduling NodeNUMAResource DeviceShare Reservation Coscheduling ElasticQuota"),
    ),
    permit=PluginSet(_refs("Coscheduling")),
    pre_bind=PluginSet(_refs("NodeNUMAResource DeviceShare Reservation Coscheduling DefaultPreBind")),
    bind=PluginSet(_refs("Reservation DefaultBinder"), _ALL),
    post_bind=PluginSet(_refs("Coscheduling")),
)
"""The plugin sets of the profile that Koordinator ships."""


@dataclass(frozen=True, slots=True)
class ResolvedPlugins:
    """What really runs: names in order for each point, and the weight of each score plugin."""

    at: Mapping[str, tuple[str, ...]]
    weights: Mapping[str, int]

    @property
    def names(self) -> frozenset[str]:
        return frozenset(name for plugins in self.at.values() for name in plugins)


def resolve(custom: Plugins | None, default: Plugins = DEFAULT_PLUGINS) -> tuple[ResolvedPlugins, tuple[Fault, ...]]:
    """The plugins of a profile, and everything that is wrong with its sets (paths are below `plugins`)."""
    faults = list(_reference_faults(custom or Plugins()))
    given = _with_todays_names(custom or Plugins())
    spread = given.multi_point.merged_over(default.multi_point)
    seen: set[str] = set()
    for plugin in spread.enabled:
        if plugin.name in seen:
            faults.append(Fault("multiPoint.enabled", f"{plugin.name} is enabled twice"))
        seen.add(plugin.name)
    at: dict[str, tuple[str, ...]] = {}
    weights: dict[str, int] = {}
    for point in POINTS:
        own = given.at(point).merged_over(default.at(point))
        at[point] = _ordered(point, own, spread)
        if point == "score":
            for plugin in (*own.enabled, *spread.enabled):
                if plugin.name in at[point]:
                    weights.setdefault(plugin.name, plugin.weight or 1)
    if len(at["queueSort"]) != 1:
        faults.append(Fault("queueSort", f"needs exactly one plugin, but has {_listed(at['queueSort'])}"))
    if not at["bind"]:
        faults.append(Fault("bind", "needs at least one plugin, such as DefaultBinder"))
    if sum(weights.values()) * MAX_NODE_SCORE > MAX_TOTAL_SCORE:
        faults.append(Fault("score", "weights are so large that the total score could overflow"))
    return ResolvedPlugins(MappingProxyType(at), MappingProxyType(weights)), tuple(faults)


def _with_todays_names(plugins: Plugins) -> Plugins:
    """The same sets as today's files would write them; a plugin that runs there by default is not listed for it."""
    changed: dict[str, PluginSet] = {}
    for (point, old), new in FORMER.items():
        chosen = changed.get(POINTS[point], plugins.at(point))
        if any(plugin.name == old for plugin in chosen.enabled):
            listed = any(plugin.name == new for plugin in chosen.enabled)
            inherited = "*" not in chosen.disabled_names
            instead = () if listed or inherited else (PluginRef(new),)
            kept = tuple(plugin for plugin in chosen.enabled if plugin.name != old)
            changed[POINTS[point]] = replace(chosen, enabled=(*kept, *instead))
    return replace(plugins, **changed) if changed else plugins


def _ordered(point: str, own: PluginSet, spread: PluginSet) -> tuple[str, ...]:
    """First explicit entries that override a spread plugin, then the spread ones, then the other explicit ones."""
    explicit = list(dict.fromkeys(plugin.name for plugin in own.enabled))
    if "*" in own.disabled_names:
        return tuple(explicit)
    offered = [
        plugin.name
        for plugin in spread.enabled
        if point in IMPLEMENTS.get(plugin.name, ()) and plugin.name not in own.disabled_names
    ]
    overriding = [name for name in explicit if name in offered]
    inherited = [name for name in dict.fromkeys(offered) if name not in overriding]
    return (*overriding, *inherited, *(name for name in explicit if name not in overriding))


def _reference_faults(plugins: Plugins) -> Iterable[Fault]:
    """Names that do not exist, points that a plugin does not have, plugins listed twice, weights that mean nothing."""
    for point in (*POINTS, "multiPoint"):
        chosen = plugins.multi_point if point == "multiPoint" else plugins.at(point)
        seen: set[str] = set()
        for i, plugin in enumerate(chosen.enabled):
            path = f"{point}.enabled[{i}]"
            if (point, plugin.name) in FORMER:
                pass
            elif plugin.name not in IMPLEMENTS:
                yield Fault(f"{path}.name", unknown(plugin.name, "plugin", IMPLEMENTS))
            elif point != "multiPoint" and point not in IMPLEMENTS[plugin.name]:
                has = ", ".join(IMPLEMENTS[plugin.name])
                yield Fault(f"{path}.name", f"{plugin.name} has no {point} (it has {has})")
            if plugin.name in seen:
                yield Fault(f"{path}.name", f"{plugin.name} is enabled twice")
            seen.add(plugin.name)
            if plugin.weight is not None and plugin.weight < 0:
                yield Fault(f"{path}.weight", f"must be 0 (which means 1) or more, not {plugin.weight}")
        for i, plugin in enumerate(chosen.disabled):
            if plugin.name != "*" and plugin.name not in IMPLEMENTS:
                yield Fault(f"{point}.disabled[{i}].name", unknown(plugin.name, "plugin", [*IMPLEMENTS, "*"]))


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(names) if names else "none"
