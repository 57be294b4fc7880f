"""The kubelet port that all modelled nodes share: it serves their pods, and simulated logs.

`/pods?node=NAME` returns the pods of one node, for callers with access to that node; without `node` it returns the pods
of all nodes. Requests that need a process (exec, attach, port-forward) get status 501, with the reason.
"""

from __future__ import annotations

import msgspec
from aiohttp import web

from koord.api.kinds import PODS
from koord.api.kubernetes.pod import ContainerStatus, Pod
from koord.api.text.timestamp import parse_timestamp
from koord.kube.clock import Clock
from koord.kube.informer import Informer
from koord_minicluster.hollow.live.pods import NODE_INDEX
from koord_minicluster.hollow.log_lines import PERIOD_S, LogSource
from koord_minicluster.kubelet.log_query import LogQuery
from koord_minicluster.kubelet.streams import CommandOptions


class HollowKubelet:
    def __init__(self, pods: Informer[Pod], *, seed: int, clock: Clock) -> None:
        self._pods, self._seed, self._clock = pods, seed, clock

    def node_of(self, request: web.Request) -> str:
        return request.query.get("node", "") if request.path.rstrip("/") == "/pods" else ""

    def pods(self, request: web.Request) -> list[msgspec.Raw]:
        node = self.node_of(request)
        pods = self._pods.by_index(NODE_INDEX, node) if node else [p for p in self._pods.list() if p.spec.node_name]
        return [msgspec.Raw(msgspec.json.encode(PODS.manifest(pod))) for pod in pods]

    async def exec(self, request: web.Request, options: CommandOptions) -> web.StreamResponse:
        raise self._not_modelled(request, "it has no processes to run a command beside")

    async def attach(self, request: web.Request, options: CommandOptions) -> web.StreamResponse:
        raise self._not_modelled(request, "it has no process to attach to; kubectl logs shows a simulated log")

    async def forward_ports(self, request: web.Request) -> web.StreamResponse:
        raise self._not_modelled(request, "it has no process that listens on a port")

    def _not_modelled(self, request: web.Request, why: str) -> web.HTTPException:
        names = request.match_info
        pod = self._pods.get(f"{names['namespace']}/{names['pod']}")
        if pod is None:
            return web.HTTPNotFound(text=f"pod {names['pod']!r} not found\n")
        modelled = f"pod {names['pod']} is only modelled, by hollow node {pod.spec.node_name}: {why}"
        return web.HTTPNotImplemented(text=f"{modelled}. Pods run for real with koord up --local-node\n")

    async def logs(self, request: web.Request, query: LogQuery) -> web.StreamResponse:
        names = request.match_info
        key, container = f"{names['namespace']}/{names['pod']}", names["container"]
        pod = self._pods.get(key)
        if pod is None:
            raise web.HTTPNotFound(text=f"pod {names['pod']!r} not found\n")
        source = self._source(pod, container, previous=query.previous)
        now_s = self._clock.now()
        lines = source.lines(now_s, tail=query.tail_lines, since_s=query.since_s, timestamps=query.timestamps)
        text = "".join(lines).encode()[: query.limit_bytes]
        if not query.follow:
            return web.Response(body=text, content_type="text/plain")
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        await response.write(text)
        await self._follow(response, key, source, source.count(now_s), query.timestamps)
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
