"""What this node answers on its kubelet port: its pods as the API has them, and what their containers wrote."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec
from aiohttp import web

from koord_minicluster.kubelet.log_query import LogQuery
from koord_minicluster.kubelet.states import Running
from koord_minicluster.local.live import pod_logs
from koord_minicluster.local.live.worker import Worker

FOLLOW_S: Final = 0.2
CHUNK: Final = 64 * 1024


class LocalKubelet:
    why_no_exec: Final = "pods of a local node are plain processes: use nsenter or a shell"

    def __init__(self, node: str, workers: Callable[[], dict[str, Worker]], pods: Callable[[], list[bytes]]) -> None:
        """`pods`: as the API has them, so that nothing of them is lost."""
        self._node, self._workers, self._pods = node, workers, pods

    def node_of(self, request: web.Request) -> str:
        return self._node

    def pods(self, request: web.Request) -> list[msgspec.Raw]:
        return [msgspec.Raw(manifest) for manifest in self._pods()]

    async def logs(self, request: web.Request, query: LogQuery) -> web.StreamResponse:
        names = request.match_info
        worker = self._workers().get(f"{names['namespace']}/{names['pod']}")
        if worker is None:
            raise web.HTTPNotFound(text=f"pod {names['pod']!r} is not on this node\n")
        own = worker.life.containers.get(names["container"])
        if own is None:
            raise web.HTTPNotFound(text=f"container {names['container']!r} is not in pod {names['pod']!r}\n")
        if not own.has_begun or (query.previous and not own.restarts):
            what = "has not run before" if query.previous else "is waiting to start"
            raise web.HTTPBadRequest(text=f"container {names['container']!r} in pod {names['pod']!r} {what}\n")
        file = worker.log_file(names["container"], own.restarts - query.previous)
        limit = query.limit_bytes
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        pieces, offset = await asyncio.to_thread(pod_logs.tail, file, query.tail_lines)
        for piece in pieces:
            await response.write(piece if limit is None else piece[:limit])
            limit = None if limit is None else max(limit - len(piece), 0)
        while query.follow and _is_running(worker, names["container"], own.id):
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
