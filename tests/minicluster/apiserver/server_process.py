"""The embedded server as a process of its own, to be killed, starved and attacked."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any

from koord.kube.cluster_config import ClusterConfig
from koord.kube.kubeconfig import parse, resolve
from koord_bench.api_load import Connection, Target, encode
from tests.control_plane import free_port
from tests.waiting import until

READY_WITHIN_S = 60.0
MAPS = "/api/v1/namespaces/default/configmaps"


class ServerProcess:
    """A server on its data directory. It keeps its port when it is started again."""

    def __init__(self, data_dir: Path, *flags: str) -> None:
        self.data_dir, self.port = data_dir, free_port()
        self._flags = flags
        self.log = data_dir.parent / f"{data_dir.name}.log"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> ServerProcess:
        try:
            self.start()
        except BaseException:
            if self._process is not None:
                self.kill()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self.kill()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def config(self) -> ClusterConfig:
        kubeconfig = self.data_dir / "kubeconfig"
        return resolve(parse(kubeconfig.read_text(), str(kubeconfig)))

    def target(self) -> Target:
        return Target(self.config)

    def start(self) -> None:
        where = ["--data-dir", str(self.data_dir), "--port", str(self.port)]
        command = [sys.executable, "-m", "koord", "apiserver", *where, *self._flags]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)

        def is_ready() -> bool:
            assert self.alive, self.log.read_text()[-3000:]
            return self._ready()

        until(is_ready, READY_WITHIN_S, what=lambda: self.log.read_text()[-3000:])

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(how)
        self._process.wait(timeout=60)
        self._process = None

    def _ready(self) -> bool:
        try:
            context = self.target().tls
            with urllib.request.urlopen(f"https://127.0.0.1:{self.port}/readyz", context=context, timeout=5) as answer:
                return bool(answer.status == 200)
        except (OSError, urllib.error.URLError):
            return False


class Client:
    """One connection, for requests one after the other. Answers are (code, decoded body)."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @classmethod
    async def connect(cls, server: ServerProcess) -> Client:
        return cls(await server.target().connect(Connection))

    def close(self) -> None:
        self._connection.close()

    async def get(self, path: str) -> tuple[int, Any]:
        return await self.ask("GET", path)

    async def ask(
        self, method: str, path: str, body: object = None, content_type: str = "application/json"
    ) -> tuple[int, Any]:
        raw = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        code, answer = await self._connection.ask(encode(method, path, raw, content_type))
        return code, decoded(answer)

    async def put(self, name: str, data: str) -> tuple[int, Any]:
        """Create a config map, or change it."""
        body = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": name}, "data": {"value": data}}
        code, answer = await self.ask("POST", MAPS, body)
        if code != 409:
            return code, answer
        return await self.ask("PATCH", f"{MAPS}/{name}", {"data": {"value": data}}, "application/merge-patch+json")

    async def values(self) -> dict[str, str]:
        """The config maps that tests wrote, by name."""
        code, listed = await self.get(MAPS)
        assert code == 200, listed
        items = [item for item in listed["items"] if "value" in (item.get("data") or {})]
        return {item["metadata"]["name"]: item["data"]["value"] for item in items}


def decoded(answer: bytes) -> Any:
    """A body, whether it came whole or in chunks."""
    if answer.endswith(b"0\r\n\r\n"):
        whole, rest = b"", answer
        while rest != b"0\r\n\r\n":
            length, _, rest = rest.partition(b"\r\n")
            whole, rest = whole + rest[: int(length, 16)], rest[int(length, 16) + 2 :]
        answer = whole
    try:
        return json.loads(answer)
    except ValueError:
        return answer.decode(errors="replace")
