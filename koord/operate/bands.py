"""How a cluster's CPU is used, by priority band, as its nodes last reported it; and how that changed lately."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from koord.api.kubernetes.node import Node
from koord.api.protocol.annotations.colocation import THIRD_PARTY_ALLOCATIONS
from koord.api.protocol.annotations.value import AnnotationError
from koord.api.protocol.copilot import DIRECTORY as YARN
from koord.api.protocol.crd.node_metric import NodeMetric
from koord.api.protocol.names import RESOURCE_BATCH_CPU
from koord.api.text.quantity import QuantityError, milli, value

BANDS: Final = ("prod", "mid", "batch", "free", "system")
KEPT: Final = 60
_BARS: Final = " ▁▂▃▄▅▆▇█"


@dataclass(frozen=True, slots=True)
class Used:
    """Milli-cores of one node, by band."""

    cpu_milli: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Room:
    """Milli-cores that a node has, that it lends to pods, and that it lends to YARN."""

    cpu_milli: int = 0
    lent_milli: int = 0
    yarn_milli: int = 0


def band_of(priority: str) -> str:
    """The band of a priority class; pods without a class count as services."""
    band = priority.removeprefix("koord-")
    return band if band in BANDS else "prod"


def used_of(metric: NodeMetric) -> Used:
    used = dict.fromkeys(BANDS, 0)
    for pod in metric.status.pods_metric:
        used[band_of(pod.priority)] += milli(pod.pod_usage.resources.get("cpu", 0))
    if metric.status.node_metric is not None:
        used["system"] = milli(metric.status.node_metric.system_usage.resources.get("cpu", 0))
    return Used(used)


def room_of(node: Node) -> Room:
    lent = value(node.status.allocatable.get(RESOURCE_BATCH_CPU, 0))
    return Room(milli(node.status.capacity.get("cpu", 0)), lent, _yarn(node))


def _yarn(node: Node) -> int:
    try:
        held = THIRD_PARTY_ALLOCATIONS.read(node.metadata).allocations
        return sum(
            value(allocation.resources.get(RESOURCE_BATCH_CPU, 0)) for allocation in held if allocation.name == YARN
        )
    except (AnnotationError, QuantityError):
        return 0


@dataclass(slots=True)
class Bands:
    """The sums over all nodes, and the course of the last minutes, in parts of all CPU."""

    room: Room = field(default_factory=Room)
    used: Mapping[str, int] = field(default_factory=dict)
    course: dict[str, deque[float]] = field(default_factory=lambda: {band: deque(maxlen=KEPT) for band in BANDS})

    def look(self, rooms: Iterable[Room], used: Iterable[Used]) -> None:
        """Adds the current sums to the course."""
        rooms_now = list(rooms)
        self.room = Room(
            sum(room.cpu_milli for room in rooms_now),
            sum(room.lent_milli for room in rooms_now),
            sum(room.yarn_milli for room in rooms_now),
        )
        sums = dict.fromkeys(BANDS, 0)
        for of_node in used:
            for band, amount in of_node.cpu_milli.items():
                sums[band] += amount
        self.used = sums
        for band in BANDS:
            self.course[band].append(sums[band] / self.room.cpu_milli if self.room.cpu_milli else 0.0)

    def rows(self) -> list[tuple[str, int, float, str]]:
        """Band, milli-cores, part of all, and its course as bars. Bands that were never used are left out."""
        rows = []
        for band in BANDS:
            course = self.course[band]
            if any(course):
                rows.append((band, self.used.get(band, 0), course[-1], bars(course)))
        return rows


def bars(course: Iterable[float], full: float = 1.0) -> str:
    """One character for each, as high as its part of `full`; whatever is not nothing can be seen."""
    steps = len(_BARS) - 1
    return "".join(_BARS[min(max(round(part / full * steps), 1 if part > 0 else 0), steps)] for part in course)
