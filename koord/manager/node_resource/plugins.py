"""All plugins of node resources, in the order in which they run, and the calculation of a whole node.

`--noderesource-plugins` selects plugins: `*` is all of them, a name is that plugin, `-Name` excludes it. What an
excluded plugin would write is left alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from koord.api.configuration.slo_config import NodeSettings, SloConfig
from koord.api.machinery.faults import BadInput
from koord.api.protocol import names
from koord.manager.lending import batch, mid, zones
from koord.manager.node_resource import amplification, devices, normalization
from koord.manager.node_state import BATCH, GPU, MID, RDMA, NodeState
from koord.manager.plugin import Plugin, PluginOutcome


def all_plugins(*, gpu_shared: bool = False) -> tuple[Plugin, ...]:
    """All plugins, in the order in which they run. `gpu_shared` is the gate EnableSyncGPUSharedResource."""
    return (
        Plugin(normalization.NAME, normalization.calculate),
        Plugin(
            amplification.NAME,
            amplification.calculate,
            removed_when_off=(names.ANNOTATION_RESOURCE_AMPLIFICATION_RATIO,),
        ),
        Plugin(mid.NAME, mid.calculate, MID, lent=True),
        Plugin(batch.NAME, zones.calculate, BATCH, lent=True, is_pool=True),
        Plugin(devices.GPU_NAME, devices.gpu(shared=gpu_shared), GPU),
        Plugin(devices.RDMA_NAME, devices.rdma, RDMA),
    )


NAMES: Final = tuple(plugin.name for plugin in all_plugins())


class PluginError(BadInput):
    """A list of plugins contains an unknown name."""


def choose(wanted: Sequence[str] = ("*",), *, gpu_shared: bool = False) -> tuple[Plugin, ...]:
    """The plugins that a list selects."""
    for entry in wanted:
        if entry != "*" and entry.removeprefix("-") not in NAMES:
            raise PluginError(
                f"there is no plugin {entry!r}; there are {', '.join(NAMES)}, each also with a - before it"
            )
    return tuple(plugin for plugin in all_plugins(gpu_shared=gpu_shared) if _is_wanted(plugin.name, wanted))


def _is_wanted(name: str, wanted: Sequence[str]) -> bool:
    """The first entry that names a plugin decides."""
    for entry in wanted:
        if entry == name:
            return True
        if entry == f"-{name}":
            return False
    return "*" in wanted


def why_off(config: SloConfig, settings: NodeSettings) -> str:
    """Why co-location is off on a node; empty if it is on. A node cannot enable what the cluster disables."""
    if config.colocation_state == "unavailable":
        return "colocation-config is invalid and no valid one is known: the manager leaves nodes unchanged"
    if not config.is_colocation_enabled:
        return "co-location is off in the cluster (colocation-config: enable is not true)"
    if not settings.colocation.enable:
        layers = reversed(settings.colocation_layers)
        where = next((layer.where for layer in layers if _switches_off(layer.settings)), "")
        return f"co-location is off for this node ({where or 'colocation-config'})"
    return ""


def _switches_off(layer: object) -> bool:
    return getattr(layer, "enable", None) is False


def calculate(
    state: NodeState, config: SloConfig, settings: NodeSettings, plugins: Sequence[Plugin], now_s: float
) -> tuple[PluginOutcome, ...]:
    """The outcomes of all selected plugins for a node."""
    off = why_off(config, settings)
    if off:
        return reset(plugins, off)
    return tuple(plugin.run(state, settings, now_s) for plugin in plugins)


def reset(plugins: Sequence[Plugin], why: str) -> tuple[PluginOutcome, ...]:
    """The outcomes while co-location is off: lent resources are removed, hardware resources stay."""
    return tuple(outcome for plugin in plugins if (outcome := plugin.off(why)) is not None)
