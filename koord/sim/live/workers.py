"""Runs of several jobs on all cores of this machine: a process for each core, one job at a time in each.

Workers share two things with the process that waits for them: how far each run is, and a flag that stops all of them.
Outcomes come in the order in which runs end; an error of a run is raised where its outcome is waited for.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from ctypes import Array, c_double
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Final

import msgspec

from koord.api.machinery.faults import BadInput
from koord.sim.jobs import Job
from koord.sim.live.performing import perform, perform_packed
from koord.sim.outcome import Outcome

LOOK_S: Final = 0.2
"""How often progress is shown and the wish to stop is noticed."""

Show = Callable[[Sequence[float]], None]
"""Called now and then with the virtual time that each run has reached."""


class WorkersLost(BadInput):
    """A process was killed, for example because the machine has no memory left."""


def cores() -> int:
    return len(os.sched_getaffinity(0))


def perform_all(
    jobs: Sequence[Job], show: Show, stopped: Callable[[], bool], *, processes: int, checkpoints: Path | None = None
) -> Iterator[tuple[int, Outcome]]:
    """The outcomes with the indexes of their jobs. After a stop: those that ended, and what the others have so far."""
    if min(processes, len(jobs)) == 1:
        yield from _in_this_process(jobs, show, stopped, checkpoints)
        return
    context = multiprocessing.get_context("spawn")
    at_s = context.RawArray(c_double, len(jobs))
    stop = context.Event()
    workers = min(processes, len(jobs))
    with ProcessPoolExecutor(workers, context, initializer=_begin, initargs=(at_s, stop)) as pool:
        with _without_interrupts():
            waiting = {pool.submit(_work, i, msgspec.json.encode(job), checkpoints): i for i, job in enumerate(jobs)}
        try:
            while waiting:
                done, _ = wait(waiting, LOOK_S, FIRST_COMPLETED)
                show(list(at_s))
                if stopped() and not stop.is_set():
                    stop.set()
                    for future in [future for future in waiting if future.cancel()]:
                        waiting.pop(future)
                        done.discard(future)
                for future in done:
                    yield waiting.pop(future), _outcome(future)
        finally:
            # Also after a failed run: the others would otherwise run to their end.
            stop.set()
            pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Processes that are started in the block ignore Ctrl-C, also before `_begin`. This process sees it afterwards."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _in_this_process(
    jobs: Sequence[Job], show: Show, stopped: Callable[[], bool], checkpoints: Path | None
) -> Iterator[tuple[int, Outcome]]:
    at_s = [0.0] * len(jobs)
    for i, job in enumerate(jobs):

        def advance(reached_s: float, i: int = i) -> None:
            at_s[i] = reached_s
            show(at_s)

        if stopped():
            return
        yield i, perform(job, advance, stopped, checkpoints)


def _outcome(future: Future[Outcome]) -> Outcome:
    try:
        return future.result()
    except BrokenProcessPool:
        raise WorkersLost(
            "a worker process was killed, perhaps for lack of memory: --processes with a smaller number needs less"
        ) from None


_at_s: Array[c_double] | None = None
_stop: Event | None = None


def _begin(at_s: Array[c_double], stop: Event) -> None:
    """In a worker, before its first job. Ctrl-C on a terminal reaches all processes, and the waiting one decides."""
    global _at_s, _stop
    _at_s, _stop = at_s, stop
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A process that is killed cannot stop its workers."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _work(index: int, job: bytes, checkpoints: Path | None) -> Outcome:
    assert _stop is not None
    assert _at_s is not None
    reached = _at_s

    def advance(reached_s: float) -> None:
        reached[index] = reached_s

    return perform_packed(job, advance, _stop.is_set, checkpoints)
