from __future__ import annotations

import io
import sys

import pytest

from koord.cli.lines import say


def test_a_full_disk_loses_a_line_and_not_the_command(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.FileIO("/dev/full", "w"), write_through=True))
    say("ready")
    assert "No space left on device" in caplog.text


def test_a_reader_that_is_gone_ends_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    class Gone:
        def write(self, _text: str) -> int:
            raise BrokenPipeError

        def flush(self) -> None: ...

    monkeypatch.setattr(sys, "stdout", Gone())
    with pytest.raises(BrokenPipeError):
        say("ready")
