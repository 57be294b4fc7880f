"""This machine's processes, to find those of a YARN container.

A container of the default executor is a session. Shells in it may make process groups of their own; children may make
sessions of their own, and lose their parents on purpose. YARN tells each its container by the environment, which can be
read for other users' processes only with SYS_PTRACE: without it, those that lost their parents stay unknown.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

INIT: Final = 1
TICKS_A_S: Final = os.sysconf("SC_CLK_TCK")
_TOLD_BY: Final = b"CONTAINER_ID="
_NATIVE: Final = b"/container-executor"
_LONGEST_NUMBER: Final = 10


class Process(NamedTuple):
    parent: int
    session: int
    started_ticks: int
    "Since boot."


class PidFile(NamedTuple):
    """A process id in a file."""

    pid: int
    owner: int
    "The file's."


NOBODY: Final = PidFile(0, -1)


class ProcessTable:
    def __init__(self, all_: Mapping[int, Process], now_ticks: int) -> None:
        self.all, self.now_ticks = all_, now_ticks
        self._by_session: dict[int, list[int]] = {}
        self._by_parent: dict[int, list[int]] = {}
        for pid, process in all_.items():
            self._by_session.setdefault(process.session, []).append(pid)
            self._by_parent.setdefault(process.parent, []).append(pid)

    @classmethod
    def read(cls) -> ProcessTable:
        pids = (int(name) for name in os.listdir("/proc") if name.isdigit())
        now_ticks = int(time.clock_gettime(time.CLOCK_BOOTTIME) * TICKS_A_S)
        return cls({pid: process for pid in pids if (process := _process(pid)) is not None}, now_ticks)

    def family(self, leader: int) -> set[int]:
        """The session of a process, with all descendants."""
        return self._with_descendants(set(self._by_session.get(leader, ())))

    def descendants(self, pid: int) -> set[int]:
        return self._with_descendants({pid}) - {pid}

    def _with_descendants(self, new: set[int]) -> set[int]:
        family: set[int] = set()
        while new:
            family |= new
            new = {child for parent in new for child in self._by_parent.get(parent, ())} - family
        return family

    def is_of(self, named: PidFile, container_id: str) -> bool:
        """Whether a process that a file names is said to be a container's: by its environment, by its command, or by
        that of the process which started it, if it is of the file's owner or Hadoop's native executor."""
        if named.pid <= INIT or named.pid not in self.all:
            return False
        if container_of(named.pid) == container_id:
            return True
        for one in (named.pid, self.all[named.pid].parent):
            command = _read(one, "cmdline").split(b"\0")
            is_trusted = _owner(one) == named.owner or command[0].endswith(_NATIVE)
            if is_trusted and any(container_id.encode() in word for word in command):
                return True
        return False


def container_of(pid: int) -> str:
    """The container that a process' environment names; empty where it names none."""
    for variable in _read(pid, "environ").split(b"\0"):
        if variable.startswith(_TOLD_BY):
            return variable.removeprefix(_TOLD_BY).decode(errors="replace")
    return ""


def written(file: Path) -> PidFile:
    """The process id that a file holds. Others may write it: it must be a plain file."""
    try:
        fd = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return NOBODY
    try:
        about = os.fstat(fd)
        if not stat.S_ISREG(about.st_mode):
            return NOBODY
        text = os.read(fd, 64).strip()
    except OSError:
        return NOBODY
    finally:
        os.close(fd)
    return PidFile(int(text), about.st_uid) if text.isdigit() and len(text) <= _LONGEST_NUMBER else NOBODY


def _owner(pid: int) -> int | None:
    try:
        return os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return None


def _process(pid: int) -> Process | None:
    try:
        data = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # After the command's name, which may hold anything.
    fields = data[data.rindex(b")") + 1 :].split()
    return Process(int(fields[1]), int(fields[3]), int(fields[19]))


def _read(pid: int, file: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{file}").read_bytes()
    except OSError:
        return b""
