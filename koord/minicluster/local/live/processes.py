"""A container as a process: started in its cgroup, with its log, and ended gently.

The child enters its cgroups before it becomes the command, so that no instruction of it runs outside. It leads a
session of its own; what it starts is found by the cgroup, and goes with it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from koord.minicluster.local.live.tree import Tree

log = logging.getLogger(__name__)

ENDED_WITHIN_S: Final = 5.0
"""After SIGKILL; a process that the kernel keeps longer is left to it."""


@dataclass(slots=True)
class Process:
    directory: str
    process: asyncio.subprocess.Process

    @property
    def pid(self) -> int:
        return self.process.pid

    async def wait(self) -> int:
        """The exit code, as a shell tells it: 128 and the signal for one that was killed."""
        code = await self.process.wait()
        return code if code >= 0 else 128 - code


async def start(
    tree: Tree,
    directory: str,
    argv: Sequence[str],
    env: Mapping[str, str],
    *,
    working_dir: str,
    root: str,
    log_file: Path,
    user: int | None,
    group: int | None,
    oom_score: int,
) -> Process:
    """Raises OSError where the command cannot be run."""
    doors = tree.doors(directory)

    def enter() -> None:
        own = str(os.getpid())
        for door in doors:
            with open(door, "w") as file:
                file.write(own)
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write(str(oom_score))
        if root:
            os.chroot(root)
            os.chdir(working_dir or "/")
        if group is not None:
            os.setgroups([])
            os.setgid(group)
        if user is not None:
            os.setuid(user)

    log_file.parent.mkdir(parents=True, exist_ok=True)
    output = os.open(log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o640)
    try:
        process = await asyncio.create_subprocess_exec(
            *argv,
            env=dict(env),
            cwd=None if root else (working_dir or None),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            preexec_fn=enter,
            start_new_session=True,
        )
    finally:
        os.close(output)
    return Process(directory, process)


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
