"""What this node answers on its kubelet port: its pods as the API has them, and what their containers wrote."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import msgspec
from aiohttp import web

from koord_minicluster.kubelet.live.streaming import serve_command, serve_forward
from koord_minicluster.kubelet.log_query import LogQuery
from koord_minicluster.kubelet.states import Running
from koord_minicluster.kubelet.streams import CommandOptions
from koord_minicluster.local.live import pod_logs
from koord_minicluster.local.live.attaching import attach
from koord_minicluster.local.live.commands import Inside, run_command
from koord_minicluster.local.live.forwarding import forward
from koord_minicluster.local.live.worker import Worker

FOLLOW_S: Final = 0.2
UNTIMED: Final = "a local node does not keep when lines were written: all of them are shown, without times"


class LocalKubelet:
    def __init__(self, node: str, workers: Callable[[], dict[str, Worker]], pods: Callable[[], list[bytes]]) -> None:
        """`pods`: as the API has them, so that nothing of them is lost."""
        self._node, self._workers, self._pods = node, workers, pods

    def node_of(self, request: web.Request) -> str:
        return self._node

    def pods(self, request: web.Request) -> list[msgspec.Raw]:
        return [msgspec.Raw(manifest) for manifest in self._pods()]

    async def logs(self, request: web.Request, query: LogQuery) -> web.StreamResponse:
        names, worker = request.match_info, self._worker(request)
        own = worker.life.containers.get(names["container"])
        if own is None:
            raise web.HTTPNotFound(text=f"container {names['container']!r} is not in pod {names['pod']!r}\n")
        if not own.has_begun or (query.previous and not own.restarts):
            what = "has not run before" if query.previous else "is waiting to start"
            raise web.HTTPBadRequest(text=f"container {names['container']!r} in pod {names['pod']!r} {what}\n")
        file = worker.log_file(names["container"], own.restarts - query.previous)
        limit = query.limit_bytes
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        if query.timestamps or query.since_s is not None:
            response.headers["Warning"] = f'299 - "{UNTIMED}"'
        await response.prepare(request)
        pieces, offset = await asyncio.to_thread(pod_logs.tail, file, query.tail_lines)
        for piece in pieces:
            await response.write(piece if limit is None else piece[:limit])
            limit = None if limit is None else max(limit - len(piece), 0)
        while query.follow and _is_running(worker, names["container"], own.id):
            await asyncio.sleep(FOLLOW_S)
            offset = await pod_logs.follow(file, offset, response.write)
        return response

    async def exec(self, request: web.Request, options: CommandOptions) -> web.StreamResponse:
        argv, inside = request.query.getall("command", []), self._inside(request)
        if not argv:
            raise web.HTTPBadRequest(text="command: at least one word is needed\n")
        return await serve_command(request, options, lambda streams: run_command(inside, argv, streams))

    async def attach(self, request: web.Request, options: CommandOptions) -> web.StreamResponse:
        worker, name = self._worker(request), request.match_info["container"]
        console = worker.console(name)
        if console is None:
            raise _does_not_run(name)
        own = worker.life.containers[name]
        if options.tty and not console.is_terminal:
            raise web.HTTPBadRequest(text=f"container {name!r} has no terminal: its spec does not have tty: true\n")
        if options.stdin and console.own is None:
            raise web.HTTPBadRequest(text=f"container {name!r} takes no input: its spec does not have stdin: true\n")
        file = worker.log_file(name, own.restarts)
        return await serve_command(
            request, options, lambda streams: attach(console, file, lambda: _is_running(worker, name, own.id), streams)
        )

    async def forward_ports(self, request: web.Request) -> web.StreamResponse:
        worker = self._worker(request)
        return await serve_forward(request, lambda port, channel: forward(worker.pids(), port, channel))

    def _worker(self, request: web.Request) -> Worker:
        names = request.match_info
        worker = self._workers().get(f"{names['namespace']}/{names['pod']}")
        if worker is None:
            raise web.HTTPNotFound(text=f"pod {names['pod']!r} is not on this node\n")
        return worker

    def _inside(self, request: web.Request) -> Inside:
        name = request.match_info["container"]
        inside = self._worker(request).inside(name)
        if inside is None:
            raise _does_not_run(name)
        return inside


def _is_running(worker: Worker, container: str, container_id: str) -> bool:
    own = worker.life.containers[container]
    return isinstance(own.state, Running) and own.id == container_id


def _does_not_run(container: str) -> web.HTTPException:
    return web.HTTPNotFound(text=f"container {container!r} does not run\n")
