"""For how long a task may keep a CPU at a time: its time slice, as something that can be set like any other.

Where no slice is chosen, all have the same. A task that wakes takes the CPU at once from one with a longer slice; from
one with the same it may have to wait until the next tick, however little that one weighs. So best effort is given
longer ones. Tasks that are born have their parent's. What a program chose for itself is left alone, and so is whatever
the kernel does not schedule by weight.
"""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Callable, Collection, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from koord.agent.host.knobs import Form, Knob, Place
from koord.agent.host.means import listed, none_but, numbers_of, parts, until_none_is_left
from koord.agent.host.processes import NOT_SEEN, sees_processes
from koord.agent.host.tasks import tasks_in

if TYPE_CHECKING:
    from koord.agent.host.cgroups import Cgroups
    from koord.agent.host.files import Files

USUAL: Final = "0"
LONG: Final = "10000001"
"""Nanoseconds. Several times the kernel's own (at most 2.8 ms), and no number that a program would choose."""

_ATTRIBUTES: Final = struct.Struct("=IIQiIQQQ")
"""Size, policy, flags, nice value, priority, and of the slice alone the first of three times."""
_BY_WEIGHT: Final = (os.SCHED_OTHER, os.SCHED_BATCH, os.SCHED_IDLE)
_RESET_ON_FORK: Final = 1
_GENERIC: Final = (274, 275)
_CALLS: Final = {"x86_64": (314, 315), "aarch64": _GENERIC, "riscv64": _GENERIC, "loongarch64": _GENERIC}
"""By machine, the numbers of sched_setattr and sched_getattr, which most C libraries lack."""


class _Attributes(NamedTuple):
    policy: int
    flags: int
    nice: int
    slice_ns: int


@cache
def _calls() -> tuple[Any, int, int]:
    import ctypes
    import platform

    numbers = _CALLS.get(platform.machine())
    if numbers is None:
        raise OSError(errno.ENOSYS, "the system calls of this kind of machine are not known")
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    return libc, *numbers


def _call(number: int, task: int, *args: object) -> None:
    import ctypes

    libc, _, _ = _calls()
    if libc.syscall(ctypes.c_long(number), ctypes.c_int(task), *args) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def _attributes(task: int) -> _Attributes:
    """Of the thread that asks, where the task is 0. Raises OSError."""
    import ctypes

    _, _, getting = _calls()
    buffer = ctypes.create_string_buffer(_ATTRIBUTES.size)
    _call(getting, task, buffer, ctypes.c_uint(_ATTRIBUTES.size), ctypes.c_uint(0))
    _, policy, flags, nice, _, slice_ns, _, _ = _ATTRIBUTES.unpack(buffer.raw)
    return _Attributes(policy, flags, nice, slice_ns)


def absence(files: Files) -> str:
    """Why slices cannot be chosen; empty where they can."""
    if not sees_processes(files):
        return NOT_SEEN
    try:
        own = _attributes(0)
    except OSError as error:
        return f"the kernel does not tell of time slices: {error.strerror}"
    return "" if own.slice_ns else "this kernel has one time slice for all (others can be chosen since 6.12)"


def slice_reader() -> Callable[[int], str | None]:
    """Reads a task's slice; None for a task that has ended, or has none. The usual slice is the calling task's."""
    usual_ns = _attributes(0).slice_ns

    def slice_of(task: int) -> str | None:
        try:
            attributes = _attributes(task)
        except ProcessLookupError:
            return None
        if attributes.policy not in _BY_WEIGHT:
            return None
        return USUAL if attributes.slice_ns == usual_ns else str(attributes.slice_ns)

    return slice_of


def give(task: int, chosen: str) -> None:
    """Raises ProcessLookupError for a task that has ended, OSError for what the kernel refuses."""
    import ctypes

    before = _attributes(task)
    if before.policy not in _BY_WEIGHT:
        return
    size, flags = _ATTRIBUTES.size, before.flags & _RESET_ON_FORK
    asked = _ATTRIBUTES.pack(size, before.policy, flags, before.nice, 0, int(chosen), 0, 0)
    setting = _calls()[1]
    _call(setting, task, ctypes.create_string_buffer(asked, size), ctypes.c_uint(0))


def _tasks(cgroups: Cgroups, directory: str) -> Iterator[int]:
    """Also what is put back is asked for here, by a record that may be of another machine."""
    if not sees_processes(cgroups.files):
        raise OSError(errno.EPERM, NOT_SEEN)
    return tasks_in(cgroups, directory)


class _TimeSlice:
    """Of all tasks in a directory and below."""

    def has(self, cgroups: Cgroups, directory: str) -> bool:
        return not absence(cgroups.files)

    def text(self, cgroups: Cgroups, directory: str, ours: Collection[str]) -> str:
        slices = {*map(slice_reader(), _tasks(cgroups, directory))}
        return listed(slice_ for slice_ in slices if slice_ in (USUAL, LONG))

    def put(self, cgroups: Cgroups, directory: str, text: str, ours: Collection[str]) -> None:
        target = LONG if parts(text) == {LONG} else USUAL
        until_none_is_left(
            lambda: _tasks(cgroups, directory),
            slice_reader,
            lambda held: held != target and held in (USUAL, LONG),
            lambda task: give(task, target),
        )

    def file(self, cgroups: Cgroups, directory: str) -> str:
        return cgroups.name("cpu", directory, "time slice")

    def is_ours(self, original: str, wrote: Collection[str], shown: str) -> bool:
        return LONG in parts(shown)


_PLACE: Final = Place("time slice", Form(str, numbers_of("time slices"), alike=none_but), "cpu", means=_TimeSlice())
TIME_SLICE: Final = Knob("time slice", _PLACE, _PLACE)
