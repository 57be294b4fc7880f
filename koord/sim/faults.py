"""What goes wrong, and when: failures of nodes, reports that are lost, agents that are silent for an hour.

All of it follows from the seed and the time, so that a resumed run meets the same faults.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from koord.api.text.duration import parse_duration
from koord.sim.minutes import Flags, Floats, Ints
from koord.sim.scenario import DAY_S, FaultSettings

SILENT_S: Final = 3600.0
TOLERATED_S: Final = 300.0
"""How long pods stay on a node that does not answer: Kubernetes' default toleration."""
_FAILURES, _LOST, _SILENT = 1, 2, 3
"""What chance is asked about."""


def random(seed: int, about: int, number: int) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(key=np.array([seed, number], np.uint64), counter=[0, 0, 0, about]))


@dataclass(frozen=True, slots=True)
class Outages:
    node: Ints
    from_s: Floats
    to_s: Floats

    def down(self, now_s: float, nodes: int) -> Flags:
        """Nodes that are down now."""
        down = np.zeros(nodes, np.bool_)
        down[self.node[(self.from_s <= now_s) & (now_s < self.to_s)]] = True
        return down

    def down_for(self, now_s: float, seconds: float, nodes: int) -> Flags:
        """Nodes that are down, and have been for so long."""
        down = np.zeros(nodes, np.bool_)
        down[self.node[(self.from_s + seconds <= now_s) & (now_s < self.to_s)]] = True
        return down


def outages(faults: FaultSettings, seed: int, nodes: int, until_s: float) -> Outages:
    """All failures until then. The time between failures of a node is exponential."""
    failures = faults.node_failures
    if failures is None:
        return Outages(np.zeros(0, np.int64), np.zeros(0), np.zeros(0))
    every_s, lasting_s = parse_duration(failures.every), parse_duration(failures.lasting)
    rows, begins = [], []
    now_s = np.zeros(nodes)
    number = 0
    while (now_s < until_s).any():
        now_s = now_s + random(seed, _FAILURES, number).exponential(every_s, nodes)
        failing = np.flatnonzero(now_s < until_s)
        rows.append(failing)
        begins.append(now_s[failing])
        now_s = now_s + lasting_s
        number += 1
    from_s = np.concatenate(begins)
    return Outages(np.concatenate(rows), from_s, from_s + lasting_s)


def reporting(faults: FaultSettings, seed: int, tick: int, at_s: float, nodes: int) -> Flags:
    """Nodes whose report of this minute arrives."""
    arrives = np.ones(nodes, np.bool_)
    if faults.lost_reports:
        arrives &= random(seed, _LOST, tick).random(nodes) >= faults.lost_reports
    if faults.silent_nodes:
        chance = random(seed, _SILENT, 0).random((2, nodes))
        is_quiet = (at_s + chance[1] * DAY_S) % DAY_S < SILENT_S
        arrives &= ~((chance[0] < faults.silent_nodes) & is_quiet)
    return arrives
