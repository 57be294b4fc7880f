"""Where a NodeManager's containers run: their processes, and their cgroups below best effort.

The native executor puts containers into cgroups itself, Hadoop 2's into those of CPU alone: if asked to, the copilot
makes the ones of memory beside them. With the default executor a container is a session of
processes whose first one is named in a file; the copilot makes the cgroup and moves them in, and keeps looking for
stragglers: a process that forks while it is moved leaves its child behind. Containers may write that file: the process
that it names counts only if it says itself which container it is of.
"""

from __future__ import annotations

import errno
import logging
import os
import signal
from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from koord.agent.host import usage
from koord.agent.host.cgroups import Cgroups, Version
from koord.agent.host.convert import shares_of_milli
from koord.agent.host.knobs import CPU_SHARES
from koord.api.kubernetes.cgroup import CgroupDriver, qos_dir
from koord.api.kubernetes.words import KubeQoS
from koord.api.protocol.copilot import DIRECTORY
from koord.yarn.containers import YarnContainer, is_container_id
from koord.yarn.live.processes import INIT, TICKS_A_S, ProcessTable, container_of, written

log = logging.getLogger(__name__)

MEMORY: Final = "memory"
CONTROLLERS: Final = ("cpu", "cpuacct", "cpuset", MEMORY)
SETTLED_S: Final = 10
_INHERITED: Final = ("cpuset.cpus", "cpuset.mems")
"""A cpuset takes no process before it has these."""


class Placing:
    def __init__(
        self, cgroups: Cgroups, driver: CgroupDriver, local_dirs: Collection[str], *, sync_memory: bool = False
    ) -> None:
        """`local_dirs` are the NodeManager's yarn.nodemanager.local-dirs. `sync_memory`: whether memory cgroups follow
        those of CPU; version 2 of cgroups has one tree for both."""
        self.cgroups = cgroups
        self._sync_memory = sync_memory and cgroups.version is not Version.V2
        self.directory = f"{qos_dir(KubeQoS.BEST_EFFORT, driver)}/{DIRECTORY}"
        self._local_dirs = [Path(local_dir) for local_dir in local_dirs]
        self._boot_s = _boot_s()
        self._others: dict[int, int] = {}
        "Orphans that belong to no container, with when they started."

    def of(self, container_id: str) -> str:
        return f"{self.directory}/{container_id}"

    def place(self, containers: Iterable[YarnContainer]) -> dict[str, float]:
        """Moves what is not where it belongs. When the first process of each container started, by id."""
        table = ProcessTable.read()
        strays = self._strays(table)
        started: dict[str, float] = {}
        needed_milli = 0
        for container in containers:
            leader = self._leader(container, table)
            mine = set(self.processes(container.id))
            members = (table.family(leader) if leader else set()) | strays.get(container.id, set())
            if members - mine:
                self._move(container, members - mine)
            elif mine and self._sync_memory:
                self._follow_in_memory(container, mine)
            first = leader if leader in members else min(mine, default=0)
            if first in table.all:
                started[container.id] = self._boot_s + table.all[first].started_ticks / TICKS_A_S
            needed_milli += container.needs.cpu_milli
        if needed_milli:
            with suppress(OSError):
                self.cgroups.set(CPU_SHARES, self.directory, shares_of_milli(needed_milli))
        return started

    def processes(self, container_id: str) -> tuple[int, ...]:
        try:
            return self.cgroups.processes(self.of(container_id))
        except OSError:
            return ()

    def used(self, containers: Iterable[YarnContainer]) -> dict[str, int]:
        """Bytes by id, of those that have a memory cgroup."""
        used_bytes = {}
        for container in containers:
            with suppress(OSError):
                used_bytes[container.id] = usage.memory(self.cgroups, self.of(container.id)).without_page_cache
        return used_bytes

    def kill(self, container_id: str) -> int:
        """Ends all its processes. How many there were."""
        killed = 0
        for pid in self.processes(container_id):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                killed += 1
        return killed

    def left(self, living: Collection[str]) -> list[str]:
        """Containers that are gone, and whose processes are not."""
        names = self.cgroups.children(self.directory)
        return [name for name in names if name not in living and is_container_id(name) and self.processes(name)]

    def tidy(self, living: Collection[str]) -> None:
        """Removes the cgroups of containers that are gone, once nothing runs in them."""
        for controller in self._controllers():
            for name in self.cgroups.children(self.directory, controller):
                if name not in living and is_container_id(name):
                    with suppress(OSError):
                        self._path(controller, self.of(name)).rmdir()

    def _leader(self, container: YarnContainer, table: ProcessTable) -> int:
        """The first process, by the file that the NodeManager keeps of it; 0 where there is none."""
        for directory in self._local_dirs:
            named = written(directory / "nmPrivate" / container.application / container.id / f"{container.id}.pid")
            if table.is_of(named, container.id):
                return named.pid
        return 0

    def _strays(self, table: ProcessTable) -> dict[str, set[int]]:
        """Processes that left their session and lost their parent, by the container that their environment names."""
        strays: dict[str, set[int]] = {}
        orphans = {pid: process.started_ticks for pid, process in table.all.items() if process.parent == INIT}
        self._others = {pid: ticks for pid, ticks in self._others.items() if orphans.get(pid) == ticks}
        settled_ticks = table.now_ticks - SETTLED_S * TICKS_A_S
        for pid, ticks in orphans.items():
            if pid in self._others:
                continue
            if of := container_of(pid):
                strays.setdefault(of, set()).add(pid)
            elif ticks < settled_ticks:
                # What it has become by then, it stays.
                self._others[pid] = ticks
        return strays

    def _move(self, container: YarnContainer, pids: Iterable[int]) -> None:
        directory = self.of(container.id)
        self._make(self.directory)
        self._make(directory)
        for pid in pids:
            for controller in self._controllers():
                try:
                    (self._path(controller, directory) / "cgroup.procs").write_text(str(pid))
                except ProcessLookupError:
                    break
                except OSError as error:
                    if error.errno == errno.ESRCH:
                        break
                    log.warning("process %d of %s cannot be moved to %s: %s", pid, container.id, directory, error)
        with suppress(OSError):
            self.cgroups.set(CPU_SHARES, directory, shares_of_milli(container.needs.cpu_milli))

    def _follow_in_memory(self, container: YarnContainer, pids: Collection[int]) -> None:
        directory = self.of(container.id)
        path = self._path(MEMORY, directory)
        if not path.exists():
            self._make(self.directory, (MEMORY,))
            self._make(directory, (MEMORY,))
            # What is charged already moves along; the container ends as one, and at the limit that it asked for.
            for file, text in (
                ("memory.move_charge_at_immigrate", "3"),
                ("memory.oom.group", "1"),
                ("memory.limit_in_bytes", str(container.needs.memory_bytes or -1)),
            ):
                with suppress(OSError):
                    (path / file).write_text(text)
        for pid in set(pids) - set(self.cgroups.processes(directory, MEMORY)):
            with suppress(OSError):
                (path / "cgroup.procs").write_text(str(pid))

    def _make(self, directory: str, controllers: Iterable[str] | None = None) -> None:
        for controller in self._controllers() if controllers is None else controllers:
            path = self._path(controller, directory)
            if path.exists():
                continue
            path.mkdir()
            if controller == "cpuset":
                for file in _INHERITED:
                    (path / file).write_text((path.parent / file).read_text())
            elif self.cgroups.version is Version.V2:
                with suppress(OSError):
                    (path.parent / "cgroup.subtree_control").write_text("+cpu +cpuset +memory")

    def _controllers(self) -> Iterable[str]:
        if self.cgroups.version is Version.V2:
            return ("",)
        return [controller for controller in CONTROLLERS if self._path(controller, "").exists()]

    def _path(self, controller: str, directory: str) -> Path:
        return Path(self.cgroups.files.path(self.cgroups.name(controller, directory)))


def _boot_s() -> float:
    for line in Path("/proc/stat").read_text().splitlines():
        if line.startswith("btime "):
            return float(line.split()[1])
    return 0.0
