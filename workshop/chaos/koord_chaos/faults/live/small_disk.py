"""A real file system that is small, for tests of what happens when it is full. Needs root."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

CHUNK = 4096


class SmallDisk:
    def __init__(self, path: Path) -> None:
        self.path = path

    def fill(self) -> None:
        """To the last byte, and the last file."""
        with suppress(OSError), (self.path / "ballast").open("ab", buffering=0) as ballast:
            while True:
                ballast.write(bytes(CHUNK))
        with suppress(OSError):
            for number in range(10_000):
                (self.path / f"ballast-{number}").touch()

    def make_room(self) -> None:
        for file in self.path.glob("ballast*"):
            file.unlink()


@contextmanager
def small_disk(path: Path, size: str, files: int = 1000) -> Iterator[SmallDisk]:
    path.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},nr_inodes={files}", "tmpfs", str(path)], check=True)
    try:
        yield SmallDisk(path)
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)
