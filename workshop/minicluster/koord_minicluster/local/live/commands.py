"""A command in a container that runs: `kubectl exec`.

It is started where the container's own processes are: in its cgroups, root and namespaces, as its user, with its
environment. The stream ends with the command itself: what that left running in the background goes on, without it. If
the client goes first, the command gets SIGHUP, as over ssh; one that ignores it goes on. All of it ends with the
container at the latest.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import pty
import signal
import termios
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from koord_minicluster.kubelet.live.channels import Channel
from koord_minicluster.kubelet.live.streaming import CommandStreams
from koord_minicluster.kubelet.streams import WindowSize, ended, failed, window_sizes
from koord_minicluster.local.live import namespaces, processes
from koord_minicluster.local.live.descriptors import Descriptor

log = logging.getLogger(__name__)

TERMINAL: Final = {"TERM": "xterm"}
FIRST_SIZE_WITHIN_S: Final = 0.2


@dataclass(frozen=True, slots=True)
class Inside:
    """A container that runs, for commands that join it."""

    pid: int
    env: Mapping[str, str]
    confinement: processes.Confinement
    keep: Callable[[Coroutine[None, None, object]], None]
    "Lets work go on as long as the container."


async def run_command(inside: Inside, argv: Sequence[str], streams: CommandStreams) -> bytes:
    """Gives the last word on the error channel. When cancelled, it hangs up."""
    ours: list[Descriptor] = []
    try:
        started = await _start(inside, argv, streams, ours)
    except (processes.StartError, OSError) as error:
        for end in ours:
            end.close()
        return failed(f"error executing command in container: {error}")
    return await started.until_ended()


@dataclass(slots=True)
class _Command:
    process: asyncio.subprocess.Process
    inside: Inside
    streams: CommandStreams
    stdin: Descriptor | None
    outputs: list[tuple[Descriptor, Channel]]
    size: bytes
    "Of the next window size, as far as it has arrived."

    async def until_ended(self) -> bytes:
        feeding = [asyncio.create_task(self._feed()), asyncio.create_task(self._resize())]
        showing = [asyncio.create_task(_show(output, channel)) for output, channel in self.outputs]
        try:
            code = await self.process.wait()
            # What it left in the background may have the pipes open for ever.
            for output, _ in self.outputs:
                output.end_when_empty()
            await asyncio.gather(*showing)
            return ended(code if code >= 0 else 128 - code)
        finally:
            for task in (*feeding, *showing):
                task.cancel()
            await asyncio.gather(*feeding, *showing, return_exceptions=True)
            self._hang_up()

    def _hang_up(self) -> None:
        """Ends the streams. A terminal that is closed tells its processes so itself; others are told here."""
        if self.process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGHUP)
            self.inside.keep(self.process.wait())
        for end in {id(end): end for end in (self.stdin, *(output for output, _ in self.outputs)) if end}.values():
            end.close()

    async def _feed(self) -> None:
        channel = self.streams.stdin
        if channel is None or self.stdin is None:
            return
        with suppress(OSError):
            while piece := await channel.read():
                await self.stdin.write(piece)
        if not self.streams.tty:
            self.stdin.close()
        while await channel.read():
            # The command takes nothing more, and the client need not know.
            pass

    async def _resize(self) -> None:
        channel, left = self.streams.resize, self.size
        if channel is None or self.stdin is None:
            return
        while piece := await channel.read():
            sizes, left = window_sizes(left + piece)
            for size in sizes:
                self.stdin.resize(size)


async def _show(output: Descriptor, channel: Channel) -> None:
    while piece := await output.read():
        await channel.write(piece)


async def _first_size(channel: Channel | None) -> tuple[list[WindowSize], bytes]:
    """Clients tell the size at once. A command that asks for it first thing had better find it."""
    left = b""
    with suppress(TimeoutError):
        async with asyncio.timeout(FIRST_SIZE_WITHIN_S):
            while channel is not None and (piece := await channel.read()):
                sizes, left = window_sizes(left + piece)
                if sizes:
                    return sizes, left
    return [], left


async def _start(inside: Inside, argv: Sequence[str], streams: CommandStreams, ours: list[Descriptor]) -> _Command:
    """`ours` gets the ends that stay in this process, also if the start fails."""
    theirs: list[int] = []

    def pipe(*, reads: bool) -> tuple[int, Descriptor]:
        reader, writer = os.pipe()
        child, own = (reader, writer) if reads else (writer, reader)
        theirs.append(child)
        ours.append(Descriptor(own))
        return child, ours[-1]

    nothing = asyncio.subprocess.DEVNULL
    stdin: Descriptor | None = None
    outputs: list[tuple[Descriptor, Channel]] = []
    left = b""
    env = dict(inside.env)
    try:
        if streams.tty:
            sizes, left = await _first_size(streams.resize)
            master, slave = pty.openpty()
            theirs.append(slave)
            ours.append(Descriptor(master))
            for size in sizes:
                ours[0].resize(size)
            child_in = child_out = child_err = slave
            stdin = ours[0]
            if streams.stdout is not None:
                outputs.append((ours[0], streams.stdout))
            env = TERMINAL | env
        else:
            child_in = child_out = child_err = nothing
            if streams.stdin is not None:
                child_in, stdin = pipe(reads=True)
            if streams.stdout is not None:
                child_out, output = pipe(reads=False)
                outputs.append((output, streams.stdout))
            if streams.stderr is not None:
                child_err, output = pipe(reads=False)
                outputs.append((output, streams.stderr))
        with namespaces.others_of(inside.pid) as joined:

            def become() -> None:
                if streams.tty:
                    fcntl.ioctl(child_in, termios.TIOCSCTTY, 0)
                inside.confinement.enter(joined)

            process = await processes.spawn(argv, env, become, stdin=child_in, output=child_out, errors=child_err)
    finally:
        for child in theirs:
            os.close(child)
    return _Command(process, inside, streams, stdin, outputs, left)
