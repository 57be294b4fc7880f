"""Processes that benchmarks start: how they are started, awaited, measured and ended.

No child outlives its benchmark. SIGTERM and SIGHUP end a benchmark like Ctrl-C: every context manager cleans up. If
SIGKILL ends it, the kernel kills its children.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from koord.kube.program import own_program
from koord_bench.harness import Figures

READY_WITHIN_S: Final = 60.0
CHILD_TIMEOUT_S: Final = 1200.0
_PR_SET_PDEATHSIG: Final = 1
_LOG_TAIL: Final = 3000


def start_child(command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
    """`subprocess.Popen`, for a child that ends with this process. Call it from the main thread: the kernel takes the
    end of the thread for that of the process."""
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
def running(command: Sequence[str], log: Path, **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """A child that writes to a log; killed at the end of the block."""
    with log.open("ab") as file:
        child = start_child(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, **options)
    try:
        yield child
    finally:
        child.kill()
        child.wait(timeout=30)


@contextmanager
def running_module(module: str, *args: str) -> Iterator[tuple[subprocess.Popen[bytes], dict[str, Any]]]:
    """A child that runs a module, with the line of JSON that it prints when it is ready."""
    command = [*own_program(module), *args]
    with start_child(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        try:
            yield child, json.loads(child.stdout.readline())
        finally:
            child.kill()


def figures_of(module: str, *args: str) -> Figures:
    """Run a module in its own process; it prints its figures as JSON."""
    done = subprocess.run(
        [*own_program(module), *args],
        stdout=subprocess.PIPE,
        timeout=CHILD_TIMEOUT_S,
        check=True,
        preexec_fn=ends_with_this_process(),
    )
    figures: Figures = json.loads(done.stdout)
    return figures


def wait_until(
    is_ready: Callable[[], object],
    child: subprocess.Popen[bytes],
    log: Path | None = None,
    *,
    within_s: float = READY_WITHIN_S,
    every_s: float = 0.02,
) -> None:
    """Raises RuntimeError, with the end of the log, if the child ends or takes too long."""
    deadline_s = time.monotonic() + within_s
    while not is_ready():
        if child.poll() is not None or time.monotonic() > deadline_s:
            tail = log.read_text(errors="replace")[-_LOG_TAIL:] if log else ""
            raise RuntimeError(f"{child.args!r} is not ready:\n{tail}")
        time.sleep(every_s)


def status_kb(field: str, pid: int | str = "self") -> int:
    """A field of /proc/PID/status. Unlike that of getrusage, its peak is not inherited from the parent process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1])
    raise LookupError(field)


def rss_mb(pid: int) -> float:
    """Resident memory of a process."""
    return status_kb("VmRSS", pid) / 1024


def cpu_s(pid: int) -> float:
    """CPU seconds of all running threads of a process. Finer than the ticks of /proc/PID/stat."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """SIGTERM and SIGHUP end the block like Ctrl-C. A signal that is ignored (nohup) stays ignored."""

    def stop(number: int, frame: object) -> None:
        raise SystemExit(128 + number)

    numbers = [number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) is signal.SIG_DFL]
    for number in numbers:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)
