"""The processes that a benchmark starts: none of them outlives it, whatever ends it.

SIGTERM and SIGHUP end a benchmark like Ctrl-C: every context manager cleans up. When SIGKILL ends it, the kernel kills
its children.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

_PR_SET_PDEATHSIG: Final = 1


def start_child(command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
    """`subprocess.Popen`, for a child that ends with this process. To be called from the main thread: the kernel takes
    the end of the thread for that of the process."""
    return subprocess.Popen(command, preexec_fn=ends_with_this_process(), **options)


def ends_with_this_process() -> Callable[[], None]:
    """To be run in a child before it becomes its command."""
    parent, libc = os.getpid(), ctypes.CDLL(None)

    def promise() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)

    return promise


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """SIGTERM and a closed terminal end what is inside as Ctrl-C does. One that is ignored (nohup) stays so."""

    def stop(number: int, frame: object) -> None:
        raise SystemExit(128 + number)

    numbers = [each for each in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(each) is signal.SIG_DFL]
    for number in numbers:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)
