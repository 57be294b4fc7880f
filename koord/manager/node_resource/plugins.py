"""All plugins of node_resource, in the order in which they run, and the calculation of a whole node.

`--noderesource-plugins` chooses: `*` is all, a name is that one, `-Name` is not that one. What a plugin that is not
chosen would write is left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from koord.api.configuration.slo_config import NodeSettings, SloConfig
from koord.api.machinery.faults import BadInput
from koord.api.protocol import names
from koord.manager.node_resource import amplification, batch, devices, mid, normalization, zones
from koord.manager.node_resource.outcome import Outcome
from koord.manager.node_resource.state import BATCH, MID, NodeState

Calculate: TypeAlias = Callable[[NodeState, NodeSettings, float], Outcome]

ALL: Final = (
    normalization.NAME,
    amplification.NAME,
    mid.NAME,
    batch.NAME,
    devices.GPU_NAME,
    devices.RDMA_NAME,
)


class PluginError(BadInput):
    """A list of plugins that names one which does not exist."""


@dataclass(frozen=True, slots=True)
class Plugins:
    """Those that run, by name."""

    run: tuple[tuple[str, Calculate], ...]


def choose(wanted: Sequence[str] = ("*",), *, gpu_shared: bool = False) -> Plugins:
    """The plugins that a list asks for."""
    known: dict[str, Calculate] = {
        normalization.NAME: normalization.calculate,
        amplification.NAME: amplification.calculate,
        mid.NAME: mid.calculate,
        batch.NAME: zones.calculate,
        devices.GPU_NAME: devices.gpu(shared=gpu_shared),
        devices.RDMA_NAME: devices.rdma,
    }
    for each in wanted:
        if each != "*" and each.removeprefix("-") not in known:
            raise PluginError(
                f"there is no plugin {each!r}; there are {', '.join(known)}, each also with a - before it"
            )
    return Plugins(tuple((name, known[name]) for name in ALL if _is_wanted(name, wanted)))


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
) -> tuple[Outcome, ...]:
    """What every plugin makes of a node. One that fails does not keep the others from theirs."""
    off = why_off(config, settings)
    if off:
        return reset(plugins, off)
    return tuple(_tried(name, run, state, settings, now_s) for name, run in plugins.run)


def _tried(name: str, run: Calculate, state: NodeState, settings: NodeSettings, now_s: float) -> Outcome:
    try:
        return run(state, settings, now_s)
    except BadInput as error:
        return Outcome(name, deleted=_LENT.get(name, ()), reason="CannotCalculate", failed=str(error))


_LENT: Final[Mapping[str, tuple[str, ...]]] = {mid.NAME: MID, batch.NAME: BATCH}
"""What is taken back where it cannot be calculated. What belongs to the hardware stays."""


def reset(plugins: Plugins, why: str) -> tuple[Outcome, ...]:
    """Co-location is off: what was lent is taken back, what belongs to the hardware stays."""
    taken: dict[str, Outcome] = {
        mid.NAME: Outcome(mid.NAME, deleted=MID, note=why),
        batch.NAME: Outcome(batch.NAME, deleted=BATCH, note=why, reason="Disabled", off=True),
        amplification.NAME: Outcome(
            amplification.NAME, annotations={names.ANNOTATION_RESOURCE_AMPLIFICATION_RATIO: None}, note=why
        ),
    }
    return tuple(taken[name] for name, _ in plugins.run if name in taken)
