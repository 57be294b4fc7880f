"""What one round of the descheduler looks at: the current cluster, and the moves under way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from koord.api.kubernetes.autoscaling import going
from koord.api.kubernetes.node import Node
from koord.api.kubernetes.pod import Pod
from koord.api.protocol.crd.node_metric import NodeMetric
from koord.descheduler.moves import Move
from koord.descheduler.places import Places
from koord.descheduler.workloads import Workloads


@dataclass(frozen=True, slots=True)
class Sight:
    now_s: float
    nodes: Mapping[str, Node]
    pods_on: Mapping[str, Sequence[Pod]]
    "By node, those that are not finished."
    metrics: Mapping[str, NodeMetric]
    workloads: Workloads
    places: Places
    moving: Sequence[Move] = ()
    "The moves of PodMigrationJobs that have not ended."
    finished_on: Mapping[str, Sequence[Pod]] = field(default_factory=dict)
    "By node, pods that have finished and are still there."
    priorities: Mapping[str, int] = field(default_factory=dict)
    "Values of PriorityClasses by their names."
    has_all_pods: bool = False
    "Whether a pod that is not listed is gone. Files may simply not include it."

    def steady_nodes(self) -> list[str]:
        """Nodes that are ready, or do not say, by name. An autoscaler that takes a node away moves its pods itself."""
        names = []
        for name, node in self.nodes.items():
            ready = node.status.condition("Ready")
            if (ready is None or ready.status == "True") and going(node) is None:
                names.append(name)
        return sorted(names)
