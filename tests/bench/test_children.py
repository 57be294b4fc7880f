"""What a benchmark starts ends with it."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import koord_bench
from tests.waiting import until

PROGRAM = textwrap.dedent(
    """
    import sys, time
    from koord_bench.children import ended_by_signals, start_child
    with ended_by_signals():
        child = start_child(["sleep", "300"])
        try:
            print(child.pid, flush=True)
            time.sleep(300)
        finally:
            print("cleared away", flush=True)
    """
)


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def _heed_signals() -> None:
    """A test runner in the background of a shell may ignore them, and its children would."""
    for number in (signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGKILL])
def test_no_process_outlives_a_benchmark_that_a_signal_ends(how: signal.Signals) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        preexec_fn=_heed_signals,
    )
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    assert runs(pid)
    parent.send_signal(how)
    said, _ = parent.communicate(timeout=60)
    assert said == (b"" if how is signal.SIGKILL else b"cleared away\n")
    until(lambda: not runs(pid))


def test_a_signal_that_is_ignored_stays_so() -> None:
    program = PROGRAM.replace("time.sleep(300)", "import os, signal; os.kill(os.getpid(), signal.SIGHUP)")
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        timeout=60,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
    )
    assert done.returncode == 0, done.stderr


def test_benchmarks_start_processes_in_one_way() -> None:
    folder = Path(next(iter(koord_bench.__path__)))
    pattern = re.compile(r"subprocess\.Popen\(|create_subprocess")
    found = {path.name for path in folder.rglob("*.py") if pattern.search(path.read_text())}
    assert found == {"children.py", "colocation_node.py"}
