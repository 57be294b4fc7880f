"""The neighbours of the co-location figure: what each of them takes from a service, as a program of its own.

Started as `python -m koord_bench.colocation_neighbours NAME DIRECTORY WHEN`; from then on it works until it is killed.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy

_PAGE_CACHE_BYTES: Final = 4 << 30
_DISK_BYTES: Final = 128 << 20
_STREAM_BYTES: Final = 192 << 20
_THRASH_BYTES: Final = 64 << 20
_PACKET: Final = b"x" * 1024


@dataclass(frozen=True, slots=True)
class Neighbour:
    name: str
    does: str
    work: Callable[[Path], None]
    needs_resctrl: bool = False
    "Whether nothing but resctrl can keep it from what services have: without, it has to be found and held back."
    lives_on_disk: bool = False
    "Whether it waits for the disk most of the time, so that what it gets is counted in bytes."


def _burn(directory: Path) -> None:
    while True:
        pass


def _thrash(directory: Path) -> None:
    table = numpy.zeros(_THRASH_BYTES // 8, dtype=numpy.int64)
    order = numpy.random.default_rng(0).permutation(len(table))
    while True:
        table[order] += 1


def _stream(directory: Path) -> None:
    here, there = (numpy.ones(_STREAM_BYTES // 8, dtype=numpy.int64) for _ in range(2))
    while True:
        here[:] = there
        there[:] = here


def _fork(directory: Path) -> None:
    subprocess.run(["/bin/sh", "-c", "while :; do /bin/true; done"], check=False)


def _fill(directory: Path) -> None:
    """Reads a file without blocks, so that no disk has to be waited for; in portions like those of `cat`."""
    fd = os.open(directory / f"fill-{os.getpid()}", os.O_RDWR | os.O_CREAT, 0o600)
    os.ftruncate(fd, _PAGE_CACHE_BYTES)
    block = bytearray(128 << 10)
    while True:
        for at in range(0, _PAGE_CACHE_BYTES, len(block)):
            os.preadv(fd, [block], at)


def _write(directory: Path) -> None:
    fd = os.open(directory / f"write-{os.getpid()}", os.O_WRONLY | os.O_CREAT, 0o600)
    block = os.urandom(1 << 20)
    while True:
        for at in range(0, _DISK_BYTES, 4 * len(block)):
            for number in range(4):
                os.pwrite(fd, block, at + number * len(block))
            os.fdatasync(fd)


def _flood(directory: Path) -> None:
    receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    receiver.bind(("127.0.0.1", 0))
    receiver.settimeout(0.01)
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sender.connect(receiver.getsockname())
    while True:
        for _ in range(16):
            sender.send(_PACKET)
        for _ in range(16):
            with suppress(TimeoutError):
                receiver.recv(len(_PACKET))


NEIGHBOURS: Final = (
    Neighbour("cpu", "burns CPU", _burn),
    Neighbour("cache", "thrashes the cache", _thrash, needs_resctrl=True),
    Neighbour("memory", "streams memory", _stream, needs_resctrl=True),
    Neighbour("fork", "starts processes", _fork),
    Neighbour("page-cache", "fills the page cache", _fill),
    Neighbour("disk", "writes to disk", _write, lives_on_disk=True),
    Neighbour("loopback", "floods loopback", _flood),
)


def main(name: str, directory: Path, begins_s: float) -> None:
    time.sleep(max(begins_s - time.monotonic(), 0.0))
    next(neighbour for neighbour in NEIGHBOURS if neighbour.name == name).work(directory)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), float(sys.argv[3]))
