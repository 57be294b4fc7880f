"""What the agent keeps on disk: what was there before it wrote, and what it found about pods that suffer.

The first is written whole into a spare file and swapped with it, never half. Both files keep their size, with spaces at
the end, so that a full disk has room for the next record. The second grows line by line, and is cut down when it is
large; a line that was cut off is passed over.
"""

from __future__ import annotations

import ctypes
import logging
import os
from contextlib import suppress
from itertools import accumulate
from pathlib import Path
from typing import Final

from koord.agent.executor.ledger import Ledger, LedgerError
from koord.agent.interference.evidence import Evidence, EvidenceLog, line, read

log = logging.getLogger(__name__)

LEDGER: Final = "ledger.json"
DAMAGED: Final = "ledger.damaged"
AUDIT: Final = "audit.log"
EVIDENCE: Final = "evidence.log"
BLOCK: Final = 16 << 10
"""Files that are swapped have a multiple of this, and a quarter more than they need."""
EVIDENCE_BYTES: Final = 4 << 20
"""A larger file is rewritten with the newest entries of the log, up to half of this size, so that this is rare."""


def read_ledger(directory: Path) -> Ledger:
    """For an agent that starts: it sets a damaged record aside and goes on, since the node needs it."""
    try:
        return whole_ledger(directory)
    except LedgerError as error:
        aside = directory / DAMAGED
        (directory / LEDGER).replace(aside)
        log.error("%s; it is kept as %s", error, aside)
        return Ledger()


def whole_ledger(directory: Path) -> Ledger:
    """An agent that has never run here has changed nothing. Raises LedgerError for a record that is damaged."""
    file = directory / LEDGER
    try:
        return Ledger.parse(file.read_bytes())
    except FileNotFoundError:
        return Ledger()
    except LedgerError as error:
        raise LedgerError(f"{file}: {error}") from error


def set_aside(directory: Path) -> Path | None:
    """The damaged record that an earlier agent set aside: it holds changes that were not put back."""
    aside = directory / DAMAGED
    return aside if aside.exists() else None


def write_ledger(directory: Path, text: bytes) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    replace_in_room(directory / LEDGER, text)


def replace_in_room(file: Path, text: bytes) -> None:
    """Swaps a file with its spare, `FILE.new`. Needs no room on the disk unless the text has grown by a quarter."""
    spare = file.with_name(f"{file.name}.new")
    size = _size(spare)
    if size < len(text):
        size = -(-(len(text) + len(text) // 4) // BLOCK) * BLOCK
    # A machine that loses power loses its cgroups too: the process is all that this has to outlive.
    _overwrite(spare, text.ljust(size))
    swap(spare, file)
    if _size(spare) < size:
        with suppress(OSError):
            _overwrite(spare, b" " * size)


def _overwrite(file: Path, text: bytes) -> None:
    """From its beginning, in the room that it has."""
    with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644), "wb") as out:
        out.write(text)


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0


_AT_FDCWD: Final = -100
_RENAME_EXCHANGE: Final = 2


def swap(new: Path, file: Path) -> None:
    """In one step. Without a file there, or on file systems that cannot, the new one replaces it."""
    try:
        exchange = ctypes.CDLL(None).renameat2
    except AttributeError:
        exchange = None
    if exchange is None or exchange(_AT_FDCWD, os.fsencode(new), _AT_FDCWD, os.fsencode(file), _RENAME_EXCHANGE):
        os.replace(new, file)


class LedgerFile:
    """The record of an agent that runs. Protection goes on while the disk refuses it, and it is written as soon as the
    disk takes it again."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._unwritten: bytes | None = None

    def save(self, text: bytes) -> None:
        try:
            write_ledger(self._directory, text)
        except OSError as error:
            if self._unwritten is None:
                log.error(
                    "%s cannot be written: %s; the node is protected all the same, but an agent that starts now does "
                    "not know what to put back",
                    self._directory / LEDGER,
                    error,
                )
            self._unwritten = text
            return
        if self._unwritten is not None:
            log.info("%s is written again", self._directory / LEDGER)
        self._unwritten = None

    def catch_up(self) -> None:
        """In each round."""
        if self._unwritten is not None:
            self.save(self._unwritten)


def read_evidence(directory: Path) -> EvidenceLog:
    """Of a file that is far too large, only its end. Raises OSError for one that cannot be read."""
    try:
        with (directory / EVIDENCE).open("rb") as file:
            file.seek(max(file.seek(0, os.SEEK_END) - 2 * EVIDENCE_BYTES, 0))
            return EvidenceLog(read(file.read()))
    except FileNotFoundError:
        return EvidenceLog()


def evidence_so_far(directory: Path) -> EvidenceLog:
    """For an agent that starts: the node needs it more than it needs to know what was found before."""
    try:
        return read_evidence(directory)
    except OSError as error:
        log.warning("what was found before is not known: %s", error)
        return EvidenceLog()


def add_evidence(directory: Path, evidence_log: EvidenceLog, entry: Evidence) -> None:
    """`known` has the entry already. The file is help for people: a disk that is full does not stop the agent."""
    file = directory / EVIDENCE
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with file.open("ab") as out:
            out.write(line(entry))
            size = out.tell()
        if size >= EVIDENCE_BYTES:
            new, lines = directory / f"{EVIDENCE}.new", list(map(line, evidence_log))
            sizes = accumulate(map(len, reversed(lines)))
            kept = lines[-max(sum(size <= EVIDENCE_BYTES // 2 for size in sizes), 1) :]
            evidence_log.keep_last(len(kept))
            new.write_bytes(b"".join(kept))
            os.replace(new, file)
    except OSError as error:
        log.warning("%s: %s", file, error)
