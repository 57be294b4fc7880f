"""Cgroups of this machine's kernel that come and go are noticed, and leave nothing behind."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from koord.agent.host.layout import container_dir
from koord.agent.live.pod_watch import PodWatch
from koord.api.kubernetes.cgroup import pod_dir
from koord.api.kubernetes.words import KubeQoS
from koord.kube.clock import SystemClock
from tests.agent.real import make, real_cgroups, remove
from tests.agent.real_node import DRIVER
from tests.waiting import eventually

pytestmark = pytest.mark.root

LONG_S = 600.0
SOON_S = 60.0


def test_a_pods_cgroups_are_noticed_as_they_come_and_go() -> None:
    asyncio.run(_noticed())


async def _noticed() -> None:
    with real_cgroups(DRIVER) as cgroups, PodWatch(cgroups, DRIVER, SystemClock()) as watch:
        assert len(watch) == 3
        pod = pod_dir("a", KubeQoS.BURSTABLE, DRIVER)
        for directory in (pod, container_dir(pod, "containerd://a-main", DRIVER)):
            make(cgroups, directory)
            assert await asyncio.wait_for(watch.next_look(LONG_S), SOON_S)
        assert len(watch) == 4
        remove(cgroups, pod)
        assert await asyncio.wait_for(watch.next_look(LONG_S), SOON_S)
        assert len(watch) == 3


def test_the_kernel_is_left_without_watches_of_cgroups_that_are_gone() -> None:
    asyncio.run(_left())


async def _left() -> None:
    with real_cgroups(DRIVER) as cgroups, PodWatch(cgroups, DRIVER, SystemClock()) as watch:
        before = _watches_of_this_process()
        for number in range(5):
            pod = make(cgroups, pod_dir(f"a{number}", KubeQoS.BURSTABLE, DRIVER))
            await eventually(lambda: _watches_of_this_process() == before + 1)
            remove(cgroups, pod)
            await eventually(lambda: _watches_of_this_process() == before)
        assert await asyncio.wait_for(watch.next_look(LONG_S), SOON_S)
        assert _watches_of_this_process() == before


def _watches_of_this_process() -> int:
    """By the kernel's word."""
    texts = [path.read_text() for path in Path("/proc/self/fdinfo").iterdir() if path.exists()]
    return sum(text.count("inotify wd:") for text in texts)
