"""The cluster of a run before its first minute: nodes, services with their places, and batch pods to come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from koord.sim.columns import BatchTasks, NodeGpus, Repair, ServiceCurves
from koord.sim.minutes import NodeColumns

UNPLACED: Final = -1
"""In place of a node's row: the scheduler finds the pod's node."""


@dataclass(frozen=True, slots=True)
class ArrivalView:
    """What a closed loop of arrivals may look at."""

    pending: int
    "Batch pods that wait for a node."
    running: int
    done: Sequence[int]
    "Numbers of the batch pods that ended since the last call, in the order of their arrival counted from 0."


class Arrivals(Protocol):
    """Batch pods that come by what happens, and not by a list of times."""

    def due(self, now_s: float, view: ArrivalView) -> BatchTasks:
        """Called at the beginning of each minute. The tasks that come now, in their order; their `step_s` must not
        change within a run. Equal calls give equal tasks, also in a run that is resumed: an object that remembers must
        be able to remember again from the calls."""
        ...


@dataclass(frozen=True, slots=True)
class Cluster:
    nodes: NodeColumns
    services: ServiceCurves
    service_node: NDArray[np.int64]
    "By service, the row of its node, or `UNPLACED`."
    tasks: BatchTasks
    system_milli: NDArray[np.float64] | None = None
    "By node, what is used outside of pods; None: nothing."
    repairs: tuple[Repair, ...] = ()
    labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    "Labels of nodes beside those that every node has, by the node's name."
    gpus: Mapping[str, NodeGpus] = field(default_factory=dict)
    "By the node's name; nodes that are not here have none."
