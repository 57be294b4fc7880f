"""Where a running `up` keeps its things, and how others find it.

    D/kubeconfig        the administrator's, readable by its owner only
    D/endpoints.json    what runs: process ids, addresses, logs (`Endpoints`)
    D/logs/NAME.log     a log for each component
    D/console-link      the next link that signs in to the console, readable by its owner only
    D/up.lock           held while it runs: one `up` to a directory

The embedded API server keeps its store and its keys there too. While it runs, a disk that takes no writes costs these
files, never what runs: a log is left out, and `write_endpoints` raises for a caller that tries again.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Final, Self

import msgspec

from koord.api.machinery.faults import BadInput
from koord.operate.endpoints import Endpoints

log = logging.getLogger(__name__)

CONSOLE_LINK: Final = "console-link"
LOG_LIMIT_BYTES: Final = 16 << 20


class InUse(BadInput):
    """Another process runs on this directory."""


class DataDir:
    """A data directory while it is ours. Without a path, a temporary one that goes when we do."""

    def __init__(self, path: Path | None) -> None:
        self._temporary = path is None
        self._wanted = path
        self._lock: IO[str] | None = None

    def __enter__(self) -> Self:
        if self._wanted is None:
            self.path = Path(tempfile.mkdtemp(prefix="koord-"))
        else:
            self.path = self._wanted.absolute()
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._take_lock()
            self.logs.mkdir(mode=0o700, exist_ok=True)
            # What an earlier run left says where it was, not where we are.
            self.endpoints_file.unlink(missing_ok=True)
            self.kubeconfig.unlink(missing_ok=True)
            self.console_link_file.unlink(missing_ok=True)
        except OSError as error:
            raise BadInput(
                f"the data directory {self.path} cannot be written: {error.strerror}; make room there, or give another"
                " --data-dir"
            ) from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):
            self.endpoints_file.unlink(missing_ok=True)
        if self._temporary:
            shutil.rmtree(self.path, ignore_errors=True)
        if self._lock is not None:
            self._lock.close()

    @property
    def kubeconfig(self) -> Path:
        return self.path / "kubeconfig"

    @property
    def endpoints_file(self) -> Path:
        return self.path / "endpoints.json"

    @property
    def console_link_file(self) -> Path:
        return self.path / CONSOLE_LINK

    @property
    def console_link(self) -> str:
        """Empty until the console has started. Each link signs in once."""
        try:
            return self.console_link_file.read_text().strip()
        except OSError:
            return ""

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    def log_file(self, component: str) -> Path:
        return self.logs / f"{component}.log"

    def open_log(self, component: str) -> IO[bytes]:
        """A component's log, to be appended to. One that has grown large makes room, once. Where no file can be opened,
        the log goes nowhere."""
        path = self.log_file(component)
        try:
            if path.exists() and path.stat().st_size > LOG_LIMIT_BYTES:
                path.replace(path.with_suffix(".log.1"))
            return open(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "ab")
        except OSError as error:
            log.warning("the log %s cannot be opened: %s; %s runs without", path, error.strerror, component)
            return open(os.devnull, "ab")

    def log_tail(self, component: str, lines: int = 10) -> list[str]:
        try:
            with self.log_file(component).open("rb") as file:
                file.seek(0, os.SEEK_END)
                file.seek(max(0, file.tell() - 16384))
                return file.read().decode("utf-8", "replace").splitlines()[-lines:]
        except OSError:
            return []

    def write_endpoints(self, endpoints: Endpoints) -> None:
        """Replaces the file whole: a reader sees the old or the new. Raises OSError where the disk refuses it."""
        fresh = self.path / ".endpoints.json"
        fresh.write_bytes(msgspec.json.format(msgspec.json.encode(endpoints), indent=2) + b"\n")
        fresh.chmod(0o600)
        fresh.replace(self.endpoints_file)

    def last_port(self) -> int:
        """The API server's port of the last run, or 0: clients that know it may find it again."""
        try:
            return int((self.path / "port").read_text())
        except (OSError, ValueError):
            return 0

    def keep_port(self, port: int) -> None:
        try:
            (self.path / "port").write_text(f"{port}\n")
        except OSError as error:
            log.warning("the port cannot be noted in %s: %s; the next run may get another", self.path, error.strerror)

    def _take_lock(self) -> None:
        lock = (self.path / "up.lock").open("a+")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            lock.seek(0)
            holder = lock.read().strip()
            lock.close()
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                raise
            who = f" (pid {holder})" if holder else ""
            raise InUse(
                f"another koord up{who} runs on {self.path}; use it with KUBECONFIG={self.kubeconfig}, stop it, "
                "or give another --data-dir"
            ) from None
        self._lock = lock
        # A note for the error message of the next one, which does without where the disk is full.
        with suppress(OSError):
            os.ftruncate(lock.fileno(), 0)
            os.write(lock.fileno(), f"{os.getpid()}\n".encode())
