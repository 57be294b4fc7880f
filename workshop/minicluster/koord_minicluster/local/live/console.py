"""What a container with `stdin` or `tty` is connected to, so that clients can attach: a named pipe, or a terminal.

The pipe lies beside the container's log, and a restarted node opens it again. A terminal is in this process: if that
dies, the container hangs up, as a shell does whose window is closed.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import termios
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from koord.api.kubernetes.runnable import RunnableContainer
from koord_minicluster.local.live.descriptors import Descriptor

LOG_MODE: Final = 0o640
END_OF_INPUT: Final = b"\x04"
"""What a terminal takes for it."""


@dataclass(slots=True)
class Console:
    """The container's side is in `child_in` and `child_out` until `hand_over`."""

    child_in: int
    child_out: int
    own: Descriptor | None = None
    "Takes what attached clients type. Of a terminal, it also gives what the container writes."
    is_terminal: bool = False
    is_once: bool = False

    @classmethod
    def make(cls, container: RunnableContainer, log_file: Path) -> Console:
        """Raises OSError."""
        log_file.parent.mkdir(parents=True, exist_ok=True)
        if container.tty:
            master, slave = pty.openpty()
            return cls(slave, slave, Descriptor(master), is_terminal=True, is_once=container.stdin_once)
        output = os.open(log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, LOG_MODE)
        if not container.stdin:
            return cls(asyncio.subprocess.DEVNULL, output)
        pipe = _pipe_beside(log_file)
        pipe.unlink(missing_ok=True)
        os.mkfifo(pipe, 0o600)
        # A container that can write to its own input never reads its end when clients leave.
        child_in = os.open(pipe, (os.O_RDONLY if container.stdin_once else os.O_RDWR) | os.O_NONBLOCK | os.O_CLOEXEC)
        own = Descriptor(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC))
        os.set_blocking(child_in, True)
        return cls(child_in, output, own, is_once=container.stdin_once)

    @classmethod
    def of_adopted(cls, container: RunnableContainer, log_file: Path) -> Console:
        """Of a container that outlived the process that started it."""
        own = None
        if container.stdin and not container.tty:
            with suppress(OSError):
                own = Descriptor(os.open(_pipe_beside(log_file), os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC))
        return cls(-1, -1, own, is_once=container.stdin_once)

    def become(self) -> None:
        """In the child, once it leads a session."""
        if self.is_terminal:
            fcntl.ioctl(self.child_in, termios.TIOCSCTTY, 0)

    def hand_over(self) -> None:
        """The child has its side, or there is none."""
        for fd in {self.child_in, self.child_out}:
            if fd >= 0:
                os.close(fd)
        self.child_in = self.child_out = -1

    async def record(self, log_file: Path) -> None:
        """Writes what comes out of the terminal into the log, until the container has closed it."""
        if self.own is None or not self.is_terminal:
            return
        output = os.open(log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, LOG_MODE)
        try:
            while piece := await self.own.read():
                # A full disk costs the log, not the container.
                with suppress(OSError):
                    os.write(output, piece)
        finally:
            os.close(output)

    async def end_input(self) -> None:
        """The first client that typed is gone: the container reads the end of its input, if that is for one client."""
        if self.own is None or not self.is_once:
            return
        if self.is_terminal:
            with suppress(OSError):
                await self.own.write(END_OF_INPUT)
        else:
            self.own.close()

    def close(self) -> None:
        self.hand_over()
        if self.own is not None:
            self.own.close()


def _pipe_beside(log_file: Path) -> Path:
    return log_file.with_suffix(".stdin")
