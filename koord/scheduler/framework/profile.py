"""A profile: which plugins take part in the decisions about pods of one scheduler name, and in which order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from koord.api.configuration.scheduler_plugins import IMPLEMENTS
from koord.scheduler.framework.plugin import Plugin

Ties: TypeAlias = Literal["by class", "fixed"]
"""Which nodes equal scores favour: another order of nodes for every class of pods, or one order for all."""


class PodBounds(Plugin):
    """Turns away pods beyond the bounds, before any plugin of a profile looks at them. Nothing that happens in the
    cluster helps them."""

    name = "PodBounds"


POD_BOUNDS: Final = PodBounds()


@dataclass(frozen=True, slots=True)
class Profile:
    """Which plugins take part, in which order, with which weights."""

    name: str
    plugins: tuple[Plugin, ...]
    "In the order in which a node meets their filters."
    weights: dict[str, int]
    order: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    "By extension point, the names of who takes part, in order. A point that is not here: all who have it."
    scores_only: Mapping[str, bool] = field(default_factory=dict)
    "Plugins whose filter is off, and whether they still say what they know before filters."
    judging_not: frozenset[str] = frozenset()
    "Plugins that take part at other points alone: they neither filter nor score."
    ties: Ties = "by class"

    def at(self, point: str, attribute: str) -> list[tuple[str, Any]]:
        """The plugins that take part at a point and have the attribute, in the point's order: their names, and what the
        attribute is. Plugins that no configuration knows come last."""
        having = [(plugin.name, value) for plugin in self.plugins if (value := getattr(plugin, attribute)) is not None]
        order = self.order.get(point)
        if order is None:
            return having
        place = {name: i for i, name in enumerate(order)}
        values = [named_value for named_value in having if named_value[0] in place or named_value[0] not in IMPLEMENTS]
        return sorted(values, key=lambda named_value: place.get(named_value[0], len(place)))

    def rank_before_filters(self, plugin: str) -> int:
        """The place of a plugin among those that are asked before filters: if several refuse a pod on every node, the
        first one counts."""
        order = self.order.get("preFilter", ())
        if plugin not in IMPLEMENTS:
            return 0
        return order.index(plugin) if plugin in order else len(order)
