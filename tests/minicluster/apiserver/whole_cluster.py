"""`koord up` for tests: the API server, controllers and hollow nodes, in processes of their own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType

from tests.control_plane import find_binary
from tests.waiting import until

READY_WITHIN_S = 60.0
STOPPED_WITHIN_S = 30.0


class WholeCluster:
    """A context manager; `kubeconfig` is an administrator's, and `kubectl(...)` runs with it."""

    def __init__(self, nodes: int = 4) -> None:
        self.dir = Path(tempfile.mkdtemp(prefix="koord-cluster-"))
        self.kubeconfig = self.dir / "data" / "kubeconfig"
        self._nodes = nodes
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> WholeCluster:
        out = self.dir / "out"
        with out.open("wb") as stdout, (self.dir / "log").open("wb") as stderr:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "koord", "up", "--headless", "--nodes", str(self._nodes)),
                    *("--durability", "fast", "--data-dir", str(self.dir / "data")),
                ],
                stdout=stdout,
                stderr=stderr,
                stdin=subprocess.DEVNULL,
            )
        process = self._process

        def is_ready() -> bool:
            assert process.poll() is None, self.log()
            return b"ready:" in out.read_bytes()

        try:
            until(is_ready, READY_WITHIN_S, what=self.log)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(STOPPED_WITHIN_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait(10)
        shutil.rmtree(self.dir, ignore_errors=True)

    def log(self) -> str:
        return (self.dir / "log").read_text(errors="replace")[-4000:]

    def environment(self, **more: str) -> dict[str, str]:
        return {**os.environ, "HOME": str(self.dir), "KUBECONFIG": str(self.kubeconfig), **more}

    def command(self, *args: str) -> list[str]:
        binary = find_binary("kubectl")
        assert binary, "no kubectl"
        return [str(binary), *args]

    def kubectl(self, *args: str, stdin: str | None = None, check: bool = True, **environment: str) -> str:
        """What kubectl prints. With `check` off, its errors too."""
        done = subprocess.run(
            self.command(*args),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env=self.environment(**environment),
        )
        if not check:
            return done.stdout + done.stderr
        assert done.returncode == 0, f"kubectl {' '.join(args)}:\n{done.stdout}{done.stderr}\n{self.log()}"
        return done.stdout
