"""A terminal of a given size, as a program sees it: a real pty, and what is on its screen.

It understands as much as the live view writes: text, line ends, cursor home, colours, clearing and the second screen.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from tests.waiting import until

_SEQUENCE = re.compile(r"\x1b\[(?P<given>[?\d;]*)(?P<what>[A-Za-z])|\x1b\].*?(?:\x07|\x1b\\)|\x1b[=>()][0B]?")


class Screen:
    def __init__(self, columns: int, lines: int) -> None:
        self.columns, self.lines = columns, lines
        self.on_second = False
        self._clear()

    def _clear(self) -> None:
        self._rows = [[" "] * self.columns for _ in range(self.lines)]
        self._row = self._column = 0

    @property
    def text(self) -> list[str]:
        return ["".join(row).rstrip() for row in self._rows]

    def write(self, text: str) -> None:
        at = 0
        while at < len(text):
            found = _SEQUENCE.match(text, at)
            if found is not None:
                self._obey(found["given"] or "", found["what"] or "")
                at = found.end()
                continue
            self._put(text[at])
            at += 1

    def _obey(self, given: str, what: str) -> None:
        if given == "?1049":
            self.on_second = what == "h"
            self._clear()
        elif what == "H":
            row, _, column = given.partition(";")
            self._row, self._column = int(row or 1) - 1, int(column or 1) - 1
        elif what == "J":
            self._clear()
        elif what == "K":
            self._rows[self._row][self._column :] = [" "] * (self.columns - self._column)

    def _put(self, letter: str) -> None:
        if letter == "\r":
            self._column = 0
        elif letter == "\n":
            self._down()
        elif letter >= " ":
            if self._column == self.columns:
                self._column = 0
                self._down()
            self._rows[self._row][self._column] = letter
            self._column += 1

    def _down(self) -> None:
        if self._row < self.lines - 1:
            self._row += 1
        else:
            self._rows = [*self._rows[1:], [" "] * self.columns]


class OnATerminal:
    """A program on a terminal of its own."""

    def __init__(self, command: Sequence[str], columns: int, lines: int) -> None:
        self.screen = Screen(columns, lines)
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        env = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(columns), "LINES": str(lines)}
        self.process = subprocess.Popen(
            command, stdin=theirs, stdout=theirs, stderr=theirs, env=env, start_new_session=True
        )
        os.close(theirs)
        self._pending = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        os.close(self._ours)

    def until(self, seen: Callable[[list[str]], bool]) -> list[str]:
        """The screen as soon as it shows what is looked for."""

        def shows() -> bool:
            self._read()
            return seen(self.screen.text)

        until(shows, what=lambda: "\n".join(self.screen.text))
        return self.screen.text

    def ended(self) -> int:
        def has_ended() -> bool:
            self._read()
            return self.process.poll() is not None

        until(has_ended)
        self._read()
        return self.process.wait(1)

    def _read(self) -> None:
        ready, _, _ = select.select([self._ours], [], [], 0.1)
        if not ready:
            return
        try:
            self._pending += os.read(self._ours, 65536)
        except OSError:
            return
        # A frame may end in the middle of a letter or a sequence; what is whole is shown.
        whole = self._pending.decode("utf-8", "ignore")
        cut = whole.rfind("\x1b", len(whole) - 12)
        if cut >= 0 and _SEQUENCE.match(whole, cut) is None:
            whole = whole[:cut]
        self._pending = self._pending[len(whole.encode()) :]
        self.screen.write(whole)
