"""GPUs by NVIDIA's own library: which exist, which processes use them, and which of them failed.

All calls block, and a hung driver does not answer at all: call them in a thread. What a GPU or a driver cannot
tell ("not supported") is left out; what a GPU does not answer is its trouble, not the others'.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any, Final, NamedTuple

from koord.agent.devices.inventory import FIRST_INSTANCE, Gpu, Inventory, MigInstance

log = logging.getLogger(__name__)

CAPABILITIES: Final = "proc/driver/nvidia-caps/mig-minors"
MOST_LINKS: Final = 18
MOST_EVENTS: Final = 1000
"""That are heard at a time: a program may bring them about without end."""
OF_PROGRAMS: Final = frozenset({13, 31, 43, 45, 68, 109})
"""Xid errors that a program brings about by itself: it is ended, and the GPU goes on. Taking the GPU out of use for
these would let any tenant take it from all others."""


class NoGpusError(Exception):
    """NVML cannot be used on this machine, or not any more. Says why."""


class Use(NamedTuple):
    """What one process uses of one device."""

    minor: int
    pid: int
    sm_percent: float | None
    "None where the driver does not say: it does not of MIG instances."
    memory_bytes: int


class Nvml:
    """A session with the driver. Not for use by several threads at a time."""

    def __init__(self, host_root: str = "/") -> None:
        """Raises NoGpusError."""
        self._host = Path(host_root)
        try:
            import pynvml
        except ImportError:
            raise NoGpusError("nvidia-ml-py is not installed: pip install 'koord[node]'") from None
        self._nvml: ModuleType = pynvml
        self._refused: tuple[type[Exception], ...] = (pynvml.NVMLError,)
        try:
            pynvml.nvmlInit()
        except self._refused as error:
            raise NoGpusError(f"NVML: {error}") from error
        self._seen_us: dict[int, int] = {}
        "By index, the time of the last sample of use that was read."
        self._events: Any = None
        self._heard: set[int] = set()
        "Indexes of the GPUs whose errors the driver tells."
        self._told: dict[object, str] = {}
        "The logged reason why a GPU or an instance is left out; logged once while it does not change."
        self._faults: dict[str, str] = {}
        "The driver's error for a failed GPU, by UUID. It is kept until the agent restarts."

    def close(self) -> None:
        with suppress(*self._refused):
            self._nvml.nvmlShutdown()

    def inventory(self) -> Inventory:
        """Raises NoGpusError where the driver as a whole does not answer."""
        try:
            driver, count = str(self._nvml.nvmlSystemGetDriverVersion()), int(self._nvml.nvmlDeviceGetCount())
        except self._refused as error:
            raise NoGpusError(f"NVML: {error}") from error
        return Inventory(driver, self._gpus(count))

    def _gpus(self, count: int) -> tuple[Gpu, ...]:
        """By minor."""
        self._hear_faults(count)
        capabilities = self._capabilities()
        gpus = []
        for index in range(count):
            try:
                gpus.append(self._gpu(self._nvml.nvmlDeviceGetHandleByIndex(index), capabilities))
                self._told.pop(index, None)
            except self._refused as error:
                # A GPU that fell off the bus cannot even report its UUID; its Device entry stays, as unhealthy.
                self._tell(index, f"GPU {index} does not answer: {error}")
        return tuple(sorted(gpus, key=lambda gpu: gpu.minor))

    def uses(self, inventory: Inventory) -> Iterator[Use]:
        """What processes use of the GPUs that were just seen: one that does not answer has an index, too."""
        seen = {gpu.minor for gpu in inventory.gpus}
        for index in range(self._count()):
            try:
                handle = self._nvml.nvmlDeviceGetHandleByIndex(index)
                minor = int(self._nvml.nvmlDeviceGetMinorNumber(handle))
                if minor not in seen:
                    continue
                instances = self._instance_minors(handle, minor)
                processes = self._nvml.nvmlDeviceGetComputeRunningProcesses(handle)
                percents = {} if instances else self._sm_percents(index, handle)
            except self._refused:
                continue
            for process in processes:
                own = instances.get((process.gpuInstanceId, process.computeInstanceId), minor)
                percent = None if instances else percents.get(process.pid, 0.0)
                yield Use(own, int(process.pid), percent, int(process.usedGpuMemory or 0))

    def _count(self) -> int:
        try:
            return int(self._nvml.nvmlDeviceGetCount())
        except self._refused:
            return 0

    def _tell(self, of: object, text: str) -> None:
        if self._told.get(of) != text:
            self._told[of] = text
            log.warning("%s", text)

    def _gpu(self, handle: Any, capabilities: Mapping[str, int]) -> Gpu:
        nvml = self._nvml
        uuid, minor = str(nvml.nvmlDeviceGetUUID(handle)), int(nvml.nvmlDeviceGetMinorNumber(handle))
        is_split = self._is_split(handle)
        return Gpu(
            minor=minor,
            uuid=uuid,
            model=str(nvml.nvmlDeviceGetName(handle)),
            memory_bytes=int(nvml.nvmlDeviceGetMemoryInfo(handle).total),
            bus_id=_bus_id(nvml.nvmlDeviceGetPciInfo(handle).busId),
            is_split=is_split,
            instances=tuple(self._instances(handle, minor, capabilities)) if is_split else (),
            links=self._links(handle),
            trouble=self._faults.get(uuid, "") or self._worn_out(handle),
        )

    def _is_split(self, handle: Any) -> bool:
        try:
            current, _ = self._nvml.nvmlDeviceGetMigMode(handle)
        except self._refused:
            return False
        return bool(current == self._nvml.NVML_DEVICE_MIG_ENABLE)

    def _instances(self, gpu: Any, minor: int, capabilities: Mapping[str, int]) -> Iterator[MigInstance]:
        nvml = self._nvml
        for handle in self._instance_handles(gpu):
            name, places = str(nvml.nvmlDeviceGetName(handle)), self._places(handle, minor)
            numbers = [capabilities[place] for place in places if place in capabilities]
            if len(numbers) != len(places):
                text = f"{name} on GPU {minor} has no capabilities in /{CAPABILITIES} and is left out"
                self._tell(places, text)
                continue
            yield MigInstance(
                uuid=str(nvml.nvmlDeviceGetUUID(handle)),
                minor=FIRST_INSTANCE + numbers[-1],
                profile=name.rpartition(" ")[2],
                memory_bytes=int(nvml.nvmlDeviceGetMemoryInfo(handle).total),
                nodes=tuple(f"nvidia-caps/nvidia-cap{number}" for number in numbers),
            )

    def _instance_handles(self, gpu: Any) -> Iterator[Any]:
        for index in range(self._nvml.nvmlDeviceGetMaxMigDeviceCount(gpu)):
            with suppress(*self._refused):
                yield self._nvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, index)

    def _places(self, instance: Any, minor: int) -> tuple[str, str]:
        """The names of the two capabilities of an instance, as the driver's table has them."""
        part = self._nvml.nvmlDeviceGetGpuInstanceId(instance)
        whole = f"gpu{minor}/gi{part}"
        return f"{whole}/access", f"{whole}/ci{self._nvml.nvmlDeviceGetComputeInstanceId(instance)}/access"

    def _instance_minors(self, gpu: Any, minor: int) -> dict[tuple[int, int], int]:
        if not self._is_split(gpu):
            return {}
        nvml, capabilities = self._nvml, self._capabilities()
        return {
            (nvml.nvmlDeviceGetGpuInstanceId(instance), nvml.nvmlDeviceGetComputeInstanceId(instance)): FIRST_INSTANCE
            + number
            for instance in self._instance_handles(gpu)
            if (number := capabilities.get(self._places(instance, minor)[1])) is not None
        }

    def _capabilities(self) -> dict[str, int]:
        try:
            text = (self._host / CAPABILITIES).read_text()
        except OSError:
            return {}
        return {name: int(number) for name, number in map(str.split, text.splitlines())}

    def _links(self, handle: Any) -> dict[str, int]:
        """By the bus id of whatever is at the other end: a GPU, or a switch that all others hang on too."""
        nvml, links = self._nvml, dict[str, int]()
        for link in range(MOST_LINKS):
            try:
                if not nvml.nvmlDeviceGetNvLinkState(handle, link):
                    continue
                peer = _bus_id(nvml.nvmlDeviceGetNvLinkRemotePciInfo(handle, link).busId)
            except self._refused:
                break
            links[peer] = links.get(peer, 0) + 1
        return links

    def _worn_out(self, handle: Any) -> str:
        """Memory rows that failed and could not be replaced."""
        with suppress(*self._refused):
            _, _, _, has_failed = self._nvml.nvmlDeviceGetRemappedRows(handle)
            return "a memory row failed and could not be remapped" if has_failed else ""
        return ""

    def _sm_percents(self, index: int, handle: Any) -> dict[int, float]:
        """By process, since the last time: the mean of the driver's samples."""
        try:
            samples = self._nvml.nvmlDeviceGetProcessUtilization(handle, self._seen_us.get(index, 0))
        except self._refused:
            return {}
        by_pid: dict[int, list[int]] = {}
        for sample in samples:
            by_pid.setdefault(int(sample.pid), []).append(int(sample.smUtil))
            self._seen_us[index] = max(self._seen_us.get(index, 0), int(sample.timeStamp))
        return {pid: sum(percents) / len(percents) for pid, percents in by_pid.items()}

    def _hear_faults(self, count: int) -> None:
        """Reads the driver's events since the last call, without waiting."""
        nvml = self._nvml
        try:
            if self._events is None:
                self._events = nvml.nvmlEventSetCreate()
            for index in {*range(count)} - self._heard:
                # A GPU that does not answer does not hide the others.
                with suppress(*self._refused):
                    handle = nvml.nvmlDeviceGetHandleByIndex(index)
                    nvml.nvmlDeviceRegisterEvents(handle, nvml.nvmlEventTypeXidCriticalError, self._events)
                    self._heard.add(index)
            for _ in range(MOST_EVENTS):
                event = nvml.nvmlEventSetWait_v2(self._events, 0)
                uuid, xid = str(nvml.nvmlDeviceGetUUID(event.device)), int(event.eventData)
                if xid in OF_PROGRAMS:
                    log.info("Xid %d on GPU %s is a program's own and changes nothing", xid, uuid)
                    continue
                log.error("Xid %d on GPU %s: it is given to no more pods", xid, uuid)
                self._faults.setdefault(uuid, f"Xid {xid}")
        except self._refused:
            # There are no more events, or this driver does not support them.
            return


def _bus_id(text: str | bytes) -> str:
    """As sysfs has it: NVML writes the domain with eight digits, and in capitals."""
    plain = (text.decode() if isinstance(text, bytes) else text).lower()
    domain, _, rest = plain.partition(":")
    return f"{domain[-4:]}:{rest}"
