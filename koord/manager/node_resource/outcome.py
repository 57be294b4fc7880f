"""What one plugin makes of one node: resources, annotations, labels; or a reason why it cannot say."""

from __future__ import annotations

from collections.abc import Mapping

from koord.api.machinery.struct import EMPTY, Struct
from koord.manager.node_resource.terms import Figure


class PluginOutcome(Struct):
    plugin: str
    figures: tuple[Figure, ...] = ()
    "What resources come to."
    deleted: tuple[str, ...] = ()
    "Resources that the node must not show."
    annotations: Mapping[str, str | None] = EMPTY
    "None takes one away."
    labels: Mapping[str, str] = EMPTY
    zones: Mapping[str, tuple[Figure, ...]] = EMPTY
    "By NUMA zone."
    note: str = ""
    "Why there is nothing, or what is to be known about it."
    reason: str = ""
    "The same in a word, for a condition."
    failed: str = ""
    "Why the plugin could not decide. It then contributes nothing."
    off: bool = False
    "Whether co-location is off here: a node on which nothing was ever lent is then not touched."
