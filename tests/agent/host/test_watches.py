"""Directories that come and go, as the kernel tells them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from koord.agent.host.watches import Change, Watches


@pytest.fixture
def watches() -> Iterator[Watches]:
    found = Watches()
    yield found
    found.close()


def test_directories_are_told_and_files_are_not(watches: Watches, tmp_path: Path) -> None:
    watches.add(str(tmp_path))
    assert watches.changes() == []
    (tmp_path / "cpu.max").write_text("max")
    (tmp_path / "pod1").mkdir()
    (tmp_path / "pod1" / "container").mkdir()
    (tmp_path / "pod1" / "container").rename(tmp_path / "moved")
    (tmp_path / "pod1").rmdir()
    assert watches.changes() == [
        Change(str(tmp_path), "pod1", is_there=True),
        Change(str(tmp_path), "moved", is_there=True),
        Change(str(tmp_path), "pod1", is_there=False),
    ]


def test_a_weight_that_somebody_writes_is_told(watches: Watches, tmp_path: Path) -> None:
    for name in ("cpu.shares", "cpu.weight", "cpu.cfs_quota_us"):
        (tmp_path / name).write_text("1")
    watches.add(str(tmp_path))
    for name in ("cpu.shares", "cpu.weight", "cpu.cfs_quota_us"):
        with (tmp_path / name).open("r+") as file:
            file.write("2")
    assert watches.changes() == [
        Change(str(tmp_path), "cpu.shares", is_there=True, is_file=True),
        Change(str(tmp_path), "cpu.weight", is_there=True, is_file=True),
    ]


def test_only_a_directory_that_is_there_can_be_watched(watches: Watches, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FileNotFoundError):
        watches.add(str(tmp_path / "nowhere"))
    with pytest.raises(NotADirectoryError):
        watches.add(str(tmp_path / "file"))
    assert len(watches) == 0


def test_a_directory_made_anew_is_watched_anew(watches: Watches, tmp_path: Path) -> None:
    pods = tmp_path / "kubepods"
    for _ in range(3):
        pods.mkdir()
        watches.add(str(pods))
        watches.add(str(pods))
        assert len(watches) == 1
        (pods / "pod1").mkdir()
        assert [change.name for change in watches.changes()] == ["pod1"]
        (pods / "pod1").rmdir()
        pods.rmdir()


def test_watches_of_what_is_gone_are_ended_but_for_those_that_are_wanted(watches: Watches, tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
        watches.add(str(tmp_path / name))
    (tmp_path / "a").rmdir()
    (tmp_path / "b").rmdir()
    watches.remove_gone(but={str(tmp_path / "b")})
    assert [str(tmp_path / name) in watches for name in ("a", "b", "c")] == [False, True, True]


def test_more_than_the_kernel_keeps_is_told_as_such(watches: Watches) -> None:
    kept = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    # In memory: on a disk, thousands of directories take seconds.
    with TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as folder:
        watches.add(folder)
        pod = f"{folder}/pod1"
        for _ in range(kept // 2 + 10):
            os.mkdir(pod)
            os.rmdir(pod)
    assert Change("", "", is_there=True) in watches.changes()
