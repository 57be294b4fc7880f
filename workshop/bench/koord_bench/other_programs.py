"""How much CPU time other programs took while a benchmark measured: the sign of a machine that is not quiet.

Summed over processes with the children that they waited for, so that short ones are not missed. Kernel threads are left
out: they mostly work for what the benchmark does.
"""

from __future__ import annotations

import os
from collections.abc import Set
from pathlib import Path
from typing import Final

KTHREADD: Final = 2
_PARENT, _TIMES = 1, slice(11, 15)
"""Fields of `/proc/PID/stat` after the name: parent; user and system time of the process and of its children."""


def other_programs_s(own: Set[int], proc: Path = Path("/proc")) -> float:
    """CPU time of all processes so far, without those of the benchmark."""
    ticks = 0
    for pid in (int(entry.name) for entry in os.scandir(proc) if entry.name.isdigit()):
        if pid in own or pid == KTHREADD:
            continue
        try:
            fields = (proc / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()
        except OSError:
            continue
        if int(fields[_PARENT]) != KTHREADD:
            ticks += sum(map(int, fields[_TIMES]))
    return ticks / os.sysconf("SC_CLK_TCK")
