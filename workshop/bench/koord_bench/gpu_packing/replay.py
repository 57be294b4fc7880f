"""A replay: pods come one after the other, each is placed by a policy or dropped for good.

Every shape keeps the scores of all rows, and has only those scored again that have changed since it was last asked:
the same way of working as the scheduling engine, without all that is not packing.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

import numpy as np

from koord.scheduler.plugins.packing.shapes import Fleet, PodShape, Scores
from koord.scheduler.state.table import Array
from koord_bench.gpu_packing.baselines import AtRandom

NEVER: Final = -(1 << 62)
MOST_PODS: Final = 1001
"""On one node."""


class Policy(Protocol):
    def score(self, shape: PodShape, rows: Array) -> Scores: ...


class Placed(NamedTuple):
    """Where a pod went. `devices`: the numbers of those that it takes a part of, or all."""

    row: int
    devices: tuple[int, ...]


@dataclass(slots=True)
class _ShapeScores:
    """The scores of all rows for one shape."""

    score: Array
    device: Array
    seen: int = 0
    "The last change that is in it."


@dataclass(slots=True)
class Replay:
    """One cluster under one policy."""

    fleet: Fleet
    policy: Policy | AtRandom
    observers: list[Callable[[PodShape, int], None]] = field(default_factory=list)
    "Called with every pod that comes to a row."
    _scores: dict[PodShape, _ShapeScores] = field(default_factory=dict)
    _log: list[int] = field(default_factory=list)
    _pods: Array = field(default_factory=lambda: np.zeros(0, np.int64))
    scored: int = 0
    "Rows times shapes, so far."
    took_s: float = 0.0
    "CPU time of all decisions so far."

    def place(self, shape: PodShape) -> Placed | None:
        """Place a pod, if it fits anywhere."""
        began_s = time.thread_time()
        placed = self._place(shape)
        self.took_s += time.thread_time() - began_s
        return placed

    def _place(self, shape: PodShape) -> Placed | None:
        if isinstance(self.policy, AtRandom):
            fitting = (self.fleet.fits(shape, slice(None)) & (self._counts() < MOST_PODS)).nonzero()[0]
            if not len(fitting):
                return None
            row, device = self.policy.choose(shape, fitting)
        else:
            scores = self._catch_up(shape, self.policy)
            row = int(scores.score.argmax())
            if scores.score.item(row) == NEVER:
                return None
            device = scores.device.item(row)
        placed = Placed(row, self._devices(shape, row, device))
        self._put(shape, placed)
        return placed

    def _counts(self) -> Array:
        if not len(self._pods):
            self._pods = np.zeros(len(self.fleet.cpu), np.int64)
        return self._pods

    def _devices(self, shape: PodShape, row: int, device: int) -> tuple[int, ...]:
        if device >= 0:
            return (device,)
        return tuple((self.fleet.devices[row] >= shape.gpu_milli).nonzero()[0][: shape.gpus].tolist())

    def _put(self, shape: PodShape, placed: Placed) -> None:
        row, devices = placed
        self.fleet.cpu[row] -= shape.cpu_milli
        self.fleet.memory[row] -= shape.memory_mib
        for device in devices:
            self.fleet.devices[row, device] -= shape.gpu_milli
        self._counts()[row] += 1
        self._log.append(row)
        for observer in self.observers:
            observer(shape, row)

    def _catch_up(self, shape: PodShape, policy: Policy) -> _ShapeScores:
        scores, now, number = self._scores.get(shape), len(self._log), len(self.fleet.cpu)
        if scores is None:
            scores = self._scores[shape] = _ShapeScores(np.full(number, NEVER), np.full(number, -1))
            rows = np.arange(number)
        elif scores.seen == now:
            return scores
        elif now - scores.seen < number:
            rows = np.array(list(dict.fromkeys(self._log[scores.seen :])), np.int64)
        else:
            rows = np.arange(number)
        scores.seen = now
        scores.score[rows] = NEVER
        rows = rows[self.fleet.fits(shape, rows) & (self._counts()[rows] < MOST_PODS)]
        if len(rows):
            self.scored += len(rows)
            scores.score[rows], scores.device[rows] = policy.score(shape, rows)
        return scores
