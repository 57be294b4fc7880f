"""What the agent keeps on disk: what was there before it wrote, and what it found about pods that suffer.

The first is written whole and moved into place, never half. The second grows line by line, and is cut down in the same
way; a line that was cut off is passed over.
"""

from __future__ import annotations

import logging
import os
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
    file, new = directory / LEDGER, directory / f"{LEDGER}.new"
    # A machine that loses power loses its cgroups too: the process is all that this has to outlive.
    new.write_bytes(text)
    os.replace(new, file)


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
