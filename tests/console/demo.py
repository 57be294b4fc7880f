"""A small cluster at work, with its console, for tests of pages."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.crowd import crowd
from tests.waiting import until

NODES = 10


@dataclass(frozen=True)
class Demo:
    kubeconfig: Path
    link_file: Path

    @property
    def link(self) -> str:
        """Signs in, once; the next one is another."""
        return self.link_file.read_text().strip()

    @property
    def address(self) -> str:
        return self.link.partition("/?")[0]

    def koord(self, *args: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "koord", *args, "--kubeconfig", str(self.kubeconfig)],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return done.stdout


@contextmanager
def demo(folder: Path, nodes: int = NODES) -> Iterator[Demo]:
    data, link = folder / "data", folder / "link"
    up = ("up", "--demo", "--nodes", str(nodes), "--headless", "--data-dir", str(data))
    with running(folder, "up", *up) as said:
        until(lambda: "ready: KUBECONFIG=" in said())
        config = data / "kubeconfig"
        with running(folder, "console", "console", "--kubeconfig", str(config), "--link-file", str(link)) as printed:
            until(lambda: re.search("^console: http", printed(), re.MULTILINE))
            yield Demo(config, link)


@contextmanager
def running(folder: Path, name: str, *args: str) -> Iterator[Callable[[], str]]:
    """A command of koord, until the block ends. Gives a function that reads what it said."""
    log = folder / f"{name}.log"
    with log.open("wb") as out:
        process = subprocess.Popen([sys.executable, "-m", "koord", *args], stdout=out, stderr=out, env=dict(os.environ))

    def said() -> str:
        text = log.read_text()
        assert process.poll() is None, text
        return text

    try:
        yield said
    finally:
        process.terminate()
        try:
            process.wait(timeout=30 * crowd())
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
