"""perf_event_open: counters of a cgroup, and a record of which task was switched in after which.

Only what the agent needs of a large interface, by the numbers of `linux/perf_event.h`. Loaded when a gate asks for it.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import struct
from collections.abc import Sequence
from fcntl import ioctl
from typing import Final, NamedTuple

from koord.agent.host.switch_records import Switch, switches_in

HARDWARE: Final = 0
SOFTWARE: Final = 1
CYCLES: Final = (HARDWARE, 0)
INSTRUCTIONS: Final = (HARDWARE, 1)
CPU_CLOCK: Final = (SOFTWARE, 0)
CONTEXT_SWITCHES: Final = (SOFTWARE, 3)
_DUMMY: Final = (SOFTWARE, 9)

_CALLS: Final = {"x86_64": 298, "aarch64": 241, "riscv64": 241, "ppc64le": 319, "s390x": 331}
_ATTR_BYTES: Final = 112
_OF_CGROUP: Final = 1 << 2
_CLOSE_ON_EXEC: Final = 1 << 3
_DISABLED: Final = 1 << 0
_SAMPLE_ID_ALL: Final = 1 << 18
_CONTEXT_SWITCH: Final = 1 << 26
_READ_ENABLED, _READ_RUNNING, _READ_GROUP = 1, 2, 8
_SAMPLE_TASK, _SAMPLE_TIME = 1 << 1, 1 << 2
_ENABLE, _DISABLE = 0x2400, 0x2401
_HEAD_AT, _TAIL_AT = 1024, 1032
_RING_PAGES: Final = 16
"""For each CPU: some 2,000 switches, after which the kernel records no more."""


class PerfError(OSError):
    """This kernel, or this machine, does not have it."""


class Counted(NamedTuple):
    """The values of one group of counters, scaled up for the time in which it was not counted."""

    values: tuple[float, ...]


def _open(kind: tuple[int, int], flags: int, target: int, cpu: int, group: int, call_flags: int, sample: int) -> int:
    number = _CALLS.get(platform.machine())
    if number is None:
        raise PerfError(f"perf events of {platform.machine()} are not known")
    attr = bytearray(_ATTR_BYTES)
    read = _READ_ENABLED | _READ_RUNNING | _READ_GROUP
    struct.pack_into("IIQQQQQ", attr, 0, kind[0], _ATTR_BYTES, kind[1], 0, sample, read, flags)
    libc = ctypes.CDLL(None, use_errno=True)
    given = (ctypes.c_char * _ATTR_BYTES).from_buffer(attr)
    fd = int(libc.syscall(number, given, target, cpu, group, call_flags | _CLOSE_ON_EXEC))
    if fd < 0:
        raise PerfError(ctypes.get_errno(), f"perf_event_open: {os.strerror(ctypes.get_errno())}")
    return fd


def has_cycles() -> bool:
    """Whether there is a unit that counts cycles: virtual machines often have none."""
    try:
        os.close(_open(CYCLES, _DISABLED, 0, -1, -1, 0, 0))
    except OSError:
        return False
    return True


def records_switches() -> bool:
    """Whether this kernel records both tasks of a context switch."""
    try:
        os.close(_open(_DUMMY, _DISABLED | _SAMPLE_ID_ALL | _CONTEXT_SWITCH, -1, 0, -1, 0, 0))
    except OSError:
        return False
    return True


class Group:
    """Counters of a cgroup and all below, on some CPUs, from now until it is closed."""

    def __init__(self, cgroup: str, cpus: Sequence[int], kinds: Sequence[tuple[int, int]]) -> None:
        """`cgroup` is a directory of the hierarchy that knows perf events. Raises OSError where that cannot be."""
        self._leaders: list[int] = []
        self._others: list[int] = []
        directory = os.open(cgroup, os.O_RDONLY | os.O_CLOEXEC)
        try:
            for cpu in cpus:
                leader = _open(kinds[0], 0, directory, cpu, -1, _OF_CGROUP, 0)
                self._leaders.append(leader)
                for kind in kinds[1:]:
                    self._others.append(_open(kind, 0, directory, cpu, leader, _OF_CGROUP, 0))
        except OSError:
            self.close()
            raise
        finally:
            os.close(directory)
        self._count = len(kinds)

    def read(self) -> Counted:
        """Sums over all CPUs. If counters had to take turns, their values are scaled up for the time they missed."""
        totals = [0.0] * self._count
        for leader in self._leaders:
            _, enabled, running, *values = struct.unpack(f"{3 + self._count}Q", os.read(leader, 8 * (3 + self._count)))
            for at, value in enumerate(values):
                totals[at] += value * enabled / running if running else 0.0
        return Counted(tuple(totals))

    def close(self) -> None:
        for fd in (*self._others, *self._leaders):
            os.close(fd)
        self._leaders, self._others = [], []


class SwitchRing:
    """The context switches of one CPU."""

    def __init__(self, cpu: int) -> None:
        sample = _SAMPLE_TASK | _SAMPLE_TIME
        self._fd = _open(_DUMMY, _DISABLED | _SAMPLE_ID_ALL | _CONTEXT_SWITCH, -1, cpu, -1, 0, sample)
        size = (1 + _RING_PAGES) * mmap.PAGESIZE
        try:
            self._shared = mmap.mmap(self._fd, size)
        except OSError:
            os.close(self._fd)
            raise

    def start(self) -> None:
        ioctl(self._fd, _ENABLE, 0)

    def stop(self) -> list[Switch]:
        """What was recorded since the start, in the order of time."""
        ioctl(self._fd, _DISABLE, 0)
        head, tail = (struct.unpack_from("Q", self._shared, at)[0] for at in (_HEAD_AT, _TAIL_AT))
        text = self._between(tail, head)
        struct.pack_into("Q", self._shared, _TAIL_AT, head)
        return list(switches_in(text))

    def _between(self, tail: int, head: int) -> bytes:
        size, start = _RING_PAGES * mmap.PAGESIZE, mmap.PAGESIZE
        first, last = tail % size, head % size
        if head == tail:
            return b""
        if first < last:
            return self._shared[start + first : start + last]
        return self._shared[start + first : start + size] + self._shared[start : start + last]

    def close(self) -> None:
        self._shared.close()
        os.close(self._fd)
