"""Directories that come and go in others, and weights that others write there, reported by the kernel (inotify)
instead of by polling.

A cgroup that is removed does not end its own watch, as a plain directory does: the receiver of the event ends it.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Collection
from typing import Final, NamedTuple

_IN_MODIFY: Final = 0x2
_IN_MOVED_FROM: Final = 0x40
_IN_MOVED_TO: Final = 0x80
_IN_CREATE: Final = 0x100
_IN_DELETE: Final = 0x200
_IN_Q_OVERFLOW: Final = 0x4000
_IN_ONLYDIR: Final = 0x0100_0000
_IN_ISDIR: Final = 0x4000_0000
_WEIGHTS: Final = (b"cpu.shares", b"cpu.weight")
"""Written with every change of a CPU request or limit, and seldom otherwise: not by what moves quotas each second."""
_WATCHED: Final = _IN_MODIFY | _IN_MOVED_FROM | _IN_MOVED_TO | _IN_CREATE | _IN_DELETE | _IN_ONLYDIR
_HEAD: Final = struct.Struct("iIII")
_CHUNK: Final = 64 * 1024


class Change(NamedTuple):
    directory: str
    "The watched one, by the path that was given; empty where the kernel had more to tell than it could keep."
    name: str
    "Of the directory in it, or of the file."
    is_there: bool
    is_file: bool = False
    "Somebody wrote the weight of the watched directory."


class Watches:
    def __init__(self) -> None:
        """Raises OSError where a user has too many of these already."""
        self._libc = ctypes.CDLL(None, use_errno=True)
        self.fd: Final = self._checked(self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC), "inotify")
        self._paths: dict[int, str] = {}
        self._numbers: dict[str, int] = {}

    def __contains__(self, path: str) -> bool:
        return path in self._numbers

    def __len__(self) -> int:
        return len(self._numbers)

    def add(self, path: str) -> None:
        """Raises FileNotFoundError, and OSError (ENOSPC) where a user has too many watches already."""
        number = self._checked(self._libc.inotify_add_watch(self.fd, os.fsencode(path), _WATCHED), path)
        if self._numbers.get(path, number) != number:
            # Another directory had that name.
            self.remove(path)
        self._paths[number] = path
        self._numbers[path] = number

    def remove(self, path: str) -> None:
        number = self._numbers.pop(path, None)
        if number is not None:
            self._paths.pop(number, None)
            # The kernel may have ended it already.
            self._libc.inotify_rm_watch(self.fd, number)

    def remove_gone(self, but: Collection[str]) -> None:
        """Remove watches of directories that are gone without an event, except of these."""
        for path in [path for path in self._numbers if path not in but and not os.path.isdir(path)]:
            self.remove(path)

    def changes(self) -> list[Change]:
        """The changes since the last call, without waiting."""
        changes_read: list[Change] = []
        while True:
            try:
                chunk = os.read(self.fd, _CHUNK)
            except BlockingIOError:
                return changes_read
            at = 0
            while at < len(chunk):
                number, mask, _, length = _HEAD.unpack_from(chunk, at)
                at += _HEAD.size + length
                if mask & _IN_Q_OVERFLOW:
                    changes_read.append(Change("", "", is_there=True))
                path = self._paths.get(number)
                name = chunk[at - length : at].rstrip(b"\0")
                if path is not None and mask & _IN_ISDIR:
                    is_there = bool(mask & (_IN_CREATE | _IN_MOVED_TO))
                    changes_read.append(Change(path, os.fsdecode(name), is_there))
                elif path is not None and mask & _IN_MODIFY and name in _WEIGHTS:
                    changes_read.append(Change(path, os.fsdecode(name), is_there=True, is_file=True))

    def close(self) -> None:
        os.close(self.fd)

    @staticmethod
    def _checked(answer: int, what: str) -> int:
        if answer < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), what)
        return answer
