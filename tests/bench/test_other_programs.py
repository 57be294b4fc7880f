"""How much CPU time other programs took, on a composed /proc and on this machine's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from koord_bench.other_programs import other_programs_s


def process(proc: Path, pid: int, parent: int, *ticks: int) -> None:
    (proc / str(pid)).mkdir()
    before = f"{pid} (a (strange) name) S {parent} " + "0 " * 9
    (proc / str(pid) / "stat").write_text(before + " ".join(map(str, ticks)) + " 20 0\n")


def test_own_processes_and_kernel_threads_are_left_out_and_children_count(tmp_path: Path) -> None:
    process(tmp_path, 2, 0, 7, 7, 0, 0)
    process(tmp_path, 30, 2, 500, 500, 0, 0)
    process(tmp_path, 100, 1, 10, 20, 30, 40)
    process(tmp_path, 101, 1, 1000, 0, 0, 0)
    (tmp_path / "102").mkdir()
    (tmp_path / "version").write_text("Linux\n")
    assert other_programs_s({101}, tmp_path) == pytest.approx(100 / os.sysconf("SC_CLK_TCK"))


def test_a_program_that_ended_counts_through_the_one_that_waited_for_it() -> None:
    before = other_programs_s(set())
    subprocess.run([sys.executable, "-c", "import time\nwhile time.process_time() < 0.1: pass"], check=True)
    assert other_programs_s(set()) - before >= 0.09
