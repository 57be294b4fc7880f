"""This machine's GPUs, read each time a container starts, because MIG instances come and go.

If a driver that answered before stops answering, no container starts: it could use GPUs of other containers.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol

from koord.agent.devices.inventory import NO_DEVICES, Inventory
from koord.agent.devices.nvml import NoGpusError, Nvml
from koord_minicluster.local.environment import ConfigError

log = logging.getLogger(__name__)


class InventorySource(Protocol):
    async def __call__(self) -> Inventory: ...


class GpuInventory:
    def __init__(self) -> None:
        self._nvml: Nvml | None = None
        self._is_known = False
        self._turn = asyncio.Lock()

    async def __call__(self) -> Inventory:
        async with self._turn:
            return await asyncio.to_thread(self._look)

    def _look(self) -> Inventory:
        if not self._is_known:
            self._is_known = True
            try:
                self._nvml = Nvml()
            except NoGpusError as error:
                log.info("this machine's node has no GPUs: %s", error)
        try:
            return NO_DEVICES if self._nvml is None else self._nvml.inventory()
        except NoGpusError as error:
            raise ConfigError(f"this machine's GPUs cannot be asked for: {error}") from error
