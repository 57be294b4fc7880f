"""A machine with resctrl, composed: no machine at hand has it. Its files do what the kernel's do when they are written.

| written                | what happens                                                                              |
| ---------------------- | ----------------------------------------------------------------------------------------- |
| a group made           | it has every share; ENOSPC where the CPUs have no class of service left                    |
| a group removed        | its tasks are in the root group                                                           |
| `schemata`             | the lines that are named change; EINVAL for a mask with holes, too few ways, unknown caches |
| `tasks`                | one task moves; ESRCH for one that has ended                                              |
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from koord.agent.host.cgroups import Cgroups, Version
from koord.agent.host.files import Files
from koord.agent.host.resctrl import MOUNT
from koord.api.kubernetes.cgroup import CgroupDriver
from koord.api.kubernetes.words import KubeQoS
from tests.agent.trees import Tree


class Killed(BaseException):
    """The agent died here: nothing of it catches that."""


class ResctrlFiles(Files):
    """`left`: after N writes the agent dies, before the next; None: never."""

    def __init__(self, machine: ResctrlMachine, left: int | None = None) -> None:
        super().__init__(str(machine.tree.root))
        self._machine, self.left, self.writes = machine, left, 0

    def _count(self) -> None:
        if self.left is not None and self.writes >= self.left:
            raise Killed
        self.writes += 1

    def write(self, name: str, text: str) -> None:
        self._count()
        group = name.removeprefix(MOUNT).strip("/").rpartition("/")[0]
        if not name.startswith(f"{MOUNT}/"):
            super().write(name, text)
        elif name.endswith("/schemata"):
            self._machine.set_schemata(group, text)
        else:
            self._machine.move(int(text), group)

    def make_directory(self, name: str) -> None:
        self._count()
        self._machine.make(name.removeprefix(f"{MOUNT}/"))

    def remove_directory(self, name: str) -> None:
        self._count()
        self._machine.remove(name.removeprefix(f"{MOUNT}/"))


class ResctrlMachine:
    def __init__(
        self,
        root: Path,
        *,
        full: str = "fff",
        caches: tuple[int, ...] = (0, 1),
        least_bits: int = 1,
        closids: int = 16,
        code_and_data: bool = False,
        bandwidth: int = 100,
        options: str = "rw",
    ) -> None:
        self.tree = Tree(root, Version.V2, CgroupDriver.CGROUPFS, sockets=len(caches))
        self.full, self.caches, self.least_bits, self.closids = full, caches, least_bits, closids
        self.lines = ("L3CODE", "L3DATA") if code_and_data else ("L3",)
        self.bandwidth = bandwidth
        self.on_move: Callable[[int], None] = lambda task: None
        "What happens on the machine while a task is moved."
        for line in self.lines:
            self.tree.write(f"{MOUNT}/info/{line}/cbm_mask", f"{full}\n")
            self.tree.write(f"{MOUNT}/info/{line}/min_cbm_bits", f"{least_bits}\n")
            self.tree.write(f"{MOUNT}/info/{line}/num_closids", f"{closids}\n")
        if bandwidth:
            self.tree.write(f"{MOUNT}/info/MB/bandwidth_gran", "10\n" if bandwidth == 100 else "1\n")
            self.tree.write(f"{MOUNT}/info/MB/min_bandwidth", "10\n" if bandwidth == 100 else "1\n")
            self.tree.write(f"{MOUNT}/info/MB/num_closids", f"{closids}\n")
        self.tree.write(f"{MOUNT}/info/last_cmd_status", "ok\n")
        self.tree.write("proc/mounts", f"resctrl /{MOUNT} resctrl {options} 0 0\n")
        self._fill("")

    def cgroups(self, left: int | None = None) -> Cgroups:
        cgroups = Cgroups.of(ResctrlFiles(self, left))
        cgroups.look_for_pods_in("kubepods")
        return cgroups

    def _fill(self, group: str) -> None:
        base = f"{MOUNT}/{group}" if group else MOUNT
        self.tree.write(f"{base}/tasks", "")
        masks = {line: dict.fromkeys(self.caches, int(self.full, 16)) for line in self.lines}
        amounts = {"MB": dict.fromkeys(self.caches, self.bandwidth)} if self.bandwidth else {}
        self._show(group, {**masks, **amounts})
        for cache in self.caches:
            for counter in ("llc_occupancy", "mbm_total_bytes", "mbm_local_bytes"):
                self.tree.write(f"{base}/mon_data/mon_L3_{cache:02}/{counter}", "0\n")

    def _show(self, group: str, shares: dict[str, dict[int, int]]) -> None:
        lines = []
        for name, own in shares.items():
            # The kernel sets amounts right, and writes masks as wide as the widest.
            digits = len(self.full)
            values = (f"{at}={value:4}" if name == "MB" else f"{at}={value:0{digits}x}" for at, value in own.items())
            lines.append(f"{name:>6}:{';'.join(values)}\n")
        self.tree.write(f"{MOUNT}/{group}/schemata" if group else f"{MOUNT}/schemata", "".join(lines))

    def schemata(self, group: str = "") -> dict[str, dict[int, int]]:
        found: dict[str, dict[int, int]] = {}
        for line in self.tree.read(f"{MOUNT}/{group}/schemata").splitlines():
            name, _, shares = line.replace(" ", "").partition(":")
            pairs = (pair.split("=") for pair in shares.split(";"))
            found[name] = {int(cache): int(share, 10 if name == "MB" else 16) for cache, share in pairs}
        return found

    def set_schemata(self, group: str, text: str) -> None:
        shares = self.schemata(group)
        for line in text.splitlines():
            name, _, named = line.partition(":")
            for pair in filter(None, named.split(";")):
                cache, share = pair.split("=")
                value = int(share, 10 if name == "MB" else 16)
                if int(cache) not in shares.get(name, {}) or (name != "MB" and not self._is_mask(value)):
                    self.tree.write(f"{MOUNT}/info/last_cmd_status", f"the mask {share} is refused\n")
                    raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
                shares[name][int(cache)] = value
        self._show(group, shares)

    def _is_mask(self, mask: int) -> bool:
        ways = f"{mask:b}".strip("0")
        return "0" not in ways and len(ways) >= self.least_bits and mask <= int(self.full, 16)

    def groups(self) -> list[str]:
        kept = ("info", "mon_data", "mon_groups")
        return sorted(
            each.name for each in (self.tree.root / MOUNT).iterdir() if each.is_dir() and each.name not in kept
        )

    def make(self, group: str) -> None:
        if group in self.groups():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
        if len(self.groups()) >= self.closids - 1:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._fill(group)

    def remove(self, group: str) -> None:
        left = self.tasks(group)
        shutil.rmtree(self.tree.root / MOUNT / group)
        self.put("", *self.tasks(), *left)

    def tasks(self, group: str = "") -> list[int]:
        return [int(line) for line in self.tree.read(f"{MOUNT}/{group}/tasks").split()]

    def put(self, group: str, *tasks: int) -> None:
        self.tree.write(f"{MOUNT}/{group}/tasks", "".join(f"{task}\n" for task in sorted(tasks)))

    def move(self, task: int, group: str) -> None:
        if not any(task in self.tasks(each) for each in ("", *self.groups())):
            raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))
        if not (self.tree.root / MOUNT / group).exists():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        for each in ("", *self.groups()):
            self.put(each, *(other for other in self.tasks(each) if other != task))
        self.put(group, *self.tasks(group), task)
        self.on_move(task)

    def group_of(self, task: int) -> str:
        return next((group for group in self.groups() if task in self.tasks(group)), "/")

    def run(self, directory: str, *tasks: int, born_in: str = "") -> None:
        """Tasks of a cgroup. A task is born in its parent's group."""
        file = f"sys/fs/cgroup/{directory}/cgroup.threads"
        before = self.tree.read(file).split()
        self.tree.write(file, "".join(f"{task}\n" for task in [*before, *tasks]))
        self.put(born_in, *self.tasks(born_in), *tasks)

    def pod(self, name: str, qos: KubeQoS, *tasks: int) -> str:
        """A pod with a container and a sandbox; the first task is the sandbox's."""
        directory = self.tree.pod(name, qos, f"{name}-main", "pause")
        self.run(f"{directory}/pause", *tasks[:1])
        self.run(f"{directory}/{name}-main", *tasks[1:])
        return directory

    def end(self, directory: str) -> None:
        """A pod that goes: its tasks, and its cgroup."""
        gone = {
            int(task)
            for file in (self.tree.root / "sys/fs/cgroup" / directory).rglob("cgroup.threads")
            for task in file.read_text().split()
        }
        shutil.rmtree(self.tree.root / "sys/fs/cgroup" / directory)
        for group in ("", *self.groups()):
            self.put(group, *(task for task in self.tasks(group) if task not in gone))

    def shown(self) -> dict[str, str]:
        """All that resctrl shows, and which groups there are."""
        root = self.tree.root / MOUNT
        names = [each for each in root.rglob("*") if each.name in ("schemata", "tasks")]
        return {str(name.relative_to(root)): name.read_text() for name in names}
