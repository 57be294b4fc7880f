"""The API servers that the controllers are tried on: a real one, and koord's own in a process of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest

from tests.control_plane import find_binary
from tests.waiting import until

READY_WITHIN_S = 60.0


class Plane(Protocol):
    """What these tests need of an API server."""

    kubeconfig: Path

    def kubectl(
        self, *args: str, stdin: str | None = None, check: bool = True, timeout_s: float = 120
    ) -> subprocess.CompletedProcess[str]: ...


class EmbeddedPlane:
    """koord's own API server."""

    def __init__(self) -> None:
        self.dir = Path(tempfile.mkdtemp(prefix="koord-embedded-"))
        self.kubeconfig = self.dir / "kubeconfig"
        with (self.dir / "server.log").open("wb") as log:
            command = [sys.executable, "-m", "koord", "apiserver", "--data-dir", str(self.dir), "--durability", "fast"]
            self._process = subprocess.Popen(command, stdout=log, stderr=log)

    def wait_until_ready(self) -> None:
        log = self.dir / "server.log"

        def is_ready() -> bool:
            assert self._process.poll() is None, log.read_text()
            return self.kubeconfig.exists() and not self.kubectl("get", "--raw", "/readyz", check=False).returncode

        until(is_ready, READY_WITHIN_S, what=log.read_text)

    def kubectl(
        self, *args: str, stdin: str | None = None, check: bool = True, timeout_s: float = 120
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [str(find_binary("kubectl")), "--kubeconfig", str(self.kubeconfig), *args],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
            env={**os.environ, "HOME": str(self.dir)},
        )
        assert not check or done.returncode == 0, f"kubectl {' '.join(args)}: {done.stderr}"
        return done

    def stop(self) -> None:
        self._process.kill()
        self._process.wait(timeout=60)
        shutil.rmtree(self.dir, ignore_errors=True)


@pytest.fixture(scope="session")
def embedded_plane() -> Iterator[EmbeddedPlane]:
    plane = EmbeddedPlane()
    try:
        plane.wait_until_ready()
        yield plane
    finally:
        plane.stop()


@pytest.fixture(params=["embedded", pytest.param("kubernetes", marks=pytest.mark.cluster)])
def plane(request: pytest.FixtureRequest) -> Plane:
    """Each test on each server."""
    name = "embedded_plane" if request.param == "embedded" else "control_plane"
    found: Plane = request.getfixturevalue(name)
    return found
