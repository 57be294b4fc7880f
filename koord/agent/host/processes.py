"""Settings of single processes, below /proc.

A process is known by its number and its start (`1234@567890`): a number alone may be another process' by the time that
something is put back.
"""

from __future__ import annotations

import errno
import os
from typing import Final

from koord.agent.host.files import Files

NOT_SEEN: Final = "the agent does not see the host's processes: it needs the host's /proc and PID namespace"


def sees_processes(files: Files) -> bool:
    """Whether the host's have the same numbers here: those from elsewhere would be others'."""
    try:
        return os.readlink(files.path("proc/self")) == str(os.getpid())
    except OSError:
        return False


def process_of(files: Files, pid: int) -> str | None:
    """How a process is known; None for one that has ended."""
    try:
        stat = files.once(f"proc/{pid}/stat")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The command's name, in brackets, may hold anything, also spaces and brackets.
    fields = stat[stat.rindex(b")") + 1 :].split()
    return f"{pid}@{int(fields[19])}"


def file_of(process: str, file: str) -> str:
    return f"proc/{process.partition('@')[0]}/{file}"


def text(files: Files, process: str, file: str) -> str:
    """Raises FileNotFoundError if the process has ended, even if another process has its number since."""
    _must_live(files, process)
    try:
        return files.once(file_of(process, file)).decode().strip()
    except ProcessLookupError as error:
        raise FileNotFoundError(errno.ENOENT, "the process has ended", process) from error


def put(files: Files, process: str, file: str, value: str) -> None:
    _must_live(files, process)
    try:
        files.write(file_of(process, file), value)
    except ProcessLookupError as error:
        raise FileNotFoundError(errno.ENOENT, "the process has ended", process) from error


def _must_live(files: Files, process: str) -> None:
    if process_of(files, int(process.partition("@")[0])) != process:
        raise FileNotFoundError(errno.ENOENT, "the process has ended", process)
