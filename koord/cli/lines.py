"""Lines that a long-running command writes to standard output, for a person or a script that follows them."""

from __future__ import annotations

import logging
import sys

import click

log = logging.getLogger(__name__)


def say(line: str) -> None:
    """Where the disk refuses the line, the command goes on without it. A reader that is gone ends the command."""
    try:
        click.echo(line)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        log.warning("standard output takes no more: %s", error.strerror, extra={"lost": line})
