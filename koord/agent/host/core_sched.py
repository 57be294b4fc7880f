"""Core scheduling: tasks run beside each other on the threads of a core only if they have the same cookie.

The kernel (mainline since 5.14) makes cookies and gives them from the task that asks, or to it, and nowhere else. So a
thread of the agent holds each cookie that may be given: it makes it, or takes it from a task that has it, and passes
it on. A cookie lives as long as a task has it. Zero is none; the agent's own tasks keep theirs.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Collection
from functools import cache
from typing import Any, Final, Protocol

from koord.agent.host.files import Files
from koord.agent.host.processes import NOT_SEEN, sees_processes

_PR_SCHED_CORE: Final = 62
_GET, _CREATE, _SHARE_TO, _SHARE_FROM = range(4)
_ONE_THREAD: Final = 0
NONE: Final = 0


class Cookies(Protocol):
    """What the kernel can do about cookies. Tasks are named by their numbers."""

    def absence(self) -> str:
        """Why there are none; empty where there are."""
        ...

    def of(self, task: int) -> int | None:
        """Its cookie. None for a task that has ended, and for the agent's own."""
        ...

    def held(self) -> Collection[int]:
        """Cookies that can be given."""
        ...

    def make(self) -> int:
        """A new cookie, which no task has yet."""
        ...

    def hold(self, cookie: int, task: int) -> bool:
        """A task's cookie can be given from now on. False if it has it no more."""
        ...

    def release(self, kept: Collection[int]) -> None:
        """Cookies other than these will not be given any more. Tasks that have them keep them."""
        ...

    def give(self, cookie: int, task: int) -> None:
        """Raises ProcessLookupError for a task that has ended, OSError for what the kernel refuses."""
        ...


@cache
def _libc() -> Any:
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]
    return libc


def _prctl(operation: int, task: int, answer_at: int = 0) -> None:
    """Of the thread that asks, where the task is 0. Raises OSError."""
    import ctypes

    if _libc().prctl(_PR_SCHED_CORE, operation, task, _ONE_THREAD, answer_at) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _cookie_of(task: int) -> int:
    import ctypes

    cookie = ctypes.c_ulonglong()
    _prctl(_GET, task, ctypes.addressof(cookie))
    return cookie.value


class _Holder:
    """A thread of the agent with one cookie, which it gives to other tasks on request."""

    def __init__(self, begin: Callable[[], None]) -> None:
        """`begin` runs in the thread and gets it its cookie. Raises what that raises."""
        import threading
        from queue import SimpleQueue

        self._asked: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._answers: SimpleQueue[OSError | None] = SimpleQueue()
        self.cookie = NONE
        threading.Thread(target=self._work, name="core-sched", daemon=True).start()
        try:
            self._do(begin)
            self._do(self._learn)
        except OSError:
            self.end()
            raise

    def _learn(self) -> None:
        self.cookie = _cookie_of(0)

    def _work(self) -> None:
        while (asked := self._asked.get()) is not None:
            try:
                asked()
            except OSError as error:
                self._answers.put(error)
            else:
                self._answers.put(None)

    def _do(self, asked: Callable[[], None]) -> None:
        self._asked.put(asked)
        error = self._answers.get()
        if error is not None:
            raise error

    def give(self, task: int) -> None:
        self._do(lambda: _prctl(_SHARE_TO, task))

    def end(self) -> None:
        self._asked.put(None)


class KernelCookies:
    """Those of the kernel that runs here: only if the host's processes are the ones that are seen here."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._holders: dict[int, _Holder] = {}

    def absence(self) -> str:
        if not sees_processes(self._files):
            return NOT_SEEN
        try:
            _cookie_of(0)
        except OSError as error:
            if error.errno == errno.EINVAL:
                return "this kernel has no core scheduling (CONFIG_SCHED_CORE, mainline since 5.14)"
            if error.errno == errno.ENODEV:
                return "this machine has one thread a core: nothing runs beside anything"
            return f"the kernel refuses core scheduling: {error.strerror}"
        return ""

    def of(self, task: int) -> int | None:
        if not sees_processes(self._files):
            raise OSError(errno.EPERM, NOT_SEEN)
        if os.path.exists(f"/proc/self/task/{task}"):
            return None
        try:
            return _cookie_of(task)
        except ProcessLookupError:
            return None

    def held(self) -> Collection[int]:
        return self._holders.keys()

    def make(self) -> int:
        holder = _Holder(lambda: _prctl(_CREATE, 0))
        self._holders[holder.cookie] = holder
        return holder.cookie

    def hold(self, cookie: int, task: int) -> bool:
        try:
            holder = _Holder(lambda: _prctl(_SHARE_FROM, task))
        except OSError:
            return False
        if holder.cookie != cookie:
            holder.end()
            return False
        self._holders[cookie] = holder
        return True

    def release(self, kept: Collection[int]) -> None:
        for cookie in [cookie for cookie in self._holders if cookie not in kept]:
            self._holders.pop(cookie).end()

    def give(self, cookie: int, task: int) -> None:
        holder = self._holders.get(cookie)
        if holder is None and cookie == NONE:
            # A new thread has its parent's: the agent has none, unless another program gave it one.
            holder = _Holder(lambda: None)
            if holder.cookie != NONE:
                holder.end()
                raise OSError(errno.EPERM, "the agent has a cookie of its own, and can take none away")
            self._holders[NONE] = holder
        if holder is None:
            raise OSError(errno.ESTALE, "no task holds this cookie any more")
        holder.give(task)
