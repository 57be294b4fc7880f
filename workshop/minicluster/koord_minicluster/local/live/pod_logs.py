"""What containers wrote: one file for each run, bounded as kubelet bounds it, and gone with the pod.

    LOGS/NAMESPACE_NAME_UID/CONTAINER/RESTARTS.log       what is written at present
                                      RESTARTS.log.1     what was written before, up to .4 the oldest
                                      RESTARTS.run       the process that writes the log
                                      RESTARTS.stdin     a pipe to it, if clients may attach

A container holds its file open and appends, also while the node's own process is away. So a full file is copied and
emptied rather than renamed. Of the runs that are over, the last one's logs are kept.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Awaitable, Callable, Collection, Iterator
from pathlib import Path
from typing import Final

from koord.api.kubernetes.runnable import RunnablePod

log = logging.getLogger(__name__)

MOST_BYTES: Final = 10 << 20
MOST_FILES: Final = 5
CHUNK: Final = 1 << 20
FOLLOWED_CHUNK: Final = 64 << 10


class PodLogs:
    """The logs of one node: the folder is its own."""

    def __init__(self, folder: Path, most_bytes: int = MOST_BYTES) -> None:
        self._folder, self._most_bytes = folder, most_bytes

    def of(self, pod: RunnablePod) -> Path:
        meta = pod.metadata
        return self._folder / f"{meta.namespace}_{meta.name}_{meta.uid}"

    def folder(self, pod: RunnablePod, container: str) -> Path:
        return self.of(pod) / container

    def file(self, pod: RunnablePod, container: str, restarts: int) -> Path:
        return self.folder(pod, container) / f"{restarts}.log"

    def begin(self, pod: RunnablePod, container: str, restarts: int) -> Path:
        """The file for a new run; those of all but the run before are removed."""
        kept = {f"{number}.log" for number in (restarts, restarts - 1)}
        folder = self.folder(pod, container)
        for file in list(folder.iterdir()) if folder.is_dir() else []:
            if ".".join(file.name.split(".")[:2]) not in kept:
                file.unlink(missing_ok=True)
        return self.file(pod, container, restarts)

    def bound(self) -> None:
        """Rotates the files that have become too long. A failure with one file does not affect the others."""
        for file in self._folder.glob("*/*/*.log"):
            try:
                rotate(file, self._most_bytes)
            except OSError as error:
                log.warning("the log %s cannot be rotated: %s", file, error)

    def remove(self, pod: RunnablePod) -> None:
        _remove(self.of(pod))

    def remove_all_but(self, uids: Collection[str]) -> None:
        """Removes the logs of pods that were deleted while the node was away."""
        for folder in self._folder.glob("*_*_*"):
            if folder.name.rpartition("_")[2] not in uids:
                _remove(folder)


def rotate(file: Path, most_bytes: int) -> None:
    """Begins a new file where this one is full. The files of a run together never have more than `MOST_FILES` full ones
    would: where one grew too fast for that, older lines go."""
    size = file.stat().st_size
    if size <= most_bytes:
        return
    older_file(file, MOST_FILES - 1).unlink(missing_ok=True)
    for number in range(MOST_FILES - 1, 1, -1):
        older = older_file(file, number - 1)
        if older.exists():
            older.replace(older_file(file, number))
    copied = file.with_name(f"{file.name}.copy")
    try:
        with file.open("rb") as source, copied.open("wb") as target:
            source.seek(max(size - (MOST_FILES - 1) * most_bytes, 0))
            shutil.copyfileobj(source, target, CHUNK)
            target.flush()
            os.truncate(file, 0)
    except OSError:
        copied.unlink(missing_ok=True)
        raise
    copied.replace(older_file(file, 1))
    # Files are a little more than full when they are looked at.
    room = (MOST_FILES - 1) * most_bytes + most_bytes // 2
    for older in list(parts(file))[1:]:
        if older.exists() and (room := room - older.stat().st_size) < 0:
            older.unlink()


def older_file(file: Path, number: int) -> Path:
    return file.with_name(f"{file.name}.{number}")


def parts(file: Path) -> Iterator[Path]:
    """All there is of one run, the newest first."""
    yield file
    for number in range(1, MOST_FILES):
        yield older_file(file, number)


def tail(file: Path, lines: int | None) -> tuple[list[bytes], int]:
    """The last lines of a run (all, where None), in pieces; and how much of `file` itself they cover."""
    pieces: list[bytes] = []
    read = 0
    left = lines
    for part in parts(file):
        try:
            text = part.read_bytes()
        except FileNotFoundError:
            break
        read = read or (len(text) if part == file else 0)
        if left is None:
            pieces.append(text)
            continue
        rows = text.splitlines(keepends=True)
        pieces.append(b"".join(rows[len(rows) - left :] if left < len(rows) else rows))
        left -= len(rows)
        if left <= 0:
            break
    return pieces[::-1], read


async def follow(file: Path, offset: int, write: Callable[[bytes], Awaitable[None]]) -> int:
    """Hands on what was written since `offset`; gives the new one."""
    if size(file) < offset:
        # What was there has gone to an older file.
        offset = 0
    while chunk := _read(file, offset):
        await write(chunk)
        offset += len(chunk)
    return offset


def size(file: Path) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0


def _read(file: Path, offset: int) -> bytes:
    try:
        fd = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return b""
    try:
        return os.pread(fd, FOLLOWED_CHUNK, offset)
    finally:
        os.close(fd)


def _remove(folder: Path) -> None:
    try:
        shutil.rmtree(folder)
    except FileNotFoundError:
        return
    except OSError as error:
        log.warning("the logs in %s cannot be removed: %s", folder, error)
