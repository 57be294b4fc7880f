"""The port of a kubelet: over TLS, on loopback, for callers whom the API server knows and allows.

    /healthz                                     open: ok
    /pods                                        nodes/pods, or nodes/proxy
    /configz                                     nodes/configz, or nodes/proxy
    /containerLogs/NAMESPACE/POD/CONTAINER       nodes/proxy
    /exec/NAMESPACE/POD/CONTAINER, /attach/...   nodes/proxy, create; a WebSocket or SPDY
    /portForward/NAMESPACE/POD                   nodes/proxy, create; a WebSocket or SPDY

A caller shows a bearer token or a client certificate, as with Kubernetes' own kubelet: the API server comes with its
certificate, an agent or a scraper with a token. `ROUTES` is the one list of what is served and which right it takes;
what is not in it takes nodes/proxy.
"""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Protocol, Self

import msgspec
from aiohttp import web

from koord.kube.authorize import Authorizer, Right
from koord.kube.callers import refusal, trust_clients
from koord.kube.client import Client
from koord.kube.clock import Clock
from koord.kube.listening import serving
from koord_minicluster.kubelet.log_query import LogQuery, log_query
from koord_minicluster.kubelet.node_status import HOST_IP
from koord_minicluster.kubelet.streams import BadStreamRequest, CommandOptions, command_options

OPEN: Final[tuple[str, ...]] = ()
PROXY: Final = ("proxy",)
STOP_WITHIN_S: Final = 0.5
VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}

Handler = Callable[["KubeletServer", web.Request], Awaitable[web.StreamResponse]]


class Kubelet(Protocol):
    """The node, or the nodes, behind the port."""

    def node_of(self, request: web.Request) -> str:
        """The node that the request is about; empty if it is not about one node."""
        ...

    def pods(self, request: web.Request) -> list[msgspec.Raw]:
        """The pods as API objects."""
        ...

    async def logs(self, request: web.Request, query: LogQuery) -> web.StreamResponse: ...

    async def exec(self, request: web.Request, options: CommandOptions) -> web.StreamResponse: ...

    async def attach(self, request: web.Request, options: CommandOptions) -> web.StreamResponse: ...

    async def forward_ports(self, request: web.Request) -> web.StreamResponse: ...


class KubeletServer:
    """Serves while entered; `port` is then the one in use."""

    def __init__(self, kubelet: Kubelet, client: Client, context: ssl.SSLContext, clock: Clock, port: int = 0) -> None:
        self.kubelet, self.clock = kubelet, clock
        self._client, self._context = client, context
        self._authorizer = Authorizer(client, clock=clock)
        self._open = AsyncExitStack()
        self.port = port

    def app(self) -> web.Application:
        app = web.Application(middlewares=[self._guard])
        for route in ROUTES:
            app.router.add_route(route.method, route.path, _bound(route.handler, self))
        return app

    async def __aenter__(self) -> Self:
        await trust_clients(self._client, self._context)
        port = serving(self.app(), HOST_IP, self.port, self._context, stop_within_s=STOP_WITHIN_S)
        try:
            self.port = await self._open.enter_async_context(port)
        except OSError as error:
            raise OSError(error.errno, f"cannot serve kubelets on {HOST_IP}:{self.port}: {error.strerror}") from error
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._open.aclose()

    @web.middleware
    async def _guard(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        resource = request.match_info.route.resource
        route = _BY_PATH.get(resource.canonical if resource is not None else "")
        taken = route.rights if route is not None else PROXY
        if taken:
            verb = route.verb if route is not None and route.verb else VERBS.get(request.method, "get")
            node = self.kubelet.node_of(request)
            rights = [Right(verb, subresource=resource, node=node) for resource in taken]
            refused = await refusal(self._authorizer, request, *rights)
            if refused is not None:
                return refused
        try:
            return await handler(request)
        except BadStreamRequest as error:
            raise web.HTTPBadRequest(text=f"{error}\n") from None


async def _healthy(_server: KubeletServer, _request: web.Request) -> web.StreamResponse:
    return web.Response(text="ok")


async def _pods(server: KubeletServer, request: web.Request) -> web.StreamResponse:
    body = {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": server.kubelet.pods(request)}
    return web.Response(body=msgspec.json.encode(body), content_type="application/json")


async def _config(_server: KubeletServer, _request: web.Request) -> web.StreamResponse:
    config = {"cpuManagerPolicy": "none", "cgroupDriver": "cgroupfs", "reservedSystemCPUs": ""}
    return web.json_response({"kubeletconfig": config})


async def _logs(server: KubeletServer, request: web.Request) -> web.StreamResponse:
    try:
        query = log_query(request.query, server.clock.now())
    except ValueError as error:
        raise web.HTTPBadRequest(text=f"{error}\n") from None
    return await server.kubelet.logs(request, query)


async def _exec(server: KubeletServer, request: web.Request) -> web.StreamResponse:
    return await server.kubelet.exec(request, command_options(request.query))


async def _attach(server: KubeletServer, request: web.Request) -> web.StreamResponse:
    return await server.kubelet.attach(request, command_options(request.query))


async def _forward(server: KubeletServer, request: web.Request) -> web.StreamResponse:
    return await server.kubelet.forward_ports(request)


@dataclass(frozen=True, slots=True)
class Route:
    method: str
    path: str
    rights: tuple[str, ...]
    "Subresources of nodes: the caller needs access to one of them. If empty, the route is open to all."
    handler: Handler
    verb: str = ""
    "The caller's right to it; if empty, the one that the method stands for."


CONTAINER: Final = "{namespace}/{pod}/{container}"
ROUTES: Final = (
    Route("GET", "/healthz", OPEN, _healthy),
    Route("GET", "/pods", ("pods", "proxy"), _pods),
    Route("GET", "/pods/", ("pods", "proxy"), _pods),
    Route("GET", "/configz", ("configz", "proxy"), _config),
    Route("GET", f"/containerLogs/{CONTAINER}", PROXY, _logs),
    # A WebSocket begins with GET, and does as much as with POST.
    *(Route(method, f"/exec/{CONTAINER}", PROXY, _exec, "create") for method in ("GET", "POST")),
    *(Route(method, f"/attach/{CONTAINER}", PROXY, _attach, "create") for method in ("GET", "POST")),
    *(Route(method, "/portForward/{namespace}/{pod}", PROXY, _forward, "create") for method in ("GET", "POST")),
)
_BY_PATH: Final = {route.path: route for route in ROUTES}


def _bound(handler: Handler, server: KubeletServer) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def handle(request: web.Request) -> web.StreamResponse:
        return await handler(server, request)

    return handle
