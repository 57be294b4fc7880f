"""Health endpoints: is this process alive, is it ready, and what are its figures?

    /livez /readyz /healthz      200 `ok` or 500; `?verbose` lists the checks, `?exclude=NAME` leaves one out
    /readyz/NAME                 one check
    /metrics                     for Prometheus

The format is Kubernetes'. The health paths are open, since probes have no token; all else is for callers whom the API
server knows and allows, on loopback too: others who use the machine are no administrators. On any other address TLS is
required, and strangers are not told why a check fails.

Kubernetes lets everyone whom it knows read what is below /api and /apis, for discovery: a role for all says so, and it
does not mean ours. So of further paths that are not below /debug, the right is asked for there: /debug/apis/v1/...
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

from aiohttp import web

from koord.api.text.whole_number import natural_number
from koord.kube.authorize import Authorizer, Right
from koord.kube.background_task import background_task
from koord.kube.callers import HEADERS, refusal, text
from koord.kube.listening import serving
from koord.kube.metrics import CONTENT_TYPE, Metrics
from koord.kube.serving_tls import ServingTls

log = logging.getLogger(__name__)

Check = Callable[[], str | None]
"""Says what is wrong, or None."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

DEBUG: Final = "/debug/"
STOP_WITHIN_S: Final = 1.0
LAST_PORT: Final = 65535


def ping() -> str | None:
    """The process answers: that is all."""
    return None


@dataclass(frozen=True, slots=True)
class Address:
    host: str
    port: int

    @property
    def loopback(self) -> bool:
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str) -> Address:
    """`host:port`, `:port` for all interfaces, `[::1]:port`."""
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        colon = ""
    number = natural_number(port, LAST_PORT)
    if not colon or number is None:
        raise ValueError(f"bind address {text!r}: must be host:port, for example 127.0.0.1:8080 or [::1]:8080")
    return Address(host or "0.0.0.0", number)


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What the checks of one path said."""

    healthy: bool
    lines: tuple[str, ...]


def examine(checks: Mapping[str, Check], excluded: Iterable[str] = (), *, reasons: bool) -> CheckReport:
    """Runs all checks. The reasons of failures are included only with `reasons`: callers may be unauthenticated."""
    left_out = set(excluded)
    lines, healthy = [], True
    for name, check in checks.items():
        if name in left_out:
            lines.append(f"[+]{name} excluded: ok")
            continue
        fault = run_check(name, check)
        if fault is None:
            lines.append(f"[+]{name} ok")
        else:
            healthy = False
            lines.append(f"[-]{name} failed: {fault if reasons else 'reason withheld'}")
    unknown = sorted(left_out - set(checks))
    if unknown:
        quoted = ", ".join(f'"{name}"' for name in unknown)
        lines.append(f"warn: some health checks cannot be excluded: no matches for {quoted}")
    return CheckReport(healthy, tuple(lines))


def run_check(name: str, check: Check) -> str | None:
    """What a check finds; one that breaks has found something too."""
    try:
        return check()
    except Exception as error:  # a broken check must not take the endpoint down with it
        log.exception("health check failed to run", extra={"check": name})
        return f"{type(error).__name__}: {error}"


class HealthServer:
    """Serves the endpoints while entered. `add_live` and `add_ready` may be called at any time."""

    def __init__(
        self,
        address: str,
        *,
        metrics: Metrics | None = None,
        tls: ServingTls | None = None,
        authorizer: Authorizer | None = None,
    ) -> None:
        self.address = parse_address(address)
        if not self.address.loopback and tls is None:
            raise ValueError(f"serving health on {self.address} needs TLS; without it, bind to 127.0.0.1")
        if metrics is not None and authorizer is None:
            raise ValueError(f"serving metrics on {self.address} needs an authorizer")
        self._metrics, self._tls, self._authorizer = metrics, tls, authorizer
        self._live: dict[str, Check] = {"ping": ping}
        self._ready: dict[str, Check] = {"ping": ping}
        self._others: Handler | None = None
        self._metrics_paths = ["/metrics"]
        self._open: AsyncExitStack | None = None
        self.port = self.address.port
        "The port in use; where 0 was asked for, the one that was found."

    def add_live(self, name: str, check: Check) -> None:
        """`check` failing means: restart this process."""
        self._live[name] = check

    def add_ready(self, name: str, check: Check) -> None:
        """`check` failing means: do not rely on this process yet."""
        self._ready[name] = check

    def add_metrics_paths(self, *paths: str) -> None:
        """The metrics are served there too: other collectors ask at other paths. To be called before it serves."""
        self._metrics_paths += paths

    def add_paths(self, handler: Handler) -> None:
        """All other paths go to `handler`, for callers that the API server allows; without an authorizer, they
        are refused."""
        self._others = handler

    def app(self) -> web.Application:
        app = web.Application()
        for path, checks in (("livez", self._live), ("readyz", self._ready), ("healthz", self._live)):
            app.router.add_get(f"/{path}", self._all(path, checks))
            app.router.add_get(f"/{path}/{{check}}", self._one(checks))
        if self._metrics is not None:
            for path in self._metrics_paths:
                app.router.add_get(path, self._serve_metrics)
        app.router.add_route("*", "/{path:.*}", self._serve_others)
        return app

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as opening:
            context = self._tls.context if self._tls else None
            port = serving(self.app(), self.address.host, self.address.port, context, stop_within_s=STOP_WITHIN_S)
            try:
                self.port = await opening.enter_async_context(port)
            except OSError as error:
                why = f"cannot serve health on {self.address}: {error.strerror or error}"
                raise OSError(error.errno, why) from error
            if self._tls is not None:
                await opening.enter_async_context(background_task(self._tls.follow(), name="serving-certificate"))
            self._open = opening.pop_all()
        log.info("serving health and metrics", extra={"address": f"{Address(self.address.host, self.port)}"})
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._open is not None
        await self._open.__aexit__(kind, error, trace)

    def _all(self, path: str, checks: Mapping[str, Check]) -> Handler:
        async def handle(request: web.Request) -> web.Response:
            excluded = request.query.getall("exclude", [])
            report = examine(checks, excluded, reasons=self.address.loopback)
            if not report.healthy:
                log.warning("%s check failed", path, extra={"failed": _failed(report)})
                return text("\n".join([*report.lines, f"{path} check failed\n"]), 500)
            if "verbose" not in request.query:
                return text("ok")
            return text("\n".join([*report.lines, f"{path} check passed\n"]))

        return handle

    def _one(self, checks: Mapping[str, Check]) -> Handler:
        async def handle(request: web.Request) -> web.Response:
            name = request.match_info["check"]
            check = checks.get(name)
            if check is None:
                return text(f"no health check is named {name!r}; there are: {', '.join(checks)}\n", 404)
            fault = run_check(name, check)
            if fault is None:
                return text("ok")
            return text(f"internal server error: {fault if self.address.loopback else 'reason withheld'}\n", 500)

        return handle

    async def _serve_metrics(self, request: web.Request) -> web.Response:
        assert self._metrics is not None
        assert self._authorizer is not None
        refused = await refusal(self._authorizer, request, _right(request, request.path))
        if refused is not None:
            return refused
        body = await asyncio.to_thread(self._metrics.render)
        return web.Response(body=body, headers={**HEADERS, "Content-Type": CONTENT_TYPE})

    async def _serve_others(self, request: web.Request) -> web.StreamResponse:
        if self._others is None or self._authorizer is None:
            raise web.HTTPNotFound
        path = request.path if request.path.startswith(DEBUG) else f"{DEBUG}{request.path[1:]}"
        refused = await refusal(self._authorizer, request, _right(request, path))
        return refused if refused is not None else await self._others(request)


def _right(request: web.Request, path: str) -> Right:
    return Right(request.method.lower(), path=path)


def _failed(report: CheckReport) -> str:
    return ",".join(line[3:].partition(" ")[0] for line in report.lines if line.startswith("[-]"))
