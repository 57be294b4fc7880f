"""The kubelet endpoint of all modelled nodes: one port, on loopback, over TLS.

    /healthz                                     ok
    /pods?node=NAME                              the pods of one node, or of all
    /containerLogs/NAMESPACE/POD/CONTAINER       follow, tailLines, sinceSeconds, sinceTime, timestamps, limitBytes,
                                                 previous

What needs a process (exec, attach, port-forward) is answered 501: none runs.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from types import TracebackType
from typing import Self

import msgspec
from aiohttp import web

from koord.api.kinds import PODS
from koord.api.kubernetes.pod import ContainerStatus, Pod
from koord.api.text.timestamp import TimestampError, parse_timestamp
from koord.kube.clock import Clock
from koord.kube.informer import Informer
from koord.minicluster.hollow.live.pods import NODE_INDEX
from koord.minicluster.hollow.log_lines import PERIOD_S, LogSource
from koord.minicluster.hollow.machine import HOST_IP


class Kubelet:
    """Serves while entered; `port` is then the one in use."""

    def __init__(self, pods: Informer[Pod], *, port: int, context: ssl.SSLContext, seed: int, clock: Clock) -> None:
        self._pods, self._context, self._seed, self._clock = pods, context, seed, clock
        self.port = port
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_get("/healthz", _healthy)
        app.router.add_get("/pods", self._list)
        app.router.add_get("/containerLogs/{namespace}/{pod}/{container}", self._logs)
        for verb in ("exec", "attach", "portForward", "run"):
            app.router.add_route("*", f"/{verb}/{{rest:.*}}", _nothing_runs)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5)
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, HOST_IP, self.port, ssl_context=self._context).start()
        except OSError as error:
            await self._runner.cleanup()
            raise OSError(error.errno, f"cannot serve kubelets on {HOST_IP}:{self.port}: {error.strerror}") from error
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _list(self, request: web.Request) -> web.Response:
        node = request.query.get("node")
        found = self._pods.by_index(NODE_INDEX, node) if node else [p for p in self._pods.list() if p.spec.node_name]
        body = {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": [PODS.manifest(pod) for pod in found]}
        return web.Response(body=msgspec.json.encode(body), content_type="application/json")

    async def _logs(self, request: web.Request) -> web.StreamResponse:
        names = request.match_info
        key, container = f"{names['namespace']}/{names['pod']}", names["container"]
        pod = self._pods.get(key)
        if pod is None:
            raise web.HTTPNotFound(text=f"pod {names['pod']!r} not found\n")
        source = self._source(pod, container, previous=request.query.get("previous") == "true")
        query = request.query
        tail, since, limit = (_number(query, name) for name in ("tailLines", "sinceSeconds", "limitBytes"))
        now_s = self._clock.now()
        timestamps = query.get("timestamps") == "true"
        since_s = _since_s(query) if since is None else now_s - since
        text = "".join(source.lines(now_s, tail=tail, since_s=since_s, timestamps=timestamps)).encode()
        if query.get("follow") != "true":
            return web.Response(body=text[:limit], content_type="text/plain")
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        await response.write(text[:limit])
        await self._follow(response, key, source, source.count(now_s), timestamps)
        return response

    async def _follow(
        self, response: web.StreamResponse, key: str, source: LogSource, number: int, timestamps: bool
    ) -> None:
        """Further lines as they come, until the container ends."""
        while True:
            await self._clock.sleep(max(0.0, source.time_s(number) - self._clock.now()) or PERIOD_S / 10)
            pod = self._pods.get(key)
            status = _status(pod, source.container) if pod is not None and pod.metadata.uid == source.uid else None
            if status is None or status.state.running is None:
                return
            while number < source.count(self._clock.now()):
                await response.write(source.line(number, timestamps=timestamps).encode())
                number += 1

    def _source(self, pod: Pod, container: str, *, previous: bool) -> LogSource:
        status = _status(pod, container)
        name = pod.metadata.name
        if status is None:
            raise web.HTTPNotFound(text=f"container {container!r} in pod {name!r} is not available\n")
        state = status.state
        uid = pod.metadata.uid
        if previous:
            if not status.restart_count:
                raise web.HTTPBadRequest(
                    text=f'previous terminated container "{container}" in pod "{name}" not found\n'
                )
            return LogSource(f"{uid}/previous", container, started_s=0.0, until_s=10 * PERIOD_S, seed=self._seed)
        if state.running is not None and state.running.started_at:
            return LogSource(uid, container, parse_timestamp(state.running.started_at), seed=self._seed)
        ended = state.terminated
        if ended is not None and ended.started_at and ended.finished_at:
            until_s = parse_timestamp(ended.finished_at)
            return LogSource(uid, container, parse_timestamp(ended.started_at), until_s, self._seed)
        reason = state.waiting.reason if state.waiting else "ContainerCreating"
        raise web.HTTPBadRequest(text=f'container "{container}" in pod "{name}" is waiting to start: {reason}\n')


def _status(pod: Pod, container: str) -> ContainerStatus | None:
    statuses = (*pod.status.container_statuses, *pod.status.init_container_statuses)
    return next((status for status in statuses if status.name == container), None)


def _number(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit()):
        raise web.HTTPBadRequest(text=f"{name} is {text!r}; it must be a whole number\n")
    return int(text)


def _since_s(query: Mapping[str, str]) -> float | None:
    text = query.get("sinceTime")
    if text is None:
        return None
    try:
        return parse_timestamp(text)
    except TimestampError as error:
        raise web.HTTPBadRequest(text=f"sinceTime: {error}\n") from None


async def _healthy(request: web.Request) -> web.Response:
    return web.Response(text="ok")


async def _nothing_runs(request: web.Request) -> web.Response:
    return web.Response(status=501, text="a hollow node runs no processes\n")
