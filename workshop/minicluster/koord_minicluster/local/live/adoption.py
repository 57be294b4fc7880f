"""Containers that outlived the node's own process: recognised by the records of their runs, and waited for.

A process that is not a child of this one is waited for through its pidfd. Kernels from 6.15 on then report its exit
code; older ones do not, and the container counts as killed.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import struct
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from koord.agent.host.processes import process_of
from koord_minicluster.local.live.tree import Tree
from koord_minicluster.local.runs import Run

log = logging.getLogger(__name__)

UNKNOWN_CODE: Final = -9
REAPED_WITHIN_S: Final = 5.0
LOOK_AGAIN_S: Final = 0.02

_PIDFD_INFO: Final = struct.Struct("=QQ11Ii")
"""`struct pidfd_info` of the kernel's first version: the mask first, the exit code last."""
_PIDFD_GET_INFO: Final = 3 << 30 | _PIDFD_INFO.size << 16 | 0xFF << 8 | 11
_PIDFD_INFO_EXIT: Final = 1 << 3


class Adopted:
    """A process that another process started; otherwise like a child of this process."""

    def __init__(self, pid: int, pidfd: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self.is_code_known = False
        self._pidfd = pidfd
        self._waiting = asyncio.Lock()

    async def wait(self) -> int:
        async with self._waiting:
            if self.returncode is None:
                await self._ended()
                code = await self._code()
                self.is_code_known = code is not None
                self.returncode = UNKNOWN_CODE if code is None else code
                self.close()
            return self.returncode

    def close(self) -> None:
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1

    async def _ended(self) -> None:
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()
        loop.add_reader(self._pidfd, ended.set)
        try:
            await ended.wait()
        finally:
            loop.remove_reader(self._pidfd)

    async def _code(self) -> int | None:
        """The kernel tells it once its parent has waited for it."""
        until_s = time.monotonic() + REAPED_WITHIN_S
        while time.monotonic() < until_s:
            info = bytearray(_PIDFD_INFO.pack(_PIDFD_INFO_EXIT, *[0] * 13))
            try:
                fcntl.ioctl(self._pidfd, _PIDFD_GET_INFO, info)
            except OSError as error:
                log.info("the kernel does not tell how process %d ended: %s", self.pid, error.strerror)
                return None
            mask, *_, status = _PIDFD_INFO.unpack(info)
            if mask & _PIDFD_INFO_EXIT:
                return os.waitstatus_to_exitcode(status)
            await asyncio.sleep(LOOK_AGAIN_S)
        return None


def keep(folder: Path, run: Run) -> None:
    """Trouble here costs no more than the adoption."""
    try:
        (folder / f"{run.restarts}.run").write_bytes(msgspec.json.encode(run))
    except OSError as error:
        log.warning("the run of a container cannot be noted in %s: %s", folder, error)


def kept(folder: Path) -> Run | None:
    """The last run that was noted."""
    runs = []
    for file in folder.glob("*.run"):
        with suppress(OSError, msgspec.DecodeError):
            runs.append(msgspec.json.decode(file.read_bytes(), type=Run))
    return max(runs, key=lambda run: run.restarts, default=None)


def adopt(tree: Tree, directory: str, run: Run) -> Adopted | None:
    """The process of a run, if it still runs there."""
    try:
        pidfd = os.pidfd_open(run.pid)
    except OSError:
        return None
    # Only a process whose pidfd is held keeps its pid.
    if process_of(tree.files, run.pid) == run.process and run.pid in tree.processes(directory):
        return Adopted(run.pid, pidfd)
    os.close(pidfd)
    return None


def environment_of(pid: int) -> dict[str, str]:
    """With which it was started."""
    try:
        pairs = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return {}
    named = (pair.partition(b"=") for pair in pairs if b"=" in pair)
    return {os.fsdecode(name): os.fsdecode(value) for name, _, value in named}
