"""koord's own API server as a process, for tests that also run on a real one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.control_plane import find_binary
from tests.waiting import until

READY_WITHIN_S = 60.0


@dataclass(frozen=True)
class Embedded:
    dir: Path

    @property
    def kubeconfig(self) -> Path:
        return self.dir / "kubeconfig"

    def kubectl(self, *args: str, timeout_s: float = 120) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [str(find_binary("kubectl")), "--kubeconfig", str(self.kubeconfig), *args],
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
            env={**os.environ, "HOME": str(self.dir)},
        )
        assert done.returncode == 0, f"kubectl {' '.join(args)}: {done.stderr}"
        return done


@contextmanager
def embedded(*flags: str) -> Iterator[Embedded]:
    with TemporaryDirectory(prefix="koord-embedded-") as folder:
        server = Embedded(Path(folder))
        with (server.dir / "log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "koord", "apiserver", "--data-dir", folder, "--durability", "fast", *flags],
                stdout=log,
                stderr=log,
            )
        try:

            def is_ready() -> bool:
                assert process.poll() is None, (server.dir / "log").read_text()
                return server.kubeconfig.exists()

            until(is_ready, READY_WITHIN_S, what=(server.dir / "log").read_text)
            yield server
        finally:
            process.terminate()
            process.wait(timeout=60)
