"""A container as a process: started in its cgroup, with its log, and ended gently.

The child enters its cgroups before it becomes the command, so that no instruction of it runs outside. It leads a
session of its own; what it starts is found by the cgroup, and goes with it. Of this process it inherits its console
alone: a socket or pipe that it held open would outlive the node's own process.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from koord_minicluster.local.live import namespaces
from koord_minicluster.local.live.adoption import Adopted
from koord_minicluster.local.live.console import Console
from koord_minicluster.local.live.tree import Tree

log = logging.getLogger(__name__)

MOST_TOLD: Final = 1000
ENDED_WITHIN_S: Final = 5.0
"""After SIGKILL; a process that the kernel keeps longer is left to it."""


class StartError(Exception):
    """A command cannot be run. The message has the reason."""


@dataclass(slots=True)
class Process:
    directory: str
    process: asyncio.subprocess.Process | Adopted

    @property
    def pid(self) -> int:
        return self.process.pid

    async def wait(self) -> int:
        """The exit code, as a shell tells it: 128 and the signal for one that was killed."""
        code = await self.process.wait()
        return code if code >= 0 else 128 - code

    @property
    def is_code_known(self) -> bool:
        return not isinstance(self.process, Adopted) or self.process.is_code_known

    def close(self) -> None:
        """Called when no task waits for the process any more."""
        if isinstance(self.process, Adopted):
            self.process.close()


@dataclass(frozen=True, slots=True)
class Confinement:
    """The cgroups, root and user of a container, which every command in it gets."""

    doors: Sequence[str]
    "A process enters the container's cgroups through these files."
    root: str
    "Empty is the machine's own."
    working_dir: str
    user: int | None
    group: int | None
    oom_score: int

    def enter(self, joined: Sequence[int] = ()) -> None:
        """This process goes in, for good. `joined`: namespaces to enter, by open files."""
        enter(self.doors)
        with suppress(OSError):
            # Only CAP_SYS_RESOURCE may lower it. A container that the kernel ends sooner is better than none.
            _write("/proc/self/oom_score_adj", str(self.oom_score))
        for namespace in joined:
            namespaces.join(namespace)
        if self.root:
            os.chroot(self.root)
        if self.root or self.working_dir:
            os.chdir(self.working_dir or "/")
        if self.group is not None:
            os.setgroups([])
            os.setgid(self.group)
        if self.user is not None:
            os.setuid(self.user)


async def start(
    directory: str, argv: Sequence[str], env: Mapping[str, str], confinement: Confinement, console: Console
) -> Process:
    """Raises StartError where the command cannot be run."""

    def become() -> None:
        console.become()
        confinement.enter()

    try:
        process = await spawn(argv, env, become, stdin=console.child_in, output=console.child_out)
    except BaseException:
        console.close()
        raise
    console.hand_over()
    return Process(directory, process)


async def spawn(
    argv: Sequence[str],
    env: Mapping[str, str],
    become: Callable[[], None],
    *,
    stdin: int = asyncio.subprocess.DEVNULL,
    output: int = asyncio.subprocess.DEVNULL,
    errors: int | None = None,
) -> asyncio.subprocess.Process:
    """A child that runs `become` before it becomes the command. Raises StartError."""
    reader, tell = os.pipe()

    def prepare() -> None:
        try:
            close_on_exec()
            heed_signals()
            # Not left to the event loop: some do it only after this function, too late for a terminal.
            os.setsid()
            become()
        except BaseException as error:
            # The parent only learns that something failed here, so the reason is sent through a pipe.
            os.write(tell, str(error).encode(errors="replace")[:MOST_TOLD])
            raise

    try:
        return await asyncio.create_subprocess_exec(
            *argv,
            env=dict(env),
            stdin=stdin,
            stdout=output,
            stderr=output if errors is None else errors,
            preexec_fn=prepare,
        )
    except (OSError, ValueError, subprocess.SubprocessError, RuntimeError) as error:
        os.set_blocking(reader, False)
        with suppress(BlockingIOError):
            if reason := os.read(reader, MOST_TOLD).decode(errors="replace"):
                raise StartError(f"{argv[0]} cannot be started: {reason}") from error
        if isinstance(error, OSError):
            raise StartError(f"{error.filename or argv[0]}: {error.strerror}") from error
        raise StartError(f"{argv[0]} cannot be started: {error}") from error
    finally:
        os.close(reader)
        os.close(tell)


def enter(doors: Sequence[str]) -> None:
    """This process goes into the cgroups."""
    for door in doors:
        _write(door, str(os.getpid()))


def close_on_exec() -> None:
    """Everything but standard input, output and error stays behind: not all event loops see to that."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2:
            with suppress(OSError):
                os.set_inheritable(int(name), False)


def heed_signals() -> None:
    """No signal is ignored, whatever this process inherited: under nohup, for example, it ignores SIGHUP."""
    for number in signal.valid_signals():
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)


def _write(file: str, text: str) -> None:
    fd = os.open(file, os.O_WRONLY)
    try:
        os.write(fd, text.encode())
    except OSError as error:
        raise OSError(error.errno, error.strerror, file) from error
    finally:
        os.close(fd)


async def stop(tree: Tree, running: Process, grace_s: float) -> None:
    """SIGTERM to the command, and after the grace SIGKILL to all that is left in its cgroup."""
    if running.process.returncode is None and grace_s > 0:
        _signal(running.pid, signal.SIGTERM)
        try:
            await asyncio.wait_for(running.process.wait(), grace_s)
        except TimeoutError:
            log.info("process %d did not end within %.0f s and is killed", running.pid, grace_s)
    for pid in tree.processes(running.directory):
        _signal(pid, signal.SIGKILL)
    if running.process.returncode is None:
        _signal(running.pid, signal.SIGKILL)
        try:
            await asyncio.wait_for(running.process.wait(), ENDED_WITHIN_S)
        except TimeoutError:
            log.error("process %d does not end", running.pid)


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return
    except OSError as error:
        log.warning("process %d cannot be sent %s: %s", pid, number.name, error)
