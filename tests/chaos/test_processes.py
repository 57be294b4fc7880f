"""Clocks that jump, disks that are slow or full, memory that is short: for child processes, on this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from koord_chaos.faults.live.clusters import runs
from koord_chaos.faults.live.memory_limit import limited, parent
from koord_chaos.faults.live.preload import Control, build
from koord_chaos.faults.live.small_disk import small_disk
from tests.waiting import until

CLOCK = "import datetime, sys, time\nfor line in sys.stdin: print(time.time(), time.monotonic(), flush=True)"
SYNC = """
import os, sys, time
with open(sys.argv[1], "w") as file:
    for call in (os.fsync, os.fdatasync):
        began = time.monotonic()
        call(file.fileno())
        print(time.monotonic() - began)
"""
EATS = "data = []\nwhile len(data) < 200: data.append(bytearray(1 << 20))\nprint('fed')"


@pytest.fixture
def control(tmp_path: Path) -> Control:
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler")
    library = build(tmp_path)
    assert library is not None
    return Control(library, tmp_path / "control")


@pytest.fixture
def clock(control: Control) -> Iterator[subprocess.Popen[str]]:
    environment = {**os.environ, **control.environment}
    with subprocess.Popen(
        [sys.executable, "-u", "-c", CLOCK], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        yield process


def asked(process: subprocess.Popen[str]) -> tuple[float, float]:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("now\n")
    process.stdin.flush()
    wall, monotonic = process.stdout.readline().split()
    return float(wall), float(monotonic)


@pytest.mark.parametrize("jump_s", [3600.5, -86400.25, -0.75])
def test_the_clock_of_a_running_process_jumps_and_back(
    control: Control, clock: subprocess.Popen[str], jump_s: float
) -> None:
    for offset_s in (0.0, jump_s, 0.0):
        control.jump(offset_s)
        before_s, before_monotonic_s = time.time(), time.monotonic()
        wall_s, monotonic_s = asked(clock)
        assert before_s - 0.001 <= wall_s - offset_s <= time.time() + 0.001
        assert before_monotonic_s <= monotonic_s <= time.monotonic(), "durations are as ever"


def test_syncs_of_a_process_take_long(control: Control, tmp_path: Path) -> None:
    control.slow(0.2)
    result = subprocess.run(
        [sys.executable, "-c", SYNC, str(tmp_path / "file")],
        env={**os.environ, **control.environment},
        capture_output=True,
        text=True,
        check=True,
    )
    assert all(float(line) >= 0.2 for line in result.stdout.split())


@pytest.mark.root
def test_a_process_that_needs_more_memory_than_it_may_have_is_killed() -> None:
    top = parent()
    if top is None:
        pytest.skip("needs a memory controller")
    groups = set(top.glob("koord-chaos-*"))
    ready = f"import sys\nprint('ready', flush=True)\nsys.stdin.readline()\n{EATS}"
    for limit, expected in ((8 << 20, "ready\n"), (1 << 30, "ready\nfed\n")):
        with subprocess.Popen(
            [sys.executable, "-c", ready], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            said = process.stdout.readline()
            with limited(top, process.pid, limit):
                said += process.communicate("go\n", timeout=60)[0]
            assert said == expected
    until(lambda: set(top.glob("koord-chaos-*")) == groups)


@pytest.mark.root
def test_a_small_disk_is_full_to_the_last_byte_and_then_has_room(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "64k") as disk:
        disk.fill()
        with pytest.raises(OSError, match="No space left"):
            (disk.path / "file").write_bytes(bytes(8192))
        disk.make_room()
        (disk.path / "file").write_bytes(bytes(8192))
    assert not list((tmp_path / "disk").iterdir())


def test_a_process_of_another_program_is_never_taken_for_a_component() -> None:
    with (
        subprocess.Popen(["sleep", "60"]) as other,
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", "koord", "scheduler"]) as scheduler,
    ):
        try:
            assert until(lambda: runs(scheduler.pid, "scheduler-b"))
            assert not runs(scheduler.pid, "manager")
            assert not runs(other.pid, "scheduler")
            assert not runs(os.getpid(), "pytest")
        finally:
            other.kill()
            scheduler.kill()
    assert not runs(scheduler.pid, "scheduler")
