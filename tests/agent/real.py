"""Cgroups of this machine's kernel for a test: below a directory of the test's own, which is gone afterwards.

Either mounted version. Skips where it cannot be: without root, without the v1 hierarchies, or where v2 does
not hand its controllers down from the top, which is not for a test to change. In a guest of systemd's, that one makes
them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest

from koord.agent.host.cgroups import Cgroups, Version
from koord.agent.host.convert import quota_of_milli
from koord.agent.host.files import Files
from koord.agent.host.knobs import CPU_QUOTA
from koord.agent.host.layout import qos_dir
from koord.api.kubernetes.cgroup import CgroupDriver
from koord.api.kubernetes.words import KubeQoS
from koord_minicluster.local.live import tree
from tests.agent import slices

CONTROLLERS = ("cpu", "cpuacct", "cpuset", "memory")
UNIFIED_CONTROLLERS = ("cpu", "cpuset", "memory")
WHERE_MOUNTED = ("net_cls",)
"""Only a guest mounts that: nothing here needs it but its own test."""
IS_MACHINE = os.environ.get("KOORD_TEST_CGROUPS") == "machine"
"""Whether the node is the whole machine, not a part of it: in a guest."""
GONE_WITHIN_S = 30.0
_number = count()


@contextmanager
def real_cgroups(driver: CgroupDriver = CgroupDriver.CGROUPFS) -> Iterator[Cgroups]:
    """A node's root with the directories that kubelet makes, and nothing in them."""
    files = Files("/")
    mounted = Cgroups.of(files)
    if reason := _missing(mounted):
        pytest.skip(reason)
    root = "" if slices.IN_USE or IS_MACHINE else f"koord-test-{os.getpid()}-{next(_number)}"
    cgroups = Cgroups(files, mounted.version, root)
    try:
        if root:
            make(cgroups, "")
        for qos in KubeQoS:
            make(cgroups, qos_dir(qos, driver))
        cgroups.look_for_pods_in(qos_dir(KubeQoS.GUARANTEED, driver))
        yield cgroups
    finally:
        files.close()
        top = "" if root else qos_dir(KubeQoS.GUARANTEED, driver)
        for path in paths(cgroups, top):
            if not path.exists():
                continue
            if slices.IN_USE:
                slices.stop_all(path)
            else:
                tree.remove_within(path, time.monotonic() + GONE_WITHIN_S)


def _missing(mounted: Cgroups) -> str | None:
    if os.geteuid() != 0:
        return "needs root"
    if mounted.version is Version.V1:
        absent = [controller for controller in CONTROLLERS if not Path("/", mounted.name(controller, "")).exists()]
    else:
        handed = Path("/", mounted.name("", ""), "cgroup.subtree_control").read_text().split()
        absent = sorted(set(UNIFIED_CONTROLLERS) - set(handed))
    return f"needs the cgroup controllers {', '.join(absent)}" if absent else None


def paths(cgroups: Cgroups, directory: str) -> list[Path]:
    """A directory in each hierarchy that there is."""
    if cgroups.version is Version.V2:
        return [Path("/", cgroups.name("", directory))]
    mounted = [each for each in WHERE_MOUNTED if Path("/", cgroups.name(each, "")).parent.is_dir()]
    return [Path("/", cgroups.name(controller, directory)) for controller in (*CONTROLLERS, *mounted)]


def make(cgroups: Cgroups, directory: str) -> str:
    """A directory in all controllers, as kubelet makes it: with its parent's CPUs and memory nodes."""
    for path in paths(cgroups, directory):
        if slices.IN_USE:
            slices.start(path)
        if cgroups.version is Version.V2 and directory:
            _hand_down(Path("/", cgroups.name("", "")), directory)
        if not slices.IN_USE:
            path.mkdir()
        if cgroups.version is Version.V1 and (path / "cpuset.cpus").exists():
            for name in ("cpuset.cpus", "cpuset.mems"):
                (path / name).write_text((path.parent / name).read_text())
    return directory


def _hand_down(root: Path, directory: str) -> None:
    """From the top, as runtimes do: what systemd sees no need for, it takes back."""
    above = root
    for name in directory.split("/"):
        (above / "cgroup.subtree_control").write_text(
            " ".join(f"+{unified_controller}" for unified_controller in UNIFIED_CONTROLLERS)
        )
        above /= name


def limit_cpu(cgroups: Cgroups, directory: str, milli: int) -> None:
    """As kubelet does it, which makes the directories and keeps their limits."""
    if slices.IN_USE:
        slices.tell(directory, slices.cpu_quota(milli))
    else:
        cgroups.set(CPU_QUOTA, directory, quota_of_milli(milli))


def put(cgroups: Cgroups, directory: str, pid: int) -> None:
    """Zero is the calling process."""
    for path in paths(cgroups, directory):
        (path / "cgroup.procs").write_text(str(pid))


def remove(cgroups: Cgroups, directory: str) -> None:
    """A directory and all below, with what runs there."""
    for path in paths(cgroups, directory):
        if slices.IN_USE:
            slices.stop(path)
            continue
        tree.remove_within(path, time.monotonic() + GONE_WITHIN_S)
