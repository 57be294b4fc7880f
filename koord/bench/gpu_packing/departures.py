"""Pods that come and go: how much of the GPU that they ask for is refused, at a given load.

Pods are drawn from a trace with their own life times, and come by a Poisson process. The load is the GPU that would be
in use if none were refused, of all GPU. The cluster starts as full as it would be then (pods that are alive at a moment
are the long-lived ones, somewhere in their lives), so what is measured does not depend on how it was filled.
"""

from __future__ import annotations

import heapq
import random
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from koord.bench.gpu_packing.policies import Places
from koord.bench.gpu_packing.traces import Trace
from koord.bench.gpu_packing.verifier import Verifier
from koord.scheduler.plugins.packing.shapes import PodShape

PODS: Final = 20_000
SHORTEST_S: Final = 1


@dataclass(frozen=True, slots=True)
class Departures:
    """What became of the pods that came after the start."""

    asked_milli: int
    refused_milli: int
    in_use: float
    "Percent of all GPU, in the mean of arrivals."
    faults: list[str]

    @property
    def refused(self) -> float:
        """Percent of the GPU that was asked for."""
        return 100 * self.refused_milli / max(self.asked_milli, 1)


def replay(trace: Trace, places: Places, load: float, pods: int = PODS) -> Departures:
    """The same pods at the same times for every policy."""
    rng = random.Random(f"{trace.name} {trace.seed} {load}")
    lives = [max(pod.ends_s - pod.begins_s, SHORTEST_S) for pod in trace.pods]
    shapes = [pod.shape for pod in trace.pods]
    milli_s = sum(shape.total_milli * life for shape, life in zip(shapes, lives, strict=True)) / len(lives)
    rate = load * trace.gpu_milli / milli_s
    verifier = Verifier(trace.nodes)
    leaving: list[tuple[float, int]] = []
    "When, and a number that leads to the pod."
    present = {}
    number = asked = refused = in_use = 0
    sum_in_use = 0.0

    def arrive(shape: PodShape, ends_s: float) -> bool:
        nonlocal number, in_use
        found = places.place(shape)
        verifier.place(shape, found, number)
        if found is not None:
            present[number] = shape, found
            heapq.heappush(leaving, (ends_s, number))
            in_use += shape.total_milli
        number += 1
        return found is not None

    weights = list(accumulate(lives))
    for _ in range(round(rate * weights[-1] / len(lives))):
        i = rng.choices(range(len(lives)), cum_weights=weights)[0]
        arrive(shapes[i], rng.random() * lives[i])
    now_s = 0.0
    for _ in range(pods):
        now_s += rng.expovariate(rate)
        while leaving and leaving[0][0] <= now_s:
            shape, placed = present.pop(heapq.heappop(leaving)[1])
            places.remove(shape, placed)
            verifier.remove(shape, placed)
            in_use -= shape.total_milli
        i = rng.randrange(len(lives))
        asked += shapes[i].total_milli
        if not arrive(shapes[i], now_s + lives[i]):
            refused += shapes[i].total_milli
        sum_in_use += in_use
    return Departures(asked, refused, 100 * sum_in_use / max(pods, 1) / trace.gpu_milli, list(verifier.faults))
