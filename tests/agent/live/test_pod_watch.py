"""When kubelet is asked: soon after directories came or went, and otherwise at intervals."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import shutil
import time
from pathlib import Path

import pytest

from koord.agent.host.cgroups import Version
from koord.agent.host.knobs import CPU_SHARES
from koord.agent.host.watches import Watches
from koord.agent.live import pod_watch
from koord.agent.live.pod_watch import PodWatch
from koord.api.kubernetes.cgroup import CgroupDriver
from koord.api.kubernetes.words import KubeQoS
from koord.kube.clock import SystemClock
from tests.agent.trees import Tree

LONG_S = 600.0
SOON_S = 60.0
"Much less than an interval, also on a crowded machine."


@pytest.fixture(autouse=True)
def in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LEAST_S", "SETTLE_S", "ONCE_MORE_S"):
        monkeypatch.setattr(pod_watch, name, getattr(pod_watch, name) / 10)


async def is_early(watch: PodWatch) -> bool:
    """Whether it is something that came or went that brings the next look."""
    return await asyncio.wait_for(watch.next_look(LONG_S), SOON_S)


async def took_s(watch: PodWatch, within_s: float) -> float:
    """Until a look that only time brought."""
    began_s = time.monotonic()
    assert not await asyncio.wait_for(watch.next_look(within_s), SOON_S)
    return time.monotonic() - began_s


@pytest.mark.parametrize("driver", list(CgroupDriver))
@pytest.mark.parametrize("version", list(Version))
async def test_a_pod_and_its_containers_are_noticed_as_they_come_and_go(
    tmp_path: Path, version: Version, driver: CgroupDriver
) -> None:
    tree = Tree(tmp_path, version, driver)
    with PodWatch(tree.cgroups, driver, SystemClock()) as watch:
        assert len(watch) == 3, "the directories of three classes"
        for qos in KubeQoS:
            pod = tree.pod(f"uid-{qos}".lower(), qos)
            assert await is_early(watch)
        assert len(watch) == 6
        container = tree.cgroup(f"{pod}/sandbox")
        assert await is_early(watch)
        watched = tmp_path / tree.cgroups.name("cpu", "")
        shutil.rmtree(watched / container)
        assert await is_early(watch)
        shutil.rmtree(watched / pod)
        assert await is_early(watch)
        assert len(watch) == 5, "what is gone is not watched"


@pytest.mark.parametrize("version", list(Version))
async def test_a_pod_whose_weight_is_written_may_be_resized_so_kubelet_is_asked(
    tmp_path: Path, version: Version
) -> None:
    tree = Tree(tmp_path, version)
    pod = tree.pod("web", KubeQoS.BURSTABLE)
    with PodWatch(tree.cgroups, tree.driver, SystemClock()) as watch:
        watch.follow([pod])
        tree.cgroups.set(CPU_SHARES, pod, 512)
        assert await is_early(watch)


async def test_after_a_change_kubelet_is_asked_once_more_and_then_at_intervals(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    with PodWatch(tree.cgroups, tree.driver, SystemClock()) as watch:
        tree.pod("a", KubeQoS.BURSTABLE, "main")
        assert await is_early(watch)
        assert await took_s(watch, LONG_S) >= pod_watch.ONCE_MORE_S
        assert await took_s(watch, 3 * pod_watch.ONCE_MORE_S) >= 3 * pod_watch.ONCE_MORE_S


async def test_however_much_comes_and_goes_there_is_a_pause_between_two_looks(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    with PodWatch(tree.cgroups, tree.driver, SystemClock()) as watch:
        began_s = time.monotonic()
        for number in range(4):
            for name in "abc":
                tree.pod(f"{name}{number}", KubeQoS.BURSTABLE, "main")
            assert await is_early(watch)
        assert time.monotonic() - began_s >= 4 * pod_watch.LEAST_S


async def test_nothing_but_time_brings_a_look_where_nothing_happens(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    with PodWatch(tree.cgroups, tree.driver, SystemClock()) as watch:
        tree.write("sys/fs/cgroup/kubepods.slice/cpu.weight", "200")
        tree.write("sys/fs/cgroup/kubepods.slice/new", "")
        assert await took_s(watch, 0.3) >= 0.3


async def test_a_class_whose_directory_comes_later_is_watched_then(tmp_path: Path) -> None:
    tree = Tree(tmp_path, driver=CgroupDriver.CGROUPFS)
    pods = tmp_path / "sys/fs/cgroup/kubepods"
    shutil.rmtree(pods)
    with PodWatch(tree.cgroups, tree.driver, SystemClock()) as watch:
        assert len(watch) == 0
        pods.mkdir()
        watch.follow(())
        assert len(watch) == 1
        (pods / "burstable").mkdir()
        assert await is_early(watch)
        tree.pod("a", KubeQoS.BURSTABLE)
        assert await is_early(watch)
        assert len(watch) == 3


async def test_without_watches_intervals_remain_and_it_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def no_more() -> Watches:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(pod_watch, "Watches", no_more)
    tree = Tree(tmp_path)
    with caplog.at_level(logging.WARNING), PodWatch(tree.cgroups, tree.driver, SystemClock()) as watch:
        watch.follow(["kubepods.slice/x"])
        tree.pod("a", KubeQoS.BURSTABLE)
        assert await took_s(watch, 0.3) >= 0.3
        assert len(watch) == 0
    assert [record.getMessage() for record in caplog.records] == [
        "new pods are noticed at intervals only: the kernel gives no watch (Too many open files)"
    ]


async def test_with_too_few_watches_those_that_there_are_serve_and_it_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Few(Watches):
        def add(self, path: str) -> None:
            if path not in self and len(self) >= 4:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
            super().add(path)

    monkeypatch.setattr(pod_watch, "Watches", Few)
    tree = Tree(tmp_path)
    pods = [tree.pod(name, KubeQoS.BURSTABLE) for name in ("a", "b", "c")]
    with caplog.at_level(logging.WARNING), PodWatch(tree.cgroups, tree.driver, SystemClock()) as watch:
        for _ in range(2):
            watch.follow(pods)
        assert len(watch) == 4
        tree.pod("d", KubeQoS.BURSTABLE)
        assert await is_early(watch)
    assert len(caplog.records) == 1
    assert "No space left on device" in caplog.records[0].getMessage()
