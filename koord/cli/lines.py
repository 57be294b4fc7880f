"""Lines that a long-running command writes to standard output, for a person or a script that follows them."""

from __future__ import annotations

import logging
import sys

import click

log = logging.getLogger(__name__)


def say(line: str) -> None:
    """If the disk refuses the line, the command continues without it. If the reader is gone, the command ends."""
    try:
        click.echo(line)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        log.warning("standard output takes no more: %s", error.strerror, extra={"lost": line})
