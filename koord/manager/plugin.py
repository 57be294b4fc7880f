"""A plugin of node resources: one calculation about a node, what it owns there, and its outcome.

`node_resource/plugins.py` lists all plugins in the order in which they run. A new plugin is a file with a `calculate`
function and a line in that list. Nothing else knows a plugin by its name: `node_resource/prepare.py` turns the
outcomes of all plugins into what the Node should show.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from msgspec.structs import replace

from koord.api.configuration.slo_config import NodeSettings
from koord.api.machinery.faults import BadInput
from koord.api.machinery.struct import EMPTY, Struct
from koord.manager.figures import Figure
from koord.manager.node_state import NodeState


class PluginOutcome(Struct):
    """What one plugin computed for one node, or the reason why it could not."""

    plugin: str
    figures: tuple[Figure, ...] = ()
    "Amounts of resources."
    deleted: tuple[str, ...] = ()
    "Resources that the node must not show."
    annotations: Mapping[str, str | None] = EMPTY
    "None removes an annotation."
    labels: Mapping[str, str] = EMPTY
    zones: Mapping[str, tuple[Figure, ...]] = EMPTY
    "Figures by NUMA zone."
    factors: Mapping[str, float] = EMPTY
    "By resource: the factor for the figures of all plugins. Only factors above 1 apply."
    note: str = ""
    "Why there are no figures, or a remark about them."
    reason: str = ""
    "The same as one word, for a condition."
    failed: str = ""
    "Why the plugin could not decide. It then contributes nothing."
    off: bool = False
    "Whether co-location is off here. A node that never lent anything is then not changed."
    is_pool: bool = False
    "See `Plugin.is_pool`."
    pool_names: tuple[str, ...] = ()
    "Words of other systems under whose names the pool is published, too."
    by_other_names: Mapping[str, int] = EMPTY
    "What pods request of the pool by these names."
    pool_requests: Mapping[str, int] = EMPTY
    "What pods request of the pool by any name, by its own."


Calculate: TypeAlias = Callable[[NodeState, NodeSettings, float], PluginOutcome]


@dataclass(frozen=True, slots=True)
class Plugin:
    """A calculation, the resources that it owns, and what happens to them while co-location is off."""

    name: str
    calculate: Calculate
    resources: tuple[str, ...] = ()
    "Resources that it publishes in the node's status."
    lent: bool = False
    "Whether its resources are lent. They are removed while co-location is off, and when they cannot be calculated."
    " Hardware resources stay."
    removed_when_off: tuple[str, ...] = ()
    "Annotations that are removed while co-location is off."
    is_pool: bool = False
    "Whether its resources are the pool that other systems may hold a part of (`koord.manager.lending.pool`). The"
    " node's Lending condition reports on this pool."

    def run(self, state: NodeState, settings: NodeSettings, now_s: float) -> PluginOutcome:
        """The outcome for a node. Unreadable input of one plugin does not affect the others."""
        try:
            outcome = self.calculate(state, settings, now_s)
        except BadInput as error:
            deleted = self.resources if self.lent else ()
            outcome = PluginOutcome(self.name, deleted=deleted, reason="CannotCalculate", failed=str(error))
        return replace(outcome, is_pool=True) if self.is_pool else outcome

    def off(self, why: str) -> PluginOutcome | None:
        """The outcome while co-location is off; None if the plugin changes nothing then."""
        if not self.lent and not self.removed_when_off:
            return None
        return PluginOutcome(
            self.name,
            deleted=self.resources if self.lent else (),
            annotations=dict.fromkeys(self.removed_when_off),
            note=why,
            reason="Disabled" if self.is_pool else "",
            off=self.is_pool,
            is_pool=self.is_pool,
        )
