"""What DeviceShare knows of a node's devices, for people who look into a running scheduler."""

from __future__ import annotations

from collections.abc import Mapping

from koord.api.text.quantity import from_value
from koord.scheduler.plugins.devices.inventory import Machine, Unit
from koord.scheduler.plugins.devices.ledger import Usage
from koord.scheduler.plugins.devices.requests import MEMORY


def machine_told(machine: Machine, usage: Usage) -> dict[str, object]:
    """Every device by type and minor: what it offers, what is taken and left of it, and the pods that have it."""
    by_type: dict[str, dict[str, object]] = {}
    for type_, units in machine.units.items():
        by_type[type_] = {str(unit.minor): _unit_told(unit, usage) for unit in units}
    gone = {
        f"{type_} {minor}": sorted(pods)
        for (type_, minor), pods in sorted(usage.holders.items())
        if machine.unit(type_, minor) is None
    }
    figures: dict[str, object] = {"devices": by_type}
    if gone:
        figures["allocatedOnMissingDevices"] = gone
    return figures


def _unit_told(unit: Unit, usage: Usage) -> dict[str, object]:
    used = usage.amounts.get(unit.key, {})
    figures: dict[str, object] = {
        "id": unit.id,
        "healthy": bool(unit.total),
        "total": _rendered(unit.total),
        "used": _rendered(used),
        "free": _rendered({name: max(0, whole - used.get(name, 0)) for name, whole in unit.total.items()}),
        "pods": sorted(usage.holders.get(unit.key, ())),
    }
    if unit.place is not None:
        figures["topology"] = {"nodeID": unit.place.numa, "pcieID": unit.place.pcie}
    if unit.vf_groups:
        taken = usage.vfs.get(unit.key, {})
        figures["vfs"] = {vf.bus_id: vf.bus_id in taken for group in unit.vf_groups for vf in group.vfs}
    return figures


def _rendered(amounts: Mapping[str, int]) -> dict[str, str]:
    return {name: from_value(amount, binary=name == MEMORY) for name, amount in sorted(amounts.items())}
