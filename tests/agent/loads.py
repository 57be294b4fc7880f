"""Processes with a known demand, in a cgroup of this machine's kernel: they use what they are told, if they get it.

They are forked, so that they are there at once, and die with their parent. What they use is set in CPU time and
bytes, never in turns of a loop, so that a slow machine changes nothing.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import struct
import time
from collections.abc import Callable
from types import TracebackType

from koord.agent.host.cgroups import Cgroups
from tests.agent.real import put

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


class Level:
    """A number that a test sets and a process reads."""

    def __init__(self, value: float) -> None:
        self._shared = mmap.mmap(-1, 8)
        self.set(value)

    def set(self, value: float) -> None:
        struct.pack_into("d", self._shared, 0, value)

    def get(self) -> float:
        value: float = struct.unpack_from("d", self._shared)[0]
        return value


class Process:
    """One that works in a cgroup until the block ends."""

    def __init__(self, cgroups: Cgroups, directory: str, work: Callable[[], None]) -> None:
        """Returns when it is there."""
        parent = os.getpid()
        arrived, arrives = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
                if os.getppid() == parent:
                    put(cgroups, directory, 0)
                    os.write(arrives, b"!")
                    work()
            finally:
                os._exit(1)
        os.close(arrives)
        is_there = os.read(arrived, 1)
        os.close(arrived)
        if not is_there:
            os.waitpid(self.pid, 0)
            raise RuntimeError(f"a process could not enter {directory}")

    def end(self) -> None:
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self.pid = 0

    def __enter__(self) -> Process:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        self.end()


def nap() -> None:
    while True:
        time.sleep(60)


def burn() -> None:
    """All that it gets."""
    while True:
        pass


def burn_on(cpu: int) -> Callable[[], None]:
    """All that it gets on one CPU. What the kernel gives above a quota is kept account of there, and taken back."""

    def work() -> None:
        os.sched_setaffinity(0, {cpu})
        burn()

    return work


def cores(level: Level, every_s: float = 0.02) -> Callable[[], None]:
    """N cores, in small portions. What it could not get in a while is not made up for."""

    def work() -> None:
        began_s, due_s = time.monotonic(), 0.0
        while True:
            due_s = min(due_s + level.get() * every_s, 5 * every_s)
            due_s -= _spin(due_s)
            began_s = max(began_s + every_s, time.monotonic() - every_s)
            time.sleep(max(began_s - time.monotonic(), 0.0))

    return work


def bursts(cpu_s: float, every_s: float) -> Callable[[], None]:
    """Nothing for a while, then all at once."""

    def work() -> None:
        while True:
            time.sleep(every_s)
            _spin(cpu_s)

    return work


def hold(size_bytes: Level) -> Callable[[], None]:
    """Memory, page by page; never less than before."""

    def work() -> None:
        held, kept = 0, []
        while True:
            more = int(size_bytes.get()) - held
            if more > 0:
                chunk = mmap.mmap(-1, more, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
                for page in range(0, more, mmap.PAGESIZE):
                    chunk[page] = 1
                kept.append(chunk)
                held += more
            time.sleep(0.01)

    return work


def _spin(cpu_s: float) -> float:
    """Uses CPU time; gives how much it really was."""
    began_s = time.thread_time()
    while (used_s := time.thread_time() - began_s) < cpu_s:
        pass
    return used_s
