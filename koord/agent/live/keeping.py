"""What the agent keeps on disk: what was there before it wrote. Written whole and moved into place, never half."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Final

from koord.agent.executor.ledger import Ledger, LedgerError

log = logging.getLogger(__name__)

LEDGER: Final = "ledger.json"
AUDIT: Final = "audit.log"


def read_ledger(directory: Path) -> Ledger:
    """An agent that has never run here has changed nothing. A damaged record is set aside, and told."""
    file = directory / LEDGER
    try:
        return Ledger.parse(file.read_bytes())
    except FileNotFoundError:
        return Ledger()
    except LedgerError as error:
        aside = file.with_suffix(".damaged")
        file.replace(aside)
        log.error("%s; it is kept as %s", error, aside)
        return Ledger()


def write_ledger(directory: Path, text: bytes) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    file, new = directory / LEDGER, directory / f"{LEDGER}.new"
    # A machine that loses power loses its cgroups too: the process is all that this has to outlive.
    new.write_bytes(text)
    os.replace(new, file)
