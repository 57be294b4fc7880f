"""The cgroups that are this node: made below a directory of its own in every hierarchy, and taken away at the end.

That directory is the node: its CPUs and its memory limit are the node's capacity. Everything else on the machine is
none of this node's business. A directory that the kernel does not give up is kept in mind, and `sweep` tries again.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from koord.agent.host.cgroups import Cgroups, Version
from koord.agent.host.convert import PERIOD_US
from koord.agent.host.device_access import deny, number_of
from koord.agent.host.files import Files
from koord.agent.host.knobs import CPU_IDLE, CPU_QUOTA, CPU_SHARES, MEMORY_LIMIT, Knob
from koord.agent.host.layout import pods_in, qos_dir
from koord.api.kubernetes.cgroup import CgroupDriver
from koord.api.kubernetes.words import KubeQoS
from koord.api.machinery.faults import BadInput

log = logging.getLogger(__name__)

CONTROLLERS: Final = ("cpu", "cpuacct", "cpuset", "memory")
DISKS: Final = "blkio"
"""Used where it is mounted: without it there are no limits on disks, and all else works."""
DEVICES: Final = "devices"
"""On v1 a hierarchy of its own, used on machines whose GPUs have to be kept apart."""
REMOVED_WITHIN_S: Final = 10.0
REMOVE_AGAIN_S: Final = 0.01
DRIVER: Final = CgroupDriver.CGROUPFS


class TreeError(BadInput):
    """This machine cannot be a node."""


class Tree:
    def __init__(self, root: str, cpu_milli: int, memory_bytes: int, host_root: str = "/") -> None:
        self._host_root = Path(host_root)
        self.files = Files(host_root)
        mounted = Cgroups.of(self.files)
        self.cgroups = Cgroups(self.files, mounted.version, root)
        self.cgroups.look_for_pods_in(qos_dir(KubeQoS.GUARANTEED, DRIVER))
        self._cpu_milli, self._memory_bytes = cpu_milli, memory_bytes
        self._leftovers: set[str] = set()
        self._has_disks = (self._host_root / self.cgroups.name(DISKS, "")).parent.is_dir()
        self.keeps_devices_apart = False
        "Whether the machine has GPUs. To be set before anything is made."

    def make(self) -> None:
        """Makes the node's root and the directories of QoS classes. Directories of a former run stay, so that its pods
        can be adopted, unless they do not fit into the node's new limits."""
        is_there = self._directories_of("")[0].exists()
        try:
            try:
                self._make()
            except OSError as error:
                if not is_there:
                    raise
                log.warning("what a former run left in cgroup %s is ended: %s", self.cgroups.root, error)
                self.remove()
                self._make()
        except PermissionError as error:
            raise TreeError(f"cannot make cgroups: {error.strerror}; a local node needs root") from error
        except OSError as error:
            raise TreeError(f"cannot make cgroups: {error}") from error

    def _make(self) -> None:
        self.directory("")
        if self._cpu_milli:
            self.set(CPU_QUOTA, "", self._cpu_milli * PERIOD_US // 1000)
        if self._memory_bytes:
            self.set(MEMORY_LIMIT, "", self._memory_bytes)
        for qos in (KubeQoS.GUARANTEED, KubeQoS.BURSTABLE, KubeQoS.BEST_EFFORT):
            self.directory(qos_dir(qos, DRIVER))

    def pods(self) -> list[str]:
        """The directories of pods, also of a former run."""
        return [directory for directory, _ in pods_in(self.cgroups, DRIVER)]

    def below(self, directory: str) -> list[str]:
        """The cgroups right below one."""
        return [f"{directory}/{name}" for name in self.cgroups.children(directory)]

    def directory(self, name: str) -> str:
        """Makes a cgroup in every hierarchy, with its parent's CPUs and memory nodes."""
        for path in self._directories_of(name):
            path.mkdir(exist_ok=True)
            if (path / "cpuset.cpus").exists() and self.cgroups.version is Version.V1:
                for file in ("cpuset.cpus", "cpuset.mems"):
                    if not (path / file).read_text().strip():
                        (path / file).write_text((path.parent / file).read_text())
        if self.cgroups.version is Version.V2:
            self._hand_down(self._directories_of(name)[0].parent)
        return name

    def set(self, knob: Knob, directory: str, value: int) -> None:
        """What the kernel lacks is left out. Raises OSError where the kernel refuses."""
        if knob is CPU_SHARES and self.is_idle(directory):
            return
        if self.cgroups.has(knob, directory):
            self.cgroups.set(knob, directory, value)

    def is_idle(self, directory: str) -> bool:
        """Whether the agent made the cgroup yield to all others: the kernel then takes no shares for it."""
        try:
            return self.cgroups.has(CPU_IDLE, directory) and self.cgroups.get(CPU_IDLE, directory) == 1
        except OSError:
            return False

    def hide(self, directory: str, nodes: Iterable[str]) -> None:
        """Keeps device files from the processes of a cgroup; `nodes` are named below /dev. Raises AccessError."""
        numbers = [number for node in nodes if (number := number_of(str(self._host_root / "dev" / node))) is not None]
        if not numbers:
            return
        controller = DEVICES if self.cgroups.version is Version.V1 else ""
        deny(str(self._host_root / self.cgroups.name(controller, directory)), self.cgroups.version, numbers)

    def doors(self, directory: str) -> list[str]:
        """The files into which a process writes itself to enter."""
        return [str(path / "cgroup.procs") for path in self._directories_of(directory)]

    def processes(self, directory: str) -> list[int]:
        try:
            return list(self.cgroups.processes(directory))
        except FileNotFoundError:
            return []
        except OSError as error:
            log.warning("the processes of cgroup %s cannot be read: %s", directory, error)
            return []

    async def drop(self, directory: str) -> None:
        """Ends whatever runs there, and takes the directory away with all below it; never fails."""
        until_s = time.monotonic() + REMOVED_WITHIN_S
        while (error := self._removed(directory)) is not None:
            if time.monotonic() > until_s:
                if directory not in self._leftovers:
                    log.warning("cgroup %s cannot be removed yet and is tried again: %s", directory, error)
                self._leftovers.add(directory)
                return
            await asyncio.sleep(REMOVE_AGAIN_S)
        self._leftovers.discard(directory)
        self.cgroups.forget(directory)

    async def sweep(self) -> None:
        """Tries once more to remove what the kernel kept."""
        for directory in sorted(self._leftovers):
            if self._removed(directory) is None:
                self._leftovers.discard(directory)
                self.cgroups.forget(directory)

    def remove(self) -> None:
        """Removes the whole node, at its end or before its start; blocks, since no other work is pending then."""
        until_s = time.monotonic() + REMOVED_WITHIN_S
        for path in self._directories_of(""):
            remove_within(path, until_s)
        self.cgroups.forget("")

    def _removed(self, directory: str) -> OSError | None:
        """One attempt in every hierarchy; returns the kernel's error."""
        return next(filter(None, map(remove, self._directories_of(directory))), None)

    def close(self) -> None:
        self.files.close()

    def _directories_of(self, name: str) -> list[Path]:
        controllers = self._controllers() if self.cgroups.version is Version.V1 else ("",)
        return [self._host_root / self.cgroups.name(controller, name) for controller in controllers]

    def _controllers(self) -> tuple[str, ...]:
        disks = (DISKS,) if self._has_disks else ()
        return (*CONTROLLERS, *disks, DEVICES) if self.keeps_devices_apart else (*CONTROLLERS, *disks)

    @staticmethod
    def _hand_down(path: Path) -> None:
        """On v2 a parent must give its children the controllers."""
        wanted = {"cpu", "cpuset", "memory", "io"}
        has = set((path / "cgroup.subtree_control").read_text().split())
        for controller in wanted & set((path / "cgroup.controllers").read_text().split()) - has:
            (path / "cgroup.subtree_control").write_text(f"+{controller}")


def remove_within(path: Path, until_s: float) -> None:
    """Tries until the kernel gives the directory up, which takes processes a moment. Raises what it says at last."""
    while (error := remove(path)) is not None:
        if time.monotonic() > until_s:
            raise error
        time.sleep(REMOVE_AGAIN_S)


def remove(path: Path) -> OSError | None:
    """A directory of one hierarchy with all below it, and whatever runs there; why that did not succeed yet."""
    try:
        below = [folder for folder in path.rglob("*") if folder.is_dir()]
    except FileNotFoundError:
        return None
    except OSError as error:
        return error
    for folder in sorted([path, *below], reverse=True):
        try:
            for pid in (folder / "cgroup.procs").read_text().split():
                with suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
            folder.rmdir()
        except FileNotFoundError:
            continue
        except OSError as error:
            return error
    return None
