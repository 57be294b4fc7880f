"""Pipes and terminals as asyncio reads and writes them: whatever the event loop, and without a buffer beyond theirs."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import struct
import termios
from typing import Final

from koord_minicluster.kubelet.streams import WindowSize

CHUNK: Final = 32 << 10


class Descriptor:
    """The end of a pipe or terminal that stays in this process. It owns the file descriptor."""

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self._fd = fd
        self._will_end = False
        self._readable: asyncio.Future[None] | None = None
        self._writable: asyncio.Future[None] | None = None

    async def read(self) -> bytes:
        """What is there, or comes; none at the end."""
        while self._fd >= 0:
            try:
                return os.read(self._fd, CHUNK)
            except BlockingIOError:
                if self._will_end:
                    return b""
                await self._until_readable()
            except OSError as error:
                # A terminal that no process has open any more.
                if error.errno == errno.EIO:
                    return b""
                raise
        return b""

    async def write(self, piece: bytes) -> None:
        """Raises OSError once the other end is closed."""
        left = memoryview(piece)
        while left and self._fd >= 0:
            try:
                left = left[os.write(self._fd, left) :]
            except BlockingIOError:
                await self._until_writable()

    def end_when_empty(self) -> None:
        """`read` stops waiting: it gives the rest, then the end."""
        self._will_end = True
        _resolve(self._readable)

    def resize(self, size: WindowSize) -> None:
        if self._fd >= 0:
            fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", size.rows, size.columns, 0, 0))

    def close(self) -> None:
        """Whoever waits is told the end."""
        if self._fd < 0:
            return
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._fd)
        loop.remove_writer(self._fd)
        os.close(self._fd)
        self._fd = -1
        _resolve(self._readable)
        _resolve(self._writable)

    async def _until_readable(self) -> None:
        loop = asyncio.get_running_loop()
        self._readable = loop.create_future()
        loop.add_reader(self._fd, _resolve, self._readable)
        try:
            await self._readable
        finally:
            if self._fd >= 0:
                loop.remove_reader(self._fd)

    async def _until_writable(self) -> None:
        loop = asyncio.get_running_loop()
        self._writable = loop.create_future()
        loop.add_writer(self._fd, _resolve, self._writable)
        try:
            await self._writable
        finally:
            if self._fd >= 0:
                loop.remove_writer(self._fd)


def _resolve(future: asyncio.Future[None] | None) -> None:
    if future is not None and not future.done():
        future.set_result(None)
