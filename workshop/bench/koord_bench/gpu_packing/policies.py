"""The policies of the benchmark by their names, set up for a cluster and a mix of pods."""

from __future__ import annotations

import random
from typing import Final, Protocol

from koord.scheduler.plugins.packing.fragmentation import Fragmentation, typical
from koord.scheduler.plugins.packing.shadow_prices import Valuation, idle_of, work_out
from koord.scheduler.plugins.packing.shapes import Fleet, PodShape
from koord.scheduler.plugins.packing.slots import PREMIUM
from koord_bench.gpu_packing.baselines import BASELINES, AtRandom, Baseline
from koord_bench.gpu_packing.engine import EngineReplay
from koord_bench.gpu_packing.replay import Placed, Replay
from koord_bench.gpu_packing.traces import Trace, fleet_of

RANDOM: Final = "Random"
FGD: Final = "FGD"
SHADOW: Final = "ShadowPrices"
POLICIES: Final = (RANDOM, *BASELINES, FGD, SHADOW)


class Places(Protocol):
    """A cluster under a policy: what a benchmark drives."""

    took_s: float
    "CPU time of all decisions so far."

    def place(self, shape: PodShape) -> Placed | None: ...


def set_up(policy: str, trace: Trace) -> Places:
    """An empty cluster under a policy, which knows the nodes and the mix of the trace, and not the order of pods.
    Shadow prices are those of the scheduling engine and its plugin; the others are what others compare with."""
    return EngineReplay(trace, policy) if policy == SHADOW else replay_of(policy, trace)


def replay_of(policy: str, trace: Trace, premium: float = PREMIUM) -> Replay:
    """The same for any policy, without the engine."""
    fleet = fleet_of(trace.nodes)
    if policy == RANDOM:
        return Replay(fleet, AtRandom(fleet, random.Random(trace.seed)))
    if policy == FGD:
        return _refreshed(fleet, Fragmentation(fleet, typical(trace.mix)))
    if policy == SHADOW:
        return _refreshed(fleet, Valuation(fleet, work_out(fleet.groups, trace.mix, idle_of(fleet), premium)))
    baseline = Baseline(fleet, BASELINES[policy])
    return Replay(fleet, baseline, [baseline.came])


def _refreshed(fleet: Fleet, policy: Fragmentation | Valuation) -> Replay:
    """Under a policy that counts rows when they change."""

    def refresh(shape: PodShape, row: int) -> None:
        policy.refresh_one(row)

    return Replay(fleet, policy, [refresh])
