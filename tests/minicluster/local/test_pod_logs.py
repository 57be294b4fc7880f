"""Logs of containers are bounded, and what is kept of them can be read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from koord_minicluster.local.live.pod_logs import MOST_FILES, PodLogs, parts, rotate, tail
from tests.minicluster.local.pods import pod

MOST = 1000


def written(file: Path, numbers: range) -> None:
    """As a container does: it holds the file open and appends."""
    fd = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for number in numbers:
        os.write(fd, f"line {number:04}\n".encode())
    os.close(fd)


def test_a_container_that_writes_for_ever_has_five_files_of_the_newest_lines(tmp_path: Path) -> None:
    file = tmp_path / "0.log"
    fd = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for number in range(2000):
        os.write(fd, f"line {number:04}\n".encode())
        rotate(file, MOST)
    os.close(fd)
    sizes = [part.stat().st_size for part in parts(file) if part.exists()]
    assert len(sizes) == MOST_FILES
    assert sum(sizes) <= MOST_FILES * (MOST + 10)
    pieces, _ = tail(file, 250)
    lines = b"".join(pieces).decode().splitlines()
    assert lines == [f"line {number:04}" for number in range(1750, 2000)]


def test_a_file_that_grew_too_fast_keeps_its_newest_part(tmp_path: Path) -> None:
    file = tmp_path / "0.log"
    written(file, range(1000))
    rotate(file, MOST)
    assert file.stat().st_size == 0
    pieces, _ = tail(file, None)
    assert len(b"".join(pieces)) == (MOST_FILES - 1) * MOST
    assert b"".join(pieces).endswith(b"line 0999\n")


def test_a_full_disk_keeps_the_lines_and_no_half_copy(tmp_path: Path) -> None:
    file, copied = tmp_path / "0.log", tmp_path / "0.log.copy"
    written(file, range(150))
    copied.symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left"):
        rotate(file, MOST)
    assert file.stat().st_size == 1500
    assert not copied.is_symlink()
    rotate(file, MOST)
    assert file.stat().st_size == 0


def test_a_tail_takes_older_files_only_as_far_as_it_needs_them(tmp_path: Path) -> None:
    file = tmp_path / "0.log"
    written(file, range(150))
    rotate(file, MOST)
    written(file, range(150, 155))
    assert tail(file, 0) == ([b""], 50)
    assert b"".join(tail(file, 3)[0]) == b"line 0152\nline 0153\nline 0154\n"
    assert b"".join(tail(file, 7)[0]).startswith(b"line 0148\n")


def test_of_former_runs_only_the_last_one_s_logs_are_kept(tmp_path: Path) -> None:
    logs, own = PodLogs(tmp_path), pod()
    for restarts in range(4):
        file = logs.begin(own, "main", restarts)
        file.parent.mkdir(parents=True, exist_ok=True)
        written(file, range(200))
        rotate(file, MOST)
    kept = {each.name for each in (logs.of(own) / "main").iterdir()}
    assert kept == {"2.log", "2.log.1", "3.log", "3.log.1"}


def test_logs_of_pods_that_were_deleted_meanwhile_are_removed(tmp_path: Path) -> None:
    logs, own = PodLogs(tmp_path), pod()
    for folder in (logs.of(own), tmp_path / "ns_gone_u-2"):
        folder.mkdir()
    (tmp_path / "other").mkdir()
    logs.remove_all_but({"u-1"})
    assert sorted(each.name for each in tmp_path.iterdir()) == ["ns_p_u-1", "other"]
    logs.remove(own)
    logs.remove(own)
    assert [each.name for each in tmp_path.iterdir()] == ["other"]
