"""GPUs that lie close together: node, NUMA nodes, PCIe switches, as a tree.

deepest scope that has enough of them, then where gang mates are, then where most is in use already (so that whole
switches stay free for whole pods), then the best device, then the lowest numbers
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from koord.scheduler.plugins.devices.inventory import Unit
from koord.scheduler.plugins.devices.room import Room

DEPTHS: Final = {"": 0, "Node": 0, "NUMANode": 1, "PCIe": 2, "Device": 0}
"""A single device is within its own scope wherever it lies; several never are."""


@dataclass(frozen=True, slots=True)
class _Scope:
    depth: int
    units: tuple[Unit, ...]
    children: tuple[_Scope, ...] = ()


class _Found(NamedTuple):
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


def closest(
    room: Room,
    units: Sequence[Unit],
    fitting: frozenset[int],
    count: int,
    scope: str,
    score: Callable[[Unit], float] | None,
) -> tuple[Unit, ...] | None:
    """`count` of `units` that lie closest together, of those with a `fitting` minor. `score`: of a shared GPU, which
    device is preferred in a scope. None: no scope as deep as required has enough."""
    found = _search(room, _tree(units), fitting, count, DEPTHS[scope], score)
    return None if found is None else found.units


def _search(
    room: Room,
    scope: _Scope,
    fitting: frozenset[int],
    count: int,
    least_depth: int,
    score: Callable[[Unit], float] | None,
) -> _Found | None:
    if len(scope.units) < count:
        return None
    best: _Found | None = None
    for child in scope.children:
        found = _search(room, child, fitting, count, least_depth, score)
        if found is not None and (best is None or found.rank > best.rank):
            best = found
    if best is None and scope.depth >= least_depth:
        best = _here(scope, fitting, count, score)
    if best is None:
        return None
    mates = any(unit.minor in room.mates for unit in scope.units)
    in_use = any(room.is_used(unit) for unit in scope.units)
    return best._replace(mates=best.mates + mates, in_use=best.in_use + in_use)


def _here(scope: _Scope, fitting: frozenset[int], count: int, score: Callable[[Unit], float] | None) -> _Found | None:
    able = [unit for unit in scope.units if unit.minor in fitting]
    if len(able) < count:
        return None
    if score is None:
        return _Found(scope.depth, 0, 0, 0, tuple(able[:count]))
    first = max(able, key=lambda unit: (score(unit), -unit.minor))
    return _Found(scope.depth, 0, 0, score(first), (first,))


def _tree(units: Sequence[Unit]) -> _Scope:
    numa: dict[int, dict[str, list[Unit]]] = {}
    for unit in units:
        assert unit.place is not None
        numa.setdefault(unit.place.numa, {}).setdefault(unit.place.pcie, []).append(unit)
    children = []
    for _, switches in sorted(numa.items()):
        below = tuple(_Scope(2, tuple(each)) for _, each in sorted(switches.items()))
        # By minor, as in every scope: the lowest are taken first.
        here = tuple(sorted((unit for each in below for unit in each.units), key=lambda unit: unit.minor))
        children.append(_Scope(1, here, below))
    return _Scope(0, tuple(units), tuple(children))
