"""All calculations of node_resource, in the order in which they run, and the calculation of a whole node.

`--noderesource-plugins` chooses: `*` is all, a name is that one, `-Name` is not that one. What a calculation that is
not chosen would write is left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from koord.api.configuration.slo_config import NodeSettings, SloConfig
from koord.api.machinery.faults import BadInput
from koord.api.protocol import names
from koord.manager.lending import batch, mid, zones
from koord.manager.node_resource import amplification, devices, normalization
from koord.manager.node_resource.outcome import PluginOutcome
from koord.manager.node_resource.state import BATCH, GPU, MID, RDMA, NodeState

Calculate: TypeAlias = Callable[[NodeState, NodeSettings, float], PluginOutcome]


@dataclass(frozen=True, slots=True)
class Calculation:
    """One calculation: what it owns on a node, and what becomes of that while co-location is off."""

    name: str
    run: Calculate
    resources: tuple[str, ...] = ()
    "What it publishes in the node's status."
    lent: bool = False
    "Whether its resources are lent: they are taken back while co-location is off or they cannot be calculated. What"
    " belongs to the hardware stays."
    taken_back: tuple[str, ...] = ()
    "Annotations that are taken away while co-location is off."
    tells_lending: bool = False
    "Whether the node's condition about lending follows it."

    def off(self, why: str) -> PluginOutcome | None:
        """What it makes of a node on which co-location is off; None leaves everything as it is."""
        if not self.lent and not self.taken_back:
            return None
        return PluginOutcome(
            self.name,
            deleted=self.resources if self.lent else (),
            annotations=dict.fromkeys(self.taken_back),
            note=why,
            reason="Disabled" if self.tells_lending else "",
            off=self.tells_lending,
        )

    def tried(self, state: NodeState, settings: NodeSettings, now_s: float) -> PluginOutcome:
        """What it makes of a node. Input that cannot be read never keeps other calculations from theirs."""
        try:
            return self.run(state, settings, now_s)
        except BadInput as error:
            taken = self.resources if self.lent else ()
            return PluginOutcome(self.name, deleted=taken, reason="CannotCalculate", failed=str(error))


def calculations(*, gpu_shared: bool = False) -> tuple[Calculation, ...]:
    """All of them, in the order in which they run. `gpu_shared` is the gate EnableSyncGPUSharedResource."""
    return (
        Calculation(normalization.NAME, normalization.calculate),
        Calculation(
            amplification.NAME,
            amplification.calculate,
            taken_back=(names.ANNOTATION_RESOURCE_AMPLIFICATION_RATIO,),
        ),
        Calculation(mid.NAME, mid.calculate, MID, lent=True),
        Calculation(batch.NAME, zones.calculate, BATCH, lent=True, tells_lending=True),
        Calculation(devices.GPU_NAME, devices.gpu(shared=gpu_shared), GPU),
        Calculation(devices.RDMA_NAME, devices.rdma, RDMA),
    )


ALL: Final = tuple(each.name for each in calculations())


class PluginError(BadInput):
    """A list of plugins that names one which does not exist."""


@dataclass(frozen=True, slots=True)
class Plugins:
    """The calculations that run."""

    chosen: tuple[Calculation, ...]


def choose(wanted: Sequence[str] = ("*",), *, gpu_shared: bool = False) -> Plugins:
    """The calculations that a list asks for."""
    for each in wanted:
        if each != "*" and each.removeprefix("-") not in ALL:
            raise PluginError(f"there is no plugin {each!r}; there are {', '.join(ALL)}, each also with a - before it")
    known = calculations(gpu_shared=gpu_shared)
    return Plugins(tuple(each for each in known if _is_wanted(each.name, wanted)))


def _is_wanted(name: str, wanted: Sequence[str]) -> bool:
    """The first entry that names a plugin decides."""
    for each in wanted:
        if each == name:
            return True
        if each == f"-{name}":
            return False
    return "*" in wanted


def why_off(config: SloConfig, settings: NodeSettings) -> str:
    """Why nothing is lent on a node at all; empty where it may be. A node cannot switch on what the cluster has off."""
    if config.colocation_state == "unavailable":
        return "colocation-config is invalid and no valid one is known: the manager leaves nodes as they are"
    if not config.is_colocation_enabled:
        return "co-location is off in the cluster (colocation-config: enable is not true)"
    if not settings.colocation.enable:
        where = next((each.where for each in reversed(settings.colocation_layers) if _switches_off(each.settings)), "")
        return f"co-location is off for this node ({where or 'colocation-config'})"
    return ""


def _switches_off(layer: object) -> bool:
    return getattr(layer, "enable", None) is False


def calculate(
    state: NodeState, config: SloConfig, settings: NodeSettings, plugins: Plugins, now_s: float
) -> tuple[PluginOutcome, ...]:
    """What every calculation makes of a node."""
    off = why_off(config, settings)
    if off:
        return reset(plugins, off)
    return tuple(each.tried(state, settings, now_s) for each in plugins.chosen)


def reset(plugins: Plugins, why: str) -> tuple[PluginOutcome, ...]:
    """Co-location is off: what was lent is taken back, what belongs to the hardware stays."""
    return tuple(taken for each in plugins.chosen if (taken := each.off(why)) is not None)
