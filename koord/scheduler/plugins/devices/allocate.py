"""Which devices a pod gets on one node: pure, and the same for a filter, a placement and an explanation.

    joint types     the leading type first; the others on its PCIe switches, one for each where there are enough;
                    where they must lie on the same switches, other switches are tried before the node is refused
    GPUs            by the table of linked ones, else those that lie closest together, else by score
    other devices   by score, the lowest minor first among equals

`score` says which devices are preferred; higher is better.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Final, TypeAlias

from koord.scheduler.framework.exact_check import Objection
from koord.scheduler.plugins.devices.grants import Grant
from koord.scheduler.plugins.devices.inventory import Unit
from koord.scheduler.plugins.devices.partitions import partitioned
from koord.scheduler.plugins.devices.requests import GPU, Request, Wanted
from koord.scheduler.plugins.devices.room import Room, filled
from koord.scheduler.plugins.devices.templates import model_of
from koord.scheduler.plugins.devices.topology import closest

Score: TypeAlias = Callable[[Request, Unit], float]
Grants: TypeAlias = dict[str, tuple[Grant, ...]]
"""By type."""
_MOST_COMBINED: Final = 8
"""PCIe switches that are tried in all combinations; of more, each by itself."""
NO_TEMPLATE: Final = "no matched GPU shared resource template"


def allocate(room: Room, wanted: Wanted, score: Score) -> Grants | Objection:
    """All devices that a pod asks for, or why it cannot have them there."""
    for request in wanted.requests:
        units = room.machine.units.get(request.type)
        if not units:
            return insufficient(request, resolvable=False)
        if request.vf_selector is not None and not any(group.vfs for unit in units for group in unit.vf_groups):
            return Objection(f"Insufficient {request.type} VirtualFunctions", resolvable=False)
        if request.templates is not None and _template(room, request) is None:
            return Objection(NO_TEMPLATE, resolvable=False)
    granted: Grants = {}
    if wanted.joint:
        joint = _jointly(room, wanted, score)
        if isinstance(joint, Objection):
            return joint
        granted |= joint
    for request in wanted.requests:
        if request.type not in granted:
            grants = _alone(room, wanted, request, score)
            if isinstance(grants, Objection):
                return grants
            granted[request.type] = grants
        if request.templates is not None:
            name = _template(room, request) or ""
            granted[request.type] = tuple(grant._replace(template=name) for grant in granted[request.type])
    return granted


def _template(room: Room, request: Request) -> str | None:
    """The template of a part of a device, where the node's model has it."""
    return dict(request.templates or ()).get(model_of(room.labels, room.machine.labels))


def insufficient(request: Request, *, resolvable: bool = True) -> Objection:
    return Objection(f"Insufficient {request.type} devices", resolvable)


def _alone(room: Room, wanted: Wanted, request: Request, score: Score) -> tuple[Grant, ...] | Objection:
    if request.type == GPU:
        return _gpus(room, wanted, request, score)
    return _plain(room, request, score, request.count, request.count)


def _gpus(room: Room, wanted: Wanted, request: Request, score: Score) -> tuple[Grant, ...] | Objection:
    if request.is_whole:
        linked = partitioned(room, wanted, request)
        if isinstance(linked, Objection):
            return linked
        if linked is not None:
            return _granted(room, request, linked)
    units = room.units(request)
    has_topology, is_shared = all(unit.place is not None for unit in units), not request.is_whole
    if request.scope == "Device" and request.count > 1:
        return Objection("node(s) cannot have several GPUs in the scope of one Device", resolvable=False)
    if request.scope and not has_topology:
        return Objection(f"node(s) missing the topology for the scope {request.scope}", resolvable=False)
    if request.scope and is_shared and request.count > 1:
        return Objection(f"node(s) cannot share several GPUs in the scope {request.scope}", resolvable=False)
    if not has_topology or (is_shared and request.count > 1):
        return _plain(room, request, score, request.count, request.count)
    fitting = _preferred_first(room, [unit for unit in units if room.fits(unit, request)], request.count)
    share = (lambda unit: score(request, unit)) if is_shared else None
    near = closest(room, frozenset([unit.minor for unit in fitting]), request.count, request.scope, share)
    return insufficient(request) if near is None else _granted(room, request, near)


def _preferred_first(room: Room, fitting: list[Unit], count: int) -> list[Unit]:
    """Only those that are preferred, where they are enough."""
    preferred = [unit for unit in fitting if unit.key in room.preferred]
    return preferred if len(preferred) >= count else fitting


def _plain(
    room: Room, request: Request, score: Score, count: int, most: int, pcies: Sequence[str] = ()
) -> tuple[Grant, ...] | Objection:
    """At least `count` devices, and up to `most`: by score, on some PCIe switches first. A count of 0 means all."""
    able = _able(room, request)
    if not count:
        # All means the unhealthy ones, those in use and those on other NUMA nodes as well.
        every = [unit for unit in room.machine.units[request.type] if request.selector.matches(unit.labels)]
        if not every or not all(unit.total for unit in every):
            return insufficient(request, resolvable=False)
        return _granted(room, request, able) if len(able) == len(every) else insufficient(request)
    able.sort(key=lambda unit: (unit.key not in room.preferred, -score(request, unit), unit.minor))
    if pcies:
        able = _round_robin(able, frozenset(pcies))
    return insufficient(request) if len(able) < count else _granted(room, request, able[:most])


def _able(room: Room, request: Request) -> list[Unit]:
    """Devices with enough left for a request."""
    able = [unit for unit in room.units(request) if room.fits(unit, request)]
    if request.vf_selector is not None:
        able = [unit for unit in able if room.free_vf(unit, request) is not None]
    return able


def _round_robin(units: Sequence[Unit], pcies: frozenset[str]) -> list[Unit]:
    """The best device of each of these PCIe switches, then the second of each, and so on; then all others."""
    turn: dict[str, int] = {}
    order: list[tuple[int, int]] = []
    for i, unit in enumerate(units):
        pcie = _pcie(unit)
        if pcie in pcies:
            order.append((turn.setdefault(pcie, 0), i))
            turn[pcie] += 1
        else:
            order.append((len(units), i))
    return [units[i] for _, i in sorted(order)]


def _jointly(room: Room, wanted: Wanted, score: Score) -> Grants | Objection:
    """Devices of the joint types; or why there are none."""
    requests = [request for type_ in wanted.joint if (request := wanted.of(type_)) is not None]
    grants = _led(room, wanted, requests, score)
    if isinstance(grants, Objection) and wanted.same_pcie:
        for switches in _switches(room, requests):
            elsewhere = _led(replace(room, switches=switches), wanted, requests, score)
            if not isinstance(elsewhere, Objection):
                return elsewhere
    return grants


def _led(room: Room, wanted: Wanted, requests: Sequence[Request], score: Score) -> Grants | Objection:
    """Devices of the first type by themselves, those of the others where these are."""
    first, *others = requests
    leading = _alone(room, wanted, first, score)
    if isinstance(leading, Objection):
        return leading
    by_type: Grants = {first.type: leading}
    pcies = _pcies(room, first.type, leading)
    for request in others:
        count = max(request.count, len(pcies)) if wanted.same_pcie else request.count
        most = count if request.type == GPU else max(count, len(pcies))
        grants = _plain(room, request, score, count, most, sorted(pcies))
        if isinstance(grants, Objection):
            return grants
        if wanted.same_pcie and _pcies(room, request.type, grants) != pcies:
            return Objection("node(s) Device Joint-Allocate rules violation")
        by_type[request.type] = grants
    return by_type


def _switches(room: Room, requests: Sequence[Request]) -> Iterator[frozenset[str]]:
    """Sets of PCIe switches that have enough for all requests: all switches with devices of every type first, so that
    the closest are chosen among them, then the smallest sets."""
    able = [Counter(_pcie(unit) for unit in _able(room, request) if unit.place is not None) for request in requests]
    shared = sorted(set(able[0]).intersection(*able[1:]))
    if shared:
        yield frozenset(shared)
    for size in range(1, len(shared)) if len(shared) <= _MOST_COMBINED else (1,):
        for some in combinations(shared, size):
            enough = zip(requests, able, strict=True)
            if all(sum(of_type[pcie] for pcie in some) >= request.count for request, of_type in enough):
                yield frozenset(some)


def _pcies(room: Room, type_: str, grants: Iterable[Grant]) -> set[str]:
    units = (room.machine.unit(type_, grant.minor) for grant in grants)
    return {_pcie(unit) for unit in units if unit is not None and unit.place is not None}


def _pcie(unit: Unit) -> str:
    return "" if unit.place is None else unit.place.pcie


def _granted(room: Room, request: Request, units: Iterable[Unit]) -> tuple[Grant, ...]:
    grants = []
    for unit in sorted(units, key=lambda unit: unit.minor):
        vf = None if request.vf_selector is None else room.free_vf(unit, request)
        grants.append(Grant(unit.minor, filled(request.per_device, unit), unit.id, () if vf is None else (vf,)))
    return tuple(grants)
