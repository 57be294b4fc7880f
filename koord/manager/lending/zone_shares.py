"""The share of each NUMA zone in what a node lends by a policy that knows no zones.

    zone = requests of batch pods in the zone + room of the node * zone's capacity / capacity of all zones

at most the zone's capacity, and at least the requests there. A pod without NUMA nodes is in all zones alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from koord.manager.figures import REQUESTS, Figure, Term, figure
from koord.manager.lending.policy import Resource
from koord.manager.node_state import PodRow

_PLACE: Final = {"cpu": 0, "memory": 1}


class Shares:
    """Of all zones of one node."""

    def __init__(self, pods: Sequence[PodRow], capacities: Sequence[tuple[int, int]]) -> None:
        """`capacities`: CPU and memory of each zone."""
        self._capacities = capacities
        self._requests = [[0.0, 0.0] for _ in capacities]
        zones = range(len(capacities))
        for pod in pods:
            if pod.active and (pod.batch_cpu_milli or pod.batch_memory_bytes):
                places = [node for node in dict.fromkeys(pod.numa_nodes) if node in zones] or zones
                for place in places:
                    self._requests[place][0] += pod.batch_cpu_milli / len(places)
                    self._requests[place][1] += pod.batch_memory_bytes / len(places)

    def figure(self, of_node: Figure, resource: Resource, zone: int) -> Figure:
        unit = _PLACE[resource]
        capacity, whole = self._capacities[zone][unit], sum(amounts[unit] for amounts in self._capacities)
        requested = int(self._requests[zone][unit])
        room = max(0, of_node.amount - int(sum(amounts[unit] for amounts in self._requests)))
        terms = (
            Term("start", "room", room * capacity // whole if whole else 0, f"share of the node's {room}, by size"),
            Term("plus", REQUESTS, requested, "of the batch pods there"),
            Term("atMost", "zone", max(capacity, requested), "no zone lends more than it has"),
        )
        return figure(of_node.resource, terms, of_node.policy)
