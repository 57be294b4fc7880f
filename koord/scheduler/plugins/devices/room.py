"""The devices of one node as one pod sees them: what is left of each, and which ones it may have at all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from koord.api.machinery.struct import EMPTY
from koord.scheduler.plugins.devices.grants import PCIE_LEVEL, VF, Grant
from koord.scheduler.plugins.devices.inventory import ANY_NUMA, Machine, Unit
from koord.scheduler.plugins.devices.ledger import Usage
from koord.scheduler.plugins.devices.requests import MEMORY, RATIO, WHOLE, Request
from koord.scheduler.state.pods import Amounts
from koord.scheduler.state.table import Row

_NOTHING: Final = Grant(-1, ())


@dataclass(frozen=True, slots=True)
class Room:
    """`preferred`: minors that are taken first where there is a choice. `mates`: GPUs of pods of the same gang."""

    machine: Machine
    usage: Usage = field(default_factory=Usage)
    labels: Mapping[str, str] = field(default_factory=dict)
    "Of the node."
    numa_nodes: int | None = None
    "Devices on these alone, as a mask; None: on any."
    preferred: frozenset[tuple[str, int]] = frozenset()
    mates: frozenset[int] = frozenset()
    row: Row | None = None
    "Of the node, where it is one of a cluster's."
    most: Mapping[str, Mapping[int, Grant]] = field(default_factory=dict)
    """By type, the devices and parts that a pod may have at most, by minor: where it is limited to what is left of a
    reservation. Types that are not there are not limited."""
    switches: frozenset[str] | None = None
    "Devices on these PCIe switches alone; None: on any."

    def is_used(self, unit: Unit) -> bool:
        return unit.key in self.usage.holders

    def used(self, unit: Unit) -> Mapping[str, int]:
        return self.usage.amounts.get(unit.key, EMPTY)

    def units(self, request: Request) -> list[Unit]:
        """The devices that a request may be met from, whether or not enough is left of them."""
        units = [unit for unit in self.machine.units.get(request.type, ()) if unit.total]
        if request.selector.requirements:
            units = [unit for unit in units if request.selector.matches(unit.labels)]
        if request.type in self.most:
            units = [unit for unit in units if unit.minor in self.most[request.type]]
        if self.numa_nodes is not None:
            units = [unit for unit in units if self._is_on(unit, self.numa_nodes)]
        if self.switches is not None:
            units = [unit for unit in units if unit.place is not None and unit.place.pcie in self.switches]
        if request.exclusive:
            units = [unit for unit in units if not self._is_taken(unit, request)]
        if self.usage.alone:
            kept = {self._pcie(key) for key in self.usage.alone if key[0] == request.type}
            units = [unit for unit in units if unit.place is None or unit.place.pcie not in kept]
        return units

    def fits(self, unit: Unit, request: Request) -> bool:
        """Whether enough is left of a device. A resource that it does not name is not limited, unless nothing is left
        of it at all."""
        most = self.most[unit.type].get(unit.minor, _NOTHING) if unit.type in self.most else None
        asked = filled(request.per_device, unit)
        return has_left(unit, asked, self.used(unit), None if most is None else dict(most.amounts))

    def free_vf(self, unit: Unit, request: Request) -> VF | None:
        """The free virtual function with the lowest bus id, in a group that the request selects."""
        assert request.vf_selector is not None
        used = self.usage.vfs.get(unit.key, {})
        own = self.most[unit.type].get(unit.minor, _NOTHING).vfs if unit.type in self.most else ()
        return min(
            (
                VF(vf.minor, vf.bus_id)
                for group in unit.vf_groups
                if request.vf_selector.matches(group.labels)
                for vf in group.vfs
                if vf.bus_id not in used and (not own or VF(vf.minor, vf.bus_id) in own)
            ),
            key=lambda vf: (vf.bus_id, vf.minor),
            default=None,
        )

    def _is_on(self, unit: Unit, nodes: int) -> bool:
        if unit.place is None:
            return False
        return unit.place.numa == ANY_NUMA or bool(nodes >> unit.place.numa & 1)

    def _is_taken(self, unit: Unit, request: Request) -> bool:
        if request.exclusive != PCIE_LEVEL or unit.place is None:
            return self.is_used(unit)
        pcie = unit.place.pcie
        return any(key[0] == request.type and self._pcie(key) == pcie for key in self.usage.holders)

    def _pcie(self, key: tuple[str, int]) -> str | None:
        unit = self.machine.unit(*key)
        return None if unit is None or unit.place is None else unit.place.pcie


def has_left(unit: Unit, asked: Amounts, used: Mapping[str, int], within: Mapping[str, int] | None = None) -> bool:
    """As `Room.fits`, for a device with `used` taken. `asked`: as `filled` says. `within`: the most that a pod may have
    of the device."""
    total, limited = unit.total, False
    for name, amount in asked:
        whole = total.get(name)
        if within is not None and amount > within.get(name, 0):
            return False
        if whole is not None:
            limited = True
            if whole - used.get(name, 0) < amount:
                return False
    return limited or any(whole > used.get(name, 0) for name, whole in total.items())


def filled(per_device: Amounts, unit: Unit) -> Amounts:
    """What a request takes of one device: of memory and its ratio, the one that is missing follows from the other."""
    return _filled(per_device, unit.total.get(MEMORY, 0))


@lru_cache(maxsize=4096)
def _filled(per_device: Amounts, memory: int) -> Amounts:
    asked = dict(per_device)
    if not memory or (MEMORY in asked) == (RATIO in asked):
        return per_device
    if RATIO in asked:
        asked[MEMORY] = asked[RATIO] * memory // WHOLE
    else:
        asked[RATIO] = asked[MEMORY] * WHOLE // memory
    return tuple(sorted(asked.items()))
