"""Pods that come and stay: how much of all GPU is allocated, by how much of it pods have asked for.

Sampled after every arrival, as the mean of samples whose arrived percentage rounds to the same number.
Samples have two decimals, as those that others have published.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from koord.scheduler.plugins.packing.shapes import PodShape
from koord_bench.gpu_packing.ceiling import ceiling_milli
from koord_bench.gpu_packing.policies import Places
from koord_bench.gpu_packing.traces import Trace, fleet_of
from koord_bench.gpu_packing.verifier import Verifier

FULL: Final = 100
"""Where policies are compared: when pods have asked for as much GPU as there is."""


@dataclass(frozen=True, slots=True)
class Arrivals:
    """What became of one order of arrival."""

    allocated: dict[int, float]
    "Percent of all GPU, by percent arrived."
    placed: int
    dropped: int
    pods_s: float
    "Placed or dropped by a second of CPU time."
    faults: list[str]

    @property
    def at_full(self) -> float:
        return self.allocated.get(FULL, 0.0)


def replay(trace: Trace, places: Places, until: int = 130) -> Arrivals:
    """Place all pods in their order. `until`: the last percentage."""
    verifier, total = Verifier(trace.nodes), trace.gpu_milli
    sums: dict[int, list[float]] = {}
    arrived = allocated = placed = dropped = 0
    for number, i in enumerate(trace.arrivals):
        shape = trace.pods[i].shape
        arrived += shape.total_milli
        percent = round(100 * arrived / total)
        if percent > until:
            break
        placement = places.place(shape)
        verifier.place(shape, placement, number)
        if placement is None:
            dropped += 1
        else:
            placed += 1
            allocated += shape.total_milli
        sums.setdefault(percent, []).append(round(100 * allocated / total, 2))
    curve = {percent: sum(values) / len(values) for percent, values in sums.items()}
    faults = list(verifier.faults)
    if verifier.taken_milli != allocated:
        faults.append(f"{verifier.taken_milli} milli are taken, {allocated} were counted")
    return Arrivals(curve, placed, dropped, (placed + dropped) / max(places.took_s, 1e-9), faults)


def ceiling(trace: Trace, percent: int = FULL) -> float:
    """The most that any policy can have allocated by then, in percent."""
    demand: dict[PodShape, float] = {}
    arrived = 0
    for i in trace.arrivals:
        shape = trace.pods[i].shape
        arrived += shape.total_milli
        if round(100 * arrived / trace.gpu_milli) > percent:
            break
        demand[shape] = demand.get(shape, 0.0) + 1
    return 100 * ceiling_milli(fleet_of(trace.nodes), demand) / trace.gpu_milli
