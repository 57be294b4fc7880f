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
    """Whoever binds to this path in here gets a socket that only its owner may use. What a killed process left there
    is removed. Raises BadInput for a path that is too long, or where somebody answers or something else lies."""
    if (length := len(os.fsencode(path))) > LONGEST_PATH:
        raise BadInput(f"{path}: the path of a socket has at most {LONGEST_PATH} bytes, not {length}")
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        found = path.lstat()
    except FileNotFoundError:
        pass
    else:
        if not stat.S_ISSOCK(found.st_mode):
            raise BadInput(f"{path} is no socket: say another path, or remove it")
        if found.st_uid != os.geteuid():
            raise BadInput(f"{path} belongs to user {found.st_uid}, not to {os.geteuid()}: somebody else made it")
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
        found = os.stat(path)
    except OSError as error:
        return error.strerror or str(error)
    if not stat.S_ISSOCK(found.st_mode):
        return "it is no socket"
    if found.st_uid not in (0, os.geteuid()):
        return f"it belongs to user {found.st_uid}, not to root"
    return ""
