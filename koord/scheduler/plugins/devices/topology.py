"""GPUs that lie close together: node, NUMA nodes, PCIe switches, as a tree.

deepest scope that has enough of them, then where gang mates are, then where most is in use already (so that whole
switches stay free for whole pods), then the best device, then the lowest numbers
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from koord.scheduler.plugins.devices.inventory import Scope, Unit
from koord.scheduler.plugins.devices.requests import GPU
from koord.scheduler.plugins.devices.room import Room

DEPTHS: Final = {"": 0, "Node": 0, "NUMANode": 1, "PCIe": 2, "Device": 0}
"""A single device is within its own scope wherever it lies; several never are."""


class _Candidate(NamedTuple):
    depth: int
    mates: int
    "Scopes on the path that have GPUs of the same gang."
    in_use: int
    "Scopes on the path in which some device is used."
    score: float
    units: tuple[Unit, ...]

    @property
    def rank(self) -> tuple[int, int, int, float]:
        return self.depth, self.mates, self.in_use, self.score


class _Search(NamedTuple):
    """What is looked for."""

    fitting: frozenset[int]
    number: int
    least_depth: int
    score: Callable[[Unit], float] | None
    mates: frozenset[int]
    used: frozenset[int]


def closest(
    room: Room, fitting: frozenset[int], count: int, scope: str, score: Callable[[Unit], float] | None
) -> tuple[Unit, ...] | None:
    """`count` GPUs that lie closest together, of those with a `fitting` minor. `score`: of a shared GPU, which device
    is preferred in a scope. None: no scope as deep as required has enough."""
    tree = room.machine.gpus
    if tree is None:
        return None
    # GPUs that the pod cannot have are in the tree, too: a switch that has a used one is in use.
    used = frozenset(minor for type_, minor in room.usage.holders if type_ == GPU)
    candidate = _search(_Search(fitting, count, DEPTHS[scope], score, room.mates, used), tree, 0, 0)
    return None if candidate is None else candidate.units


def _search(wanted: _Search, scope: Scope, mates: int, in_use: int) -> _Candidate | None:
    """The best in a scope; counts of scopes are those above it."""
    if len(wanted.fitting & scope.minors) < wanted.number:
        return None
    mates += not wanted.mates.isdisjoint(scope.minors)
    in_use += not wanted.used.isdisjoint(scope.minors)
    best: _Candidate | None = None
    for child in scope.children:
        candidate = _search(wanted, child, mates, in_use)
        if candidate is not None and (best is None or candidate.rank > best.rank):
            best = candidate
    if best is not None or scope.depth < wanted.least_depth:
        return best
    able = [unit for unit in scope.units if unit.minor in wanted.fitting]
    score = wanted.score
    if score is None:
        return _Candidate(scope.depth, mates, in_use, 0, tuple(able[: wanted.number]))
    points, _, first = max([(score(unit), -unit.minor, i) for i, unit in enumerate(able)])
    return _Candidate(scope.depth, mates, in_use, points, (able[first],))
