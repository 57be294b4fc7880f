"""What is allocated: devices that claims have, and shares of devices that several may have.

Devices with admin access count for nothing. A result with a share takes its capacity, any other the whole device.
"""

from __future__ import annotations

from typing import TypeVar

from koord.api.kubernetes.dynamic_resources import AllocationResult
from koord.scheduler.plugins.dynamic_resources.pools import DeviceId, Pool, PoolId
from koord.scheduler.plugins.dynamic_resources.quantities import exact

_Key = TypeVar("_Key")


class Usage:
    """Counts allocations of claims as they come and go."""

    def __init__(self) -> None:
        self.holders: dict[DeviceId, dict[str, int]] = {}
        "Of devices that are taken or shared, which claims have them, and by how many results."
        self.taken: dict[DeviceId, int] = {}
        "By how many results a device is taken as a whole."
        self.consumed: dict[DeviceId, dict[str, int]] = {}
        "What shares of a device consume of its capacity, in billionths."
        self.in_pool: dict[PoolId, dict[str, int]] = {}
        "By pool and device, how many results there are: these devices consume counters."

    def count(self, claim: str, allocation: AllocationResult, sign: int) -> list[DeviceId]:
        """A claim has an allocation (+1), or no longer (-1). Returns the devices that this concerns."""
        devices = []
        for result in allocation.devices.results:
            if result.admin_access:
                continue
            device = DeviceId(result.driver, result.pool, result.device)
            devices.append(device)
            _add(self.holders, device, claim, sign)
            _add(self.in_pool, device.pool_id, device.name, sign)
            if not result.share_id:
                self.taken[device] = self.taken.get(device, 0) + sign
                if not self.taken[device]:
                    del self.taken[device]
            for name, quantity in result.consumed_capacity.items() if result.share_id else ():
                _add(self.consumed, device, name, sign * exact(quantity))
        return devices

    def left(self, pool: Pool) -> dict[tuple[str, str], int]:
        """What is left of a pool's counters. A device that is shared counts once."""
        left = dict(pool.counters)
        for name in self.in_pool.get(pool.id, ()) if left else ():
            device = pool.all_devices.get(name)
            for counter, amount in device.counters.items() if device is not None else ():
                left[counter] = left.get(counter, 0) - amount
        return left


def _add(table: dict[_Key, dict[str, int]], key: _Key, name: str, amount: int) -> None:
    """Add to one number; what is 0 is not kept."""
    row = table.setdefault(key, {})
    row[name] = row.get(name, 0) + amount
    if not row[name]:
        del row[name]
        if not row:
            del table[key]
