"""Sockets of root's: no other user may use them, a second process does not take one over, a dead one's is replaced."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from koord.api.machinery.faults import BadInput
from koord.kube.unix_sockets import root_only, trusted


def bound(path: Path) -> socket.socket:
    end = socket.socket(socket.AF_UNIX)
    with root_only(path):
        end.bind(str(path))
    end.listen()
    return end


def test_only_its_owner_may_use_it_and_a_second_process_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "a.sock"
    with bound(path):
        assert path.stat().st_mode & 0o077 == 0
        assert trusted(str(path)) == ""
        with pytest.raises(BadInput, match="another process listens"):
            bound(path)
    assert path.exists(), "closed, and left behind as by one that was killed"
    bound(path).close()


def test_one_with_more_callers_than_it_takes_is_not_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "a.sock"
    with bound(path) as busy, ExitStack() as callers:
        busy.listen(0)
        with suppress(BlockingIOError):
            for _ in range(100):
                caller = callers.enter_context(socket.socket(socket.AF_UNIX))
                caller.setblocking(False)
                caller.connect(str(path))
        with pytest.raises(BadInput, match="another process listens"):
            bound(path)
        assert path.exists()


def test_what_is_no_socket_or_cannot_be_one_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("somebody's")
    with pytest.raises(BadInput, match="is no socket"):
        bound(file)
    assert file.read_text() == "somebody's"
    with pytest.raises(BadInput, match="at most 107 bytes"):
        bound(tmp_path / ("x" * 120))
    assert "no socket" in trusted(str(file))


@pytest.mark.root
def test_a_socket_of_another_user_is_neither_replaced_nor_trusted(tmp_path: Path) -> None:
    path = tmp_path / "a.sock"
    bound(path).close()
    os.chown(path, 1234, 1234)
    with pytest.raises(BadInput, match="belongs to user 1234"):
        bound(path)
    assert "belongs to user 1234" in trusted(str(path))


def test_a_second_proxy_ends_with_one_message(tmp_path: Path) -> None:
    with bound(tmp_path / "proxy.sock"):
        command = [sys.executable, "-m", "koord", "runtime-proxy", "--listen", str(tmp_path / "proxy.sock")]
        done = subprocess.run(
            [*command, "--state-dir", str(tmp_path / "state")], capture_output=True, text=True, timeout=60, check=False
        )
    assert done.returncode == 2
    assert "another process listens on" in done.stderr
    assert "Traceback" not in done.stderr
