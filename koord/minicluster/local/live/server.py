"""What kubelet answers on a node, for this one: over TLS, on loopback.

/healthz                                     ok
/pods                                        the pods of this node
/configz                                     how CPUs are managed
/containerLogs/NAMESPACE/POD/CONTAINER       follow, tailLines, limitBytes, previous
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import msgspec
from aiohttp import web

from koord.minicluster.local.life import Running
from koord.minicluster.local.live import pod_logs
from koord.minicluster.local.live.worker import Worker

HOST: Final = "127.0.0.1"
FOLLOW_S: Final = 0.2
CHUNK: Final = 64 * 1024


class Server:
    def __init__(
        self, workers: Callable[[], dict[str, Worker]], pods: Callable[[], list[bytes]], tls: ssl.SSLContext
    ) -> None:
        """`pods`: as the API has them, so that nothing of them is lost."""
        self._workers, self._pods, self._tls = workers, pods, tls
        self._runner: web.AppRunner | None = None
        self.port = 0

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_get("/healthz", self._healthy)
        app.router.add_get("/pods", self._list)
        app.router.add_get("/pods/", self._list)
        app.router.add_get("/configz", self._config)
        app.router.add_get("/containerLogs/{namespace}/{pod}/{container}", self._logs)
        for verb in ("exec", "attach", "portForward", "run"):
            app.router.add_route("*", f"/{verb}/{{rest:.*}}", self._not_here)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5)
        await self._runner.setup()
        await web.TCPSite(self._runner, HOST, 0, ssl_context=self._tls).start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _healthy(self, request: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def _not_here(self, request: web.Request) -> web.Response:
        return web.Response(status=501, text="pods of a local node are plain processes: use nsenter or a shell\n")

    async def _config(self, request: web.Request) -> web.Response:
        config = {"cpuManagerPolicy": "none", "cgroupDriver": "cgroupfs", "reservedSystemCPUs": ""}
        return web.json_response({"kubeletconfig": config})

    async def _list(self, request: web.Request) -> web.Response:
        items = [msgspec.Raw(each) for each in self._pods()]
        body = {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items}
        return web.Response(body=msgspec.json.encode(body), content_type="application/json")

    async def _logs(self, request: web.Request) -> web.StreamResponse:
        names = request.match_info
        worker = self._workers().get(f"{names['namespace']}/{names['pod']}")
        if worker is None:
            raise web.HTTPNotFound(text=f"pod {names['pod']!r} is not on this node\n")
        own = worker.life.containers.get(names["container"])
        if own is None:
            raise web.HTTPNotFound(text=f"container {names['container']!r} is not in pod {names['pod']!r}\n")
        is_previous = request.query.get("previous") == "true"
        if not own.has_begun or (is_previous and not own.restarts):
            what = "has not run before" if is_previous else "is waiting to start"
            raise web.HTTPBadRequest(text=f"container {names['container']!r} in pod {names['pod']!r} {what}\n")
        file = worker.log_file(names["container"], own.restarts - is_previous)
        tail, limit = (_number(request, name) for name in ("tailLines", "limitBytes"))
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        pieces, offset = await asyncio.to_thread(pod_logs.tail, file, tail)
        for piece in pieces:
            await response.write(piece if limit is None else piece[:limit])
            limit = None if limit is None else max(limit - len(piece), 0)
        while request.query.get("follow") == "true" and _is_running(worker, names["container"], own.id):
            await asyncio.sleep(FOLLOW_S)
            offset = await self._follow(response, file, offset)
        return response

    async def _follow(self, response: web.StreamResponse, file: Path, offset: int) -> int:
        if _size(file) < offset:
            # What was there has gone to an older file.
            offset = 0
        while chunk := _read(file, offset, CHUNK):
            await response.write(chunk)
            offset += len(chunk)
        return offset


def _is_running(worker: Worker, container: str, container_id: str) -> bool:
    own = worker.life.containers[container]
    return isinstance(own.state, Running) and own.id == container_id


def _read(file: Path, offset: int, size: int) -> bytes:
    try:
        fd = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return b""
    try:
        return os.pread(fd, size, offset)
    finally:
        os.close(fd)


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0


def _number(request: web.Request, name: str) -> int | None:
    text = request.query.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit()):
        raise web.HTTPBadRequest(text=f"{name} is {text!r}; it must be a whole number\n")
    return int(text)
