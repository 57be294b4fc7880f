"""Pods that come and go: how much of the GPU time that they ask for is refused, at a given load.

Pods are drawn from a trace with their own life times, and come by a Poisson process. The load is the GPU that would be
in use if none were refused, of all GPU. The cluster starts as full as it would be then: pods that are alive at a moment
are mostly long-lived, somewhere in their lives. A pod asks for its GPU from when it comes until it ends, or until the
last pod comes; so a policy gains nothing by refusing long-lived pods in favour of many short ones.
"""

from __future__ import annotations

import heapq
import random
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Final, NamedTuple

from koord.scheduler.plugins.packing.shapes import PodShape
from koord_bench.gpu_packing.policies import Places
from koord_bench.gpu_packing.replay import Placed
from koord_bench.gpu_packing.traces import Trace
from koord_bench.gpu_packing.verifier import Verifier

PODS: Final = 20_000


@dataclass(slots=True)
class Departures:
    """What became of the pods."""

    asked_milli_s: float = 0.0
    refused_milli_s: float = 0.0
    asked_milli: int = 0
    refused_milli: int = 0
    "The same of pods, however long they would have run."
    faults: list[str] = field(default_factory=list)

    @property
    def refused(self) -> float:
        """Percent of the GPU time that was asked for."""
        return 100 * self.refused_milli_s / max(self.asked_milli_s, 1.0)

    @property
    def refused_pods(self) -> float:
        """Percent of the GPU that pods asked for."""
        return 100 * self.refused_milli / max(self.asked_milli, 1)


class _Coming(NamedTuple):
    pod: int
    at_s: float
    ends_s: float


def replay(trace: Trace, places: Places, load: float, pods: int = PODS) -> Departures:
    """The same pods at the same times for every policy."""
    coming = _coming(trace, load, pods)
    last_s = coming[-1].at_s
    verifier, departures = Verifier(trace.nodes), Departures()
    present: dict[int, tuple[PodShape, Placed]] = {}
    leaving: list[tuple[float, int]] = []
    for number, (pod, at_s, ends_s) in enumerate(coming):
        while leaving and leaving[0][0] <= at_s:
            left_s, gone = heapq.heappop(leaving)
            places.now(left_s)
            shape, placed = present.pop(gone)
            places.remove(shape, placed)
            verifier.remove(shape, placed)
        places.now(at_s)
        shape = trace.pods[pod].shape
        here = places.place(shape)
        verifier.place(shape, here, number)
        milli_s = shape.total_milli * (min(ends_s, last_s) - at_s)
        departures.asked_milli += shape.total_milli
        departures.asked_milli_s += milli_s
        if here is None:
            departures.refused_milli += shape.total_milli
            departures.refused_milli_s += milli_s
        else:
            present[number] = shape, here
            heapq.heappush(leaving, (ends_s, number))
    departures.faults = list(verifier.faults)
    return departures


def _coming(trace: Trace, load: float, pods: int) -> list[_Coming]:
    """Pods that run at the start, and pods that arrive later."""
    rng = random.Random(f"{trace.name} {trace.seed} {load}")
    lives = [pod.life_s for pod in trace.pods]
    milli_s = sum(pod.shape.total_milli * life for pod, life in zip(trace.pods, lives, strict=True)) / len(lives)
    rate = load * trace.gpu_milli / milli_s
    weights = list(accumulate(lives))
    there = rng.choices(range(len(lives)), cum_weights=weights, k=round(rate * weights[-1] / len(lives)))
    coming = [_Coming(pod, 0.0, rng.random() * lives[pod]) for pod in there]
    now_s = 0.0
    for _ in range(pods):
        now_s += rng.expovariate(rate)
        pod = rng.randrange(len(lives))
        coming.append(_Coming(pod, now_s, now_s + lives[pod]))
    return coming
