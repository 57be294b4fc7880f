"""The cgroups of a node, below the directory that is the node's root.

Directories are named as from there (`kubepods/burstable/podX`), the same for both versions: on v1 each controller has
its own tree, on v2 there is one. With a `cgroup_root` (as kubelet has) a part of a machine can be the node.
"""

from __future__ import annotations

import errno
from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Final

from koord.agent.host.core_sched import Cookies, KernelCookies
from koord.agent.host.files import Files
from koord.agent.host.knobs import Knob, Place, Present, Value

MOUNT: Final = "sys/fs/cgroup"


class Version(StrEnum):
    V1 = "v1"
    V2 = "v2"


class OutsideError(FileNotFoundError):
    """A name that leads out of the node's cgroups. It counts as missing, whatever lies there."""


def is_inside(directory: str) -> bool:
    """Whether the name of a cgroup stays below the root. Names come from pods, runtimes, settings and the ledger."""
    return not any(part in ("..", ".") or "\0" in part for part in directory.split("/"))


class Cgroups:
    def __init__(self, files: Files, version: Version, root: str = "", mount: str = MOUNT) -> None:
        self.files = files
        self.version = version
        self.root = root.strip("/")
        self._mount = mount
        self._pods_root = ""
        self._known: dict[tuple[str, str], bool] = {}
        self._names: dict[tuple[str, str, str], str] = {}
        self._inodes: dict[str, int] = {}
        self.cookies: Cookies = KernelCookies(files)
        self.read_now: dict[str, Mapping[int, str]] = {}
        "What was read of all tasks in this round, for later readers; the executor empties it."

    @classmethod
    def of(cls, files: Files, root: str = "", mount: str = MOUNT) -> Cgroups:
        """As mounted. Where both are, v1 has the controllers."""
        unified = files.exists(f"{mount}/cgroup.controllers")
        return cls(files, Version.V2 if unified else Version.V1, root, mount)

    def look_for_pods_in(self, directory: str) -> None:
        """The directory of all pods: what its files are decides what this kernel has."""
        if directory != self._pods_root:
            self._pods_root = directory
            self._known.clear()

    def place(self, knob: Knob) -> Place | None:
        return knob.v1 if self.version is Version.V1 else knob.v2

    def has(self, knob: Knob, directory: str) -> bool:
        """Whether it can be set there. Checks the kernel once per knob where one answer holds for all."""
        place = self.place(knob)
        if place is None or not is_inside(directory):
            return False
        if place.means is not None:
            return place.means.has(self, directory)
        if knob.is_of_host:
            return self.files.exists(place.file)
        if place.present is Present.ALWAYS:
            return True
        if place.present is Present.TARGET:
            return self.files.exists(self.name(place.controller, directory, place.file))
        key = (place.controller, place.file)
        if key not in self._known:
            self._known[key] = self.files.exists(self.name(place.controller, self._pods_root, place.file))
        return self._known[key]

    def is_there(self, directory: str, knob: Knob) -> bool:
        """Whether the directory is, where the knob would be."""
        place = self.place(knob)
        if place is None or knob.is_of_host:
            return True
        return is_inside(directory) and self.files.exists(self.name(place.controller, directory))

    def get(self, knob: Knob, directory: str) -> Value:
        """What is in force. Raises FileNotFoundError."""
        place = self._place(knob)
        return place.form.read(self.files.text(self.name(place.controller, directory, place.reads or place.file)))

    def configured(self, knob: Knob, directory: str) -> Value:
        """What was written, which may be more than is in force."""
        place = self._place(knob)
        return place.form.read(self.files.text(self.name(place.controller, directory, place.file)))

    def set(self, knob: Knob, directory: str, value: Value) -> None:
        """Raises ValueError for an invalid value, FileNotFoundError, and the kernel's own errors."""
        if fault := knob.fault(value):
            raise ValueError(fault)
        self.put(knob, directory, self._place(knob).form.write(value))

    def text(self, knob: Knob, directory: str, ours: Collection[str] = ()) -> str:
        """What was written, in the kernel's own words: of a weight, shares would not tell all. Rarely asked for.

        `ours`: what the agent is known to have written there.
        """
        place = self._place(knob)
        if place.means is not None:
            return place.means.text(self, directory, ours)
        form = place.form
        text = self.files.once(self.file(knob, directory)).decode().strip()
        return form.shown(text) if form.shown else text

    def put(self, knob: Knob, directory: str, text: str, ours: Collection[str] = ()) -> None:
        """Restores the state that `text` describes."""
        means = self._place(knob).means
        if means is not None:
            means.put(self, directory, text, ours)
            return
        try:
            self.files.write(self.file(knob, directory), text)
        except OSError as error:
            if error.errno != errno.ENOSPC or text or not directory:
                raise
            # The kernel takes no set of CPUs back where something runs. Its parent's is what it would have.
            place = self._place(knob)
            above = self.name(place.controller, directory.rpartition("/")[0], place.reads or place.file)
            self.files.write(self.file(knob, directory), self.files.text(above).strip())

    def file(self, knob: Knob, directory: str) -> str:
        """The knob's file below the host root."""
        place = self._place(knob)
        if place.means is not None:
            return place.means.file(self, directory)
        return place.file if knob.is_of_host else self.name(place.controller, directory, place.file)

    def name(self, controller: str, directory: str, file: str = "") -> str:
        """A file or directory of a v1 controller's tree, or of the one tree."""
        key = (controller, directory, file)
        name = self._names.get(key)
        if name is None:
            if not is_inside(directory):
                raise OutsideError(errno.ENOENT, f"{directory!r} does not name a cgroup of this node")
            own = controller if self.version is Version.V1 else ""
            parts = (self._mount, own, self.root, directory.strip("/"), file)
            name = self._names[key] = "/".join(part for part in parts if part)
        return name

    def children(self, directory: str, controller: str = "cpu") -> list[str]:
        return self.files.directories(self.name(controller, directory)) if is_inside(directory) else []

    def below(self, directory: str, controller: str = "cpu") -> Iterator[str]:
        """All cgroups inside of one: a container may make its own."""
        for name in self.children(directory, controller):
            yield f"{directory}/{name}"
            yield from self.below(f"{directory}/{name}", controller)

    def processes(self, directory: str, controller: str = "cpu") -> tuple[int, ...]:
        """Opened again each time: to a descriptor that was read less than a second ago, v1 repeats its last answer."""
        text = self.files.once(self.name(controller, directory, "cgroup.procs"))
        return tuple(int(line) for line in text.split())

    def lost(self, looked_at: Iterable[str] = ()) -> Collection[str]:
        """Directories that went since the last call; others may have come under their names.

        Reading a file of a directory that is gone shows it. `looked_at`: directories whose files are not read.
        """
        vanished = set()
        if self.files.lost:
            vanished = {key[1] for key, path in self._names.items() if path in self.files.lost}
            self.files.lost.clear()
        for directory in looked_at:
            number = self.files.inode(self.name("cpu", directory))
            if self._inodes.setdefault(directory, number) != number:
                vanished.add(directory)
                self._inodes[directory] = number
        return vanished

    def forget(self, directory: str) -> None:
        """A directory that is gone: no descriptor in it is kept."""
        for controller in CONTROLLERS if self.version is Version.V1 else ("",):
            self.files.forget(self.name(controller, directory))
        below = directory + "/"
        for key in [key for key in self._names if key[1] == directory or key[1].startswith(below)]:
            del self._names[key]

    def _place(self, knob: Knob) -> Place:
        place = self.place(knob)
        if place is None:
            raise FileNotFoundError(f"{knob.name} is not there on cgroup {self.version}")
        return place


CONTROLLERS: Final = ("cpu", "cpuacct", "cpuset", "memory", "blkio", "pids", "perf_event", "net_cls")
"""The v1 hierarchies in which pods have directories that the agent looks at."""
