"""The commands of the user's pages, run as they stand: what a page promises must work for whoever types it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.control_plane import find_binary

DOCS = Path(__file__).parents[2] / "docs"
LIMIT_S = 120


def commands(page: str) -> list[str]:
    """The indented lines of a page, in order."""
    return [line[4:] for line in (DOCS / page).read_text().splitlines() if line.startswith("    ")]


@pytest.mark.kubectl
@pytest.mark.xdist_group("whole-cluster")
def test_the_page_about_the_api_server(tmp_path: Path) -> None:
    kubectl = find_binary("kubectl")
    assert kubectl is not None
    lines = commands("apiserver.md")
    assert lines[0].startswith("koord up ")
    assert lines[-1] == "rm -r ./data"
    up = f"{lines[0].partition(' &')[0]} > out &"
    wait = "for i in $(seq 600); do grep -q ready: out && break; sleep 0.1; done"
    # Usage is reported a while after a node came; a reader is slower than this script.
    lines = [f"until {line}; do sleep 0.5; done" if line.startswith("kubectl top") else line for line in lines]
    end = ("kill $up", "wait $up", "trap - EXIT")
    script = "\n".join(["set -ex", up, "up=$!", "trap 'kill $up' EXIT", wait, *lines[1:-1], *end, lines[-1]])
    path = os.pathsep.join([str(Path(sys.executable).parent), str(kubectl.parent), os.environ["PATH"]])
    shell = subprocess.Popen(
        ["bash", "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PATH": path, "HOME": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        printed, _ = shell.communicate(timeout=LIMIT_S)
    finally:
        _stop(shell.pid)
    assert shell.returncode == 0, printed[-4000:]
    assert "successfully rolled out" in printed
    assert "hollow-0003" in printed
    assert "all is well" in printed
    assert not (tmp_path / "data").exists()


def _stop(group: int) -> None:
    """Everything that the script left behind, politely first."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(group, number)
        except ProcessLookupError:
            return
        time.sleep(2)
