"""Devices, looked at aside: what there is, each few seconds, and what is used of it.

A driver that hangs may never answer. So it is asked in a thread of its own: rounds go on, and while it does
not answer, the last known devices stay.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple

from msgspec.structs import replace

from koord.agent.devices import rdma, use, vendor_files
from koord.agent.devices.cdi import CdiSpecs
from koord.agent.devices.inventory import Inventory
from koord.agent.devices.nvml import NoGpusError, Nvml, Use
from koord.agent.host.files import Files
from koord.agent.pods import AgentPod
from koord.agent.series.samples import Samples
from koord.api.configuration.features import AgentGate
from koord.kube.clock import Clock

log = logging.getLogger(__name__)

LOOK_S: Final = 3.0
AGAIN_S: Final = 60.0
"""How soon a driver is looked for again where there was none: it may be loaded after the agent."""
SLOW_S: Final = 30.0
"""How long a driver may take to answer before a warning is logged."""


class DeviceReading(NamedTuple):
    inventory: Inventory
    uses: tuple[Use, ...]


class DeviceLook:
    """Reads all sources of devices. Blocks."""

    def __init__(self, files: Files, gates: Mapping[AgentGate, bool]) -> None:
        self._files, self._gates = files, gates
        self._specs = CdiSpecs(files)
        self._nvml: Nvml | None = None
        self._pause = 0
        self.absence = ""
        "Why there are no NVIDIA GPUs, where it was asked and there are none."

    def look(self) -> DeviceReading:
        reading = self._found()
        return reading._replace(inventory=replace(reading.inventory, cdi=self._specs.names()))

    def _found(self) -> DeviceReading:
        cards = rdma.cards(self._files) if self._gates[AgentGate.RDMA_DEVICES] else ()
        if not self._gates[AgentGate.ACCELERATORS]:
            return DeviceReading(Inventory(cards=cards), ())
        others = vendor_files.devices(self._files)
        nvml = None if others else self._driver()
        if nvml is None:
            return DeviceReading(Inventory(cards=cards, others=others), ())
        try:
            inventory = nvml.inventory()
        except NoGpusError as error:
            self._is_absent(error)
            return DeviceReading(Inventory(cards=cards), ())
        return DeviceReading(replace(inventory, cards=cards), tuple(nvml.uses(inventory)))

    def close(self) -> None:
        if self._nvml is not None:
            self._nvml.close()
            self._nvml = None

    def _driver(self) -> Nvml | None:
        if self._nvml is None and self._pause == 0:
            try:
                self._nvml = Nvml(self._files.root or "/")
                self.absence = ""
            except NoGpusError as error:
                self._is_absent(error)
        self._pause = max(self._pause - 1, 0)
        return self._nvml

    def _is_absent(self, error: NoGpusError) -> None:
        """It is asked again after a while: a driver may come later, and a broken one may be loaded again."""
        self.close()
        self._pause = int(AGAIN_S / LOOK_S)
        if str(error) != self.absence:
            self.absence = str(error)
            log.info("no NVIDIA GPUs are reported: %s", error)


class DeviceWatch:
    def __init__(self, look: DeviceLook, clock: Clock) -> None:
        self._look, self._clock = look, clock
        self.inventory: Inventory | None = None
        "None before the first answer: nothing is reported about devices until then."

    async def run(self, samples: Samples, pods: Callable[[], Mapping[str, AgentPod]], files: Files) -> None:
        with_one = ThreadPoolExecutor(1, "devices")
        loop = asyncio.get_running_loop()
        try:
            while True:
                asked = loop.run_in_executor(with_one, self._look.look)
                while not (await asyncio.wait({asked}, timeout=SLOW_S))[0]:
                    log.warning("devices do not answer: the last known state of them stays")
                reading = asked.result()
                if reading.inventory != self.inventory:
                    self.inventory = reading.inventory
                use.put(samples, reading.uses, _minors(reading.inventory), pods(), files, self._clock.monotonic())
                await self._clock.sleep(LOOK_S)
        finally:
            # A driver that hangs must not block the end.
            with_one.shutdown(wait=False, cancel_futures=True)


def _minors(inventory: Inventory) -> Iterable[int]:
    return [gpu.minor for gpu in inventory.usable_gpus()]
