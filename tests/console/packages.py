"""The packages of npm that build the console's pages and test them."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "console"
LOCK = "package-lock.json"


def installed() -> Path:
    """node_modules, as the lock file says; from the last run where that is still right."""
    modules = SOURCES / "node_modules"
    made_from = modules / ".made-from"
    lock = (SOURCES / LOCK).read_bytes()
    with (SOURCES / ".gitignore").open() as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        if not made_from.exists() or made_from.read_bytes() != lock:
            npm("ci", at=SOURCES)
            made_from.write_bytes(lock)
    return modules


def npm(*args: str, at: Path) -> None:
    program = shutil.which("npm")
    assert program
    done = subprocess.run([program, *args], cwd=at, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
