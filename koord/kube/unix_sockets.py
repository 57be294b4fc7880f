"""Unix sockets that are for root alone: one that others could read or replace would let them answer for us."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from koord.api.machinery.faults import BadInput

LONGEST_PATH: Final = 107


@contextmanager
def root_only(path: Path) -> Iterator[None]:
    """A socket that is bound to this path in the block can be used by its owner only. What a killed process left there
    is removed. Raises BadInput if the path is too long, another process answers there, or another file exists."""
    if (length := len(os.fsencode(path))) > LONGEST_PATH:
        raise BadInput(f"{path}: the path of a socket has at most {LONGEST_PATH} bytes, not {length}")
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        status = path.lstat()
    except FileNotFoundError:
        pass
    else:
        if not stat.S_ISSOCK(status.st_mode):
            raise BadInput(f"{path} is no socket: say another path, or remove it")
        if status.st_uid != os.geteuid():
            raise BadInput(f"{path} belongs to user {status.st_uid}, not to {os.geteuid()}: remove it")
        if is_answered(path):
            raise BadInput(f"another process listens on {path}")
        path.unlink()
    mask = os.umask(0o177)
    try:
        yield
    finally:
        os.umask(mask)


def is_answered(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as end:
        end.setblocking(False)
        try:
            end.connect(str(path))
        except BlockingIOError:
            # Somebody listens, and has more callers than it takes.
            return True
        except OSError:
            return False
        return True


def trusted(path: str) -> str:
    """Why a socket is not to be talked to; empty if it is. Only root's may decide what containers are made with."""
    try:
        status = os.stat(path)
    except OSError as error:
        return error.strerror or str(error)
    if not stat.S_ISSOCK(status.st_mode):
        return "it is no socket"
    if status.st_uid not in (0, os.geteuid()):
        return f"it belongs to user {status.st_uid}, not to root"
    return ""
