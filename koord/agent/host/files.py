"""Kernel files that are read again and again: a descriptor is kept for each.

Reading again through an open descriptor costs a fifteenth of opening the file. A directory that is gone answers as a
missing file, also where the descriptor of its file is still held.
"""

from __future__ import annotations

import errno
import os
import resource
from typing import Final

_CHUNK: Final = 64 * 1024
_GONE: Final = frozenset({errno.ENODEV, errno.ENXIO, errno.ESTALE, errno.ENOENT, errno.ENOTDIR})
MOST_KEPT: Final = 16384
"""Of a process' descriptors; also, never more than half of what it may have. What comes later is opened each time."""


class Files:
    """Reads and writes below a root directory. Not for use by several threads."""

    def __init__(self, root: str, most_kept: int = MOST_KEPT) -> None:
        self.root = root.rstrip("/")
        self._kept: dict[str, int] = {}
        self._most = _at_most(most_kept)
        self.lost: set[str] = set()
        "Files whose directory turned out to be gone. Under the same name there may be another one by now."

    def path(self, name: str) -> str:
        return f"{self.root}/{name}"

    def read(self, name: str) -> bytes:
        """The whole file. Raises FileNotFoundError where there is none, or its cgroup is gone."""
        for _ in range(2):
            kept = self._kept.get(name)
            if kept is None and len(self._kept) >= self._most:
                return self.once(name)
            fd = self._open(name) if kept is None else kept
            try:
                return _whole(fd)
            except OSError as error:
                if error.errno not in _GONE:
                    raise
                # The name may belong to a new directory already.
                self._close(name)
                self.lost.add(name)
                if kept is None:
                    break
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self.path(name))

    def once(self, name: str) -> bytes:
        """The whole file, for one that is rarely read: no descriptor is kept."""
        fd = os.open(self.path(name), os.O_RDONLY | os.O_CLOEXEC)
        try:
            return _whole(fd)
        except OSError as error:
            if error.errno not in _GONE:
                raise
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self.path(name)) from error
        finally:
            os.close(fd)

    def text(self, name: str) -> str:
        return self.read(name).decode()

    def write(self, name: str, text: str) -> None:
        """In one call, as the kernel's files want it; never makes a file."""
        fd = os.open(self.path(name), os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
        try:
            # Nothing at all would not reach the kernel: an empty line is how its files are emptied.
            os.write(fd, text.encode() or b"\n")
        finally:
            os.close(fd)

    def make_directory(self, name: str) -> None:
        os.mkdir(self.path(name))

    def remove_directory(self, name: str) -> None:
        os.rmdir(self.path(name))

    def exists(self, name: str) -> bool:
        return os.path.exists(self.path(name))

    def inode(self, name: str) -> int:
        """What tells a directory from another that had its name; zero where there is none."""
        try:
            return os.stat(self.path(name)).st_ino
        except (FileNotFoundError, NotADirectoryError):
            return 0

    def directories(self, name: str) -> list[str]:
        """The names of the directories in one, sorted; none where it is not there."""
        path = self.path(name)
        try:
            if os.stat(path).st_nlink == _ALONE:
                return []
            with os.scandir(path) as entries:
                return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def names(self, name: str) -> list[str]:
        """What is in a directory, of any kind, sorted; nothing where it cannot be read."""
        try:
            return sorted(os.listdir(self.path(name)))
        except OSError:
            return []

    def text_if_any(self, name: str) -> str:
        """What a small file says, for one that is rarely read; nothing where it cannot be."""
        try:
            return self.once(name).decode(errors="replace").strip()
        except OSError:
            return ""

    def forget(self, directory: str) -> None:
        """Lets go of what was kept in a directory and below."""
        inside = directory.rstrip("/") + "/"
        for name in [name for name in self._kept if name.startswith(inside)]:
            self._close(name)

    def close(self) -> None:
        for name in list(self._kept):
            self._close(name)

    @property
    def kept(self) -> int:
        return len(self._kept)

    def _open(self, name: str) -> int:
        fd = os.open(self.path(name), os.O_RDONLY | os.O_CLOEXEC)
        self._kept[name] = fd
        return fd

    def _close(self, name: str) -> None:
        fd = self._kept.pop(name, None)
        if fd is not None:
            os.close(fd)


_ALONE: Final = 2
"""The links of a directory with none in it: its own name, and its own dot. A cgroup has dozens of files to go over."""


def _whole(fd: int) -> bytes:
    text = os.pread(fd, _CHUNK, 0)
    while text and len(text) % _CHUNK == 0 and (more := os.pread(fd, _CHUNK, len(text))):
        text += more
    return text


def _at_most(number: int) -> int:
    has, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return number if has == resource.RLIM_INFINITY else min(number, has // 2)
