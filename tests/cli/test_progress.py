"""Progress: on a terminal, when something takes long."""

from __future__ import annotations

import sys
import time

import pytest

from koord.cli import progress
from koord.cli.progress import Progress


def shown(capsys: pytest.CaptureFixture[str], wait_s: float = 0.0) -> str:
    with Progress() as told:
        told.say("reading a large file")
        time.sleep(wait_s)
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err


def test_nothing_is_said_into_a_pipe(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "SILENT_S", 0.0)
    assert shown(capsys) == ""


def test_nothing_is_said_of_what_is_soon_done(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert shown(capsys) == ""


def test_the_line_shows_in_the_midst_of_a_long_step_and_goes_with_its_end(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(progress, "SILENT_S", 0.1)
    monkeypatch.setattr(progress, "REFRESH_S", 0.05)
    told = shown(capsys, wait_s=0.6)
    assert "reading a large file ..." in told
    assert told.endswith("\r\x1b[K")


def test_a_long_line_is_cut_to_the_terminal_so_that_it_can_be_written_over(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(progress, "SILENT_S", 0.0)
    monkeypatch.setenv("COLUMNS", "40")
    with Progress() as told:
        told.say("waiting for one component after the other, all of them slow")
    lines = [line for line in capsys.readouterr().err.split("\r\x1b[K") if line]
    assert lines
    assert max(map(len, lines)) < 40
    assert lines[0].endswith(" ... 0 s")
