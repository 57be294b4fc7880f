"""Progress of a long operation: one line on the terminal, from the third second on. Nothing is written to a pipe."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from types import TracebackType
from typing import Final

import click

SILENT_S: Final = 2.0
REFRESH_S: Final = 0.2


class Progress:
    """`say` sets the line, which disappears when the block ends. Its elapsed time also advances between calls."""

    def __init__(self) -> None:
        self._on = sys.stderr.isatty()
        self._began_s = time.monotonic()
        self._next_s = self._began_s + SILENT_S
        self._line = ""
        self._shown = False
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._ticker = threading.Thread(target=self._tick, daemon=True)

    def __enter__(self) -> Progress:
        if self._on:
            self._ticker.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._on:
            self._over.set()
            self._ticker.join()
        if self._shown:
            click.echo("\r\x1b[K", err=True, nl=False)

    def say(self, line: str) -> None:
        self._line = line
        if self._on and time.monotonic() >= self._next_s:
            self._show()

    def _tick(self) -> None:
        # One long step, for example a large file, may not call `say` for a while.
        while not self._over.wait(max(REFRESH_S, 0.05)):
            if self._line and time.monotonic() >= self._next_s + REFRESH_S:
                self._show()

    def _show(self) -> None:
        with self._lock:
            now_s = time.monotonic()
            self._next_s, self._shown = now_s + REFRESH_S, True
            after = f" ... {now_s - self._began_s:.0f} s"
            # A wrapped line could not be overwritten.
            room = max(0, shutil.get_terminal_size().columns - len(after) - 1)
            click.echo(f"\r\x1b[K{self._line[:room]}{after}", err=True, nl=False)
