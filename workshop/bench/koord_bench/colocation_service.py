"""The service of the co-location figure: one process on one CPU, with requests that arrive at times of their own.

A request reads a block of its data (in the page cache), goes over a table that fits into the CPU's cache, sends itself
a message over loopback, and notes a line in its log: the same work each time, so a neighbour that takes the CPU, the
cache, memory, the page cache or the network from it makes it slower. Phases come at given times, each with the same
arrivals. Prints the figures of each phase as JSON; while it runs, it reports, as an application probe would, how
long the slowest requests of the last second took.
"""

from __future__ import annotations

import gc
import json
import mmap
import os
import random
import socket
import struct
import sys
import time
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

import numpy

from koord.agent.host.files import Files
from koord.agent.host.proc import run_queue_delay_ns

TABLE_BYTES: Final = 1 << 20
DATA_BYTES: Final = 32 << 20
BLOCK_BYTES: Final = 16 << 10
MESSAGE: Final = b"x" * 512
LINE: Final = b"a request was answered\n"
PROBED_S: Final = 1.0
SAID_EVERY_S: Final = 0.2
TAIL: Final = 0.05
"""Of all requests, the slowest: their mean goes with p99, and jumps less from second to second."""


@dataclass(slots=True)
class PhaseTimes:
    """Times of one phase."""

    taken_ms: list[float] = field(default_factory=list)
    "From each request's arrival to its end."
    delays_ms: list[float] = field(default_factory=list)
    "For how long its thread had waited for the CPU."
    worked_ms: list[float] = field(default_factory=list)
    "CPU time of each: the work is the same each time, so it says how quick the CPU was."


class Work:
    """What a request does."""

    def __init__(self, number: int, data: Path, request_ms: float) -> None:
        self._table = numpy.arange(TABLE_BYTES // 8, dtype=numpy.int64)
        order = numpy.random.default_rng(number).permutation(len(self._table))
        self._order = order[: 1 << 14]
        self._data = os.open(data / f"data-{number}", os.O_RDONLY)
        self._log = os.open(data / f"log-{number}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._rng = random.Random(number)
        os.posix_fadvise(self._data, 0, 0, os.POSIX_FADV_DONTNEED)
        for at in range(0, DATA_BYTES, BLOCK_BYTES):
            os.pread(self._data, BLOCK_BYTES, at)
        listening = socket.create_server(("127.0.0.1", 0))
        self._there = socket.create_connection(listening.getsockname())
        self._here, _ = listening.accept()
        for end in (self._there, self._here):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._turns = 0
        self._turns = max(round((request_ms / 1000 - _quickest_s(self)) / _quickest_s(self._turn)), 1)
        """How often the table is gone over: what the rest of a request takes is part of its time."""

    def _turn(self) -> None:
        self._table.take(self._order).sum()

    def __call__(self) -> None:
        os.pread(self._data, BLOCK_BYTES, self._rng.randrange(DATA_BYTES // BLOCK_BYTES) * BLOCK_BYTES)
        self._there.sendall(MESSAGE)
        self._here.recv(len(MESSAGE))
        for _ in range(self._turns):
            self._turn()
        os.write(self._log, LINE)


def _quickest_s(work: Callable[[], None]) -> float:
    """Of many times: other load only makes it slower."""
    least_s = float("inf")
    for _ in range(200):
        began_s = time.thread_time()
        work()
        least_s = min(least_s, time.thread_time() - began_s)
    return least_s


class Probe:
    """A number that the service says, and others read."""

    def __init__(self, path: Path) -> None:
        with path.open("r+b") as file:
            self._shared = mmap.mmap(file.fileno(), 8)
        self._said_s, self._taken = time.monotonic(), deque[tuple[float, float]]()

    def add(self, now_s: float, taken_ms: float) -> None:
        self._taken.append((now_s, taken_ms))
        if now_s - self._said_s < SAID_EVERY_S:
            return
        while self._taken[0][0] < now_s - PROBED_S:
            self._taken.popleft()
        ordered = sorted(taken for _, taken in self._taken)
        slowest = ordered[int(len(ordered) * (1 - TAIL)) :]
        struct.pack_into("d", self._shared, 0, sum(slowest) / len(slowest))
        self._said_s = now_s


def main(number: int, data: Path, request_ms: float) -> None:
    """Reads a line with the beginning, the end and the load of each phase, by the clock that never jumps."""
    cpus = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cpus[number % len(cpus)]})
    files, work, probe = Files("/"), Work(number, data, request_ms), Probe(data / f"probe-{number}")
    gc.disable()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    phases: list[tuple[float, float, float]] = json.loads(sys.stdin.readline())
    figures = []
    arrival, waited_ns = time.monotonic(), run_queue_delay_ns(files, "thread-self")
    for begins_s, ends_s, load in phases:
        rate = load / (request_ms / 1000)
        for is_seen, until_s in ((False, begins_s), (True, ends_s)):
            rng, seen = random.Random(number), PhaseTimes()
            while (arrival := arrival + rng.expovariate(rate)) < until_s:
                pause_s = arrival - time.monotonic()
                if pause_s > 0:
                    time.sleep(pause_s)
                began_s = time.thread_time()
                work()
                seen.worked_ms.append((time.thread_time() - began_s) * 1000)
                now_s, now_ns = time.monotonic(), run_queue_delay_ns(files, "thread-self")
                seen.taken_ms.append((now_s - arrival) * 1000)
                seen.delays_ms.append((now_ns - waited_ns) / 1e6)
                probe.add(now_s, seen.taken_ms[-1])
                waited_ns = now_ns
                if now_s > until_s:
                    # This far behind, requests that have not started are dropped: the next phase is another one.
                    seen.taken_ms += _given_up(rng, arrival, rate, until_s)
                    break
            arrival = max(until_s, time.monotonic())
            if is_seen:
                figures.append(asdict(seen))
    sys.stdout.write(json.dumps(figures))


def _given_up(rng: random.Random, arrival: float, rate: float, until_s: float) -> list[float]:
    """How long requests that had not started had waited at the end of the phase."""
    waited = []
    while (arrival := arrival + rng.expovariate(rate)) < until_s:
        waited.append((until_s - arrival) * 1000)
    return waited


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3]))
