"""A cgroup of its own that limits the memory of a process: the kernel kills the process when it needs more.

Needs root, and cgroup v1's memory controller or cgroup v2.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

V1: Final = Path("/sys/fs/cgroup/memory")
V2: Final = Path("/sys/fs/cgroup")


def parent() -> Path | None:
    """Where a group can be made; None without a memory controller or the right to use it."""
    for top, file in ((V1, "memory.limit_in_bytes"), (V2, "cgroup.subtree_control")):
        if (top / file).exists():
            if top == V2 and "memory" not in (top / file).read_text().split():
                return None
            return top if os.access(top, os.W_OK) else None
    return None


@contextmanager
def limited(top: Path, pid: int, more_bytes: int) -> Iterator[None]:
    """The process may use `more_bytes` in addition to what it uses now."""
    group, origin = top / f"koord-chaos-{os.getpid()}-{pid}", _group_of(top, pid)
    group.mkdir()
    try:
        limit = "memory.limit_in_bytes" if top == V1 else "memory.max"
        (group / limit).write_text(str(more_bytes))
        with suppress(ProcessLookupError):
            (group / "cgroup.procs").write_text(str(pid))
        yield
    finally:
        for member in (group / "cgroup.procs").read_text().split():
            with suppress(OSError):
                (origin / "cgroup.procs").write_text(member)
        # The kernel may still count pages of what was killed.
        with suppress(OSError):
            group.rmdir()


def _group_of(top: Path, pid: int) -> Path:
    """The group that a process is in; the top if the process is gone."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if ("memory" in controllers.split(",")) == (top == V1) and (controllers == "" or top == V1):
                return top / path.lstrip("/")
    return top
