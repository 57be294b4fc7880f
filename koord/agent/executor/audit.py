"""What the agent did to the node, and why: the last events in memory, all of them as lines in a file.

The file is cut over when it grows large, and the oldest of several is dropped, so that an agent never fills a disk.
What a full disk does not take is missing in the file; that stops nothing.
"""

from __future__ import annotations

import errno
import logging
import os
from collections import deque
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Final

import msgspec

from koord.api.machinery.codec import UNREADABLE

log = logging.getLogger(__name__)

KEPT: Final = 4096
FILE_BYTES: Final = 2 << 20
TOTAL_BYTES: Final = 16 << 20


class AuditEvent(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    number: int
    created_at: str
    type: str
    "`write`, `restore`, `refused` or `evict`."
    reason: str
    "The strategy or hook."
    message: str
    namespace: str = ""
    name: str = ""
    "Of a pod."
    directory: str = ""
    file: str = ""
    old: str = ""
    value: str = ""


class Audit:
    def __init__(self, file: Path | None = None) -> None:
        self._events: deque[AuditEvent] = deque(maxlen=KEPT)
        self._file = file
        self._number = 0
        self._trouble = ""
        "Why the file could not be written, in the last log message."

    def __len__(self) -> int:
        return len(self._events)

    def add(self, created_at: str, type: str, reason: str, message: str, **fields: str) -> AuditEvent:
        self._number += 1
        event = AuditEvent(self._number, created_at, type, reason, message, **fields)
        self._events.append(event)
        if self._file is not None:
            try:
                _append(self._file, event)
                trouble = ""
            except OSError as error:
                trouble = str(error)
            if trouble and not self._trouble:
                log.warning("%s cannot be written: %s; what the agent does is told by GET /events", self._file, trouble)
            self._trouble = trouble
        return event

    def newest(self, count: int, before: int | None = None) -> list[AuditEvent]:
        """Newest first, of those before a number."""
        older = (event for event in reversed(self._events) if before is None or event.number < before)
        return list(islice(older, count))


def _append(file: Path, event: AuditEvent) -> None:
    line = msgspec.json.encode(event) + b"\n"
    file.parent.mkdir(parents=True, exist_ok=True)
    fd = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o640)
    try:
        written = os.write(fd, line)
        size = os.fstat(fd).st_size
        if written < len(line):
            os.ftruncate(fd, size - written)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    finally:
        os.close(fd)
    if size >= FILE_BYTES:
        _cut_over(file)


def _cut_over(file: Path) -> None:
    most = TOTAL_BYTES // FILE_BYTES - 1
    file.with_name(f"{file.name}.{most}").unlink(missing_ok=True)
    for number in range(most - 1, 0, -1):
        older = file.with_name(f"{file.name}.{number}")
        if older.exists():
            older.rename(file.with_name(f"{file.name}.{number + 1}"))
    file.rename(file.with_name(f"{file.name}.1"))


def read_file(file: Path, count: int) -> list[AuditEvent]:
    """The newest events of a file, newest first; a line that was cut off is passed over."""
    events: list[AuditEvent] = []
    for path in _files(file):
        for line in reversed(path.read_bytes().splitlines()):
            if len(events) == count:
                return events
            try:
                events.append(msgspec.json.decode(line, type=AuditEvent))
            except UNREADABLE:
                continue
    return events


def _files(file: Path) -> Iterable[Path]:
    yield from (path for path in (file, *(_numbered(file))) if path.exists())


def _numbered(file: Path) -> list[Path]:
    return [file.with_name(f"{file.name}.{number}") for number in range(1, TOTAL_BYTES // FILE_BYTES)]
