"""Nominating: which nodes a pod is tried on first, and when pods that are nominated to a node need a closer look.

A nominated pod waits until its victims have left. The amounts that it needs count for all others; `meets` says whether
it could also keep another pod off its node, by a port for example.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from koord.scheduler.state.table import Row

if TYPE_CHECKING:
    from koord.scheduler.framework.ask import Ask
    from koord.scheduler.state.cluster import Cluster
    from koord.scheduler.state.pods import PodRecord


@dataclass(frozen=True, slots=True)
class Nominating:
    """What one plugin says of nodes that are meant for certain pods."""

    prefers: Callable[[Ask, Cluster], Sequence[Row]] | None = None
    """Rows that a pod is tried on first, in their order: the first one that all plugins take is taken, whatever the
    scores. Few: each costs a look."""
    meets: Callable[[Ask, PodRecord], bool] | None = None
    "Whether a pod that is nominated to the same node could keep a pod off it, for more than its amounts."
