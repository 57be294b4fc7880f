"""Cgroups of this machine's kernel for a test: below a directory of the test's own, which is gone afterwards.

Skips where it cannot be: without root, or on a kernel whose v1 hierarchies are not mounted.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest

from koord.agent.host.cgroups import Cgroups, Version
from koord.agent.host.files import Files
from koord.agent.host.layout import qos_dir
from koord.api.cgroup import CgroupDriver
from koord.api.words import KubeQoS

CONTROLLERS = ("cpu", "cpuacct", "cpuset", "memory")
GONE_WITHIN_S = 10.0
_number = count()


@contextmanager
def real_cgroups() -> Iterator[Cgroups]:
    """A node's root with the directories that kubelet makes, and nothing in them."""
    files = Files("/")
    mounted = Cgroups.of(files)
    if os.geteuid() != 0 or mounted.version is not Version.V1:
        pytest.skip("needs root and cgroup v1")
    root = f"koord-test-{os.getpid()}-{next(_number)}"
    cgroups = Cgroups(files, Version.V1, root)
    try:
        for directory in ("", *(qos_dir(qos, CgroupDriver.CGROUPFS) for qos in KubeQoS)):
            make(cgroups, directory)
        cgroups.look_for_pods_in(qos_dir(KubeQoS.GUARANTEED, CgroupDriver.CGROUPFS))
        yield cgroups
    finally:
        files.close()
        for controller in CONTROLLERS:
            _remove(Path("/", cgroups.name(controller, "")))


def make(cgroups: Cgroups, directory: str) -> str:
    """A directory in all controllers, as kubelet makes it: with its parent's CPUs and memory nodes."""
    for controller in CONTROLLERS:
        path = Path("/", cgroups.name(controller, directory))
        path.mkdir()
        if controller == "cpuset":
            for name in ("cpuset.cpus", "cpuset.mems"):
                (path / name).write_text((path.parent / name).read_text())
    return directory


def put(cgroups: Cgroups, directory: str, pid: int) -> None:
    for controller in CONTROLLERS:
        Path("/", cgroups.name(controller, directory), "cgroup.procs").write_text(str(pid))


def _remove(path: Path) -> None:
    """The whole tree; what still runs there is ended."""
    until = time.monotonic() + GONE_WITHIN_S
    for below in sorted([path, *(each for each in path.rglob("*") if each.is_dir())], reverse=True):
        while True:
            for pid in (below / "cgroup.procs").read_text().split():
                os.kill(int(pid), signal.SIGKILL)
            try:
                below.rmdir()
                break
            except OSError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.02)
