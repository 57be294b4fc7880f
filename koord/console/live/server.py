"""The JSON API and the pages over HTTP: requests in, structs of `koord.console.shapes` out.

Answers are compressed where the caller takes that, and have an `ETag`, so that a page that comes back costs nothing.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import logging
import math
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec
from aiohttp import web

from koord import __version__
from koord.api.machinery.faults import BadInput
from koord.console import rights, shapes
from koord.console.courses import CLUSTER_KEPT_S, NODE_KEPT_S, Resource
from koord.console.live.guard import Guard, Refused, Session, protect
from koord.console.live.history import History
from koord.console.live.viewers import Viewer
from koord.console.live.world import World
from koord.console.node_map import map_of, silhouettes_of
from koord.console.overview import health_sentence
from koord.console.ring import Event
from koord.console.shapes import ACTS, Error, Me
from koord.kube.errors import ApiError, Forbidden, NotFound
from koord.operate.worth import ReportError

log = logging.getLogger(__name__)

STATIC: Final = Path(__file__).parent.parent / "static"
API: Final = "/api/v1"
COMPRESSED_FROM: Final = 1024
MOST_UNSENT: Final = 256
COMMENT_S: Final = 15.0
TOPICS: Final = ("overview", "map", "node", "pod", "act", "explanation")
MOST_TOPICS: Final = 20
MOST_STREAMS: Final = 200
LONGEST_BODY: Final = 1 << 16
MOST_POINTS: Final = 2000
MOST_BINS: Final = 2000
HISTORY_FROM_S: Final = 60.0
"""How much of a range the console must have missed before Prometheus is asked."""
TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
    ".webmanifest": "application/manifest+json",
    ".json": "application/json",
}


@dataclass(frozen=True, slots=True)
class Ask:
    """A request of a viewer that may see sums."""

    request: web.Request
    viewer: Viewer
    session: Session

    def text(self, name: str, otherwise: str = "") -> str:
        return self.request.query.get(name, otherwise)

    def number(self, name: str, otherwise: float, least: float, most: float) -> float:
        """A number of the query. Raises `Refused` outside its bounds."""
        text = self.request.query.get(name)
        if text is None:
            return otherwise
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not least <= value <= most:
            raise Refused(400, f"query {name}", f"is {text[:40]!r}; it must be a number from {least:g} to {most:g}")
        return value

    def choice(self, name: str, *values: str) -> str:
        text = self.request.query.get(name, values[0])
        if text not in values:
            raise Refused(400, f"query {name}", f"is {text[:40]!r}; it must be one of: {', '.join(values)}")
        return text

    def part(self, name: str) -> str:
        return self.request.match_info[name]


Handler = Callable[[Ask], Awaitable[Any]]
MayFollow = Callable[[Ask, str], Awaitable[str]]
"""Why a viewer may not read the events of an object, by its name; empty if it may."""


@dataclass(slots=True)
class Answer:
    """An answer with a status of its own."""

    body: Any
    status: int = 200


@dataclass(slots=True)
class Options:
    grafana_url: str = ""
    history: History | None = None
    secure: bool = False
    streams: int = field(default=0)


class Server:
    """One application. `handlers` come from other modules: path below the API, method, handler."""

    def __init__(self, world: World, guard: Guard, options: Options) -> None:
        self._world, self._guard, self._options = world, guard, options
        self._files = Files(STATIC)
        self.may_follow: dict[str, MayFollow] = {"pod": self._may_follow_pod}
        "By kind of topic, where not all viewers may."
        self._kept: dict[str, tuple[int, bytes]] = {}
        "Encoded answers by path and query, with their revision."
        self._routes: list[tuple[str, str, Handler]] = [
            ("GET", "/me", self._me),
            ("GET", "/overview", self._overview),
            ("GET", "/map", self._map),
            ("GET", "/series", self._series),
            ("GET", "/health", self._health),
        ]

    def add(self, method: str, path: str, handler: Handler) -> None:
        self._routes.append((method, path, handler))

    def app(self) -> web.Application:
        app = web.Application(middlewares=[self._guarded], client_max_size=LONGEST_BODY)
        for method, path, handler in self._routes:
            app.router.add_route(method, API + path, self._answering(handler))
        app.router.add_get(f"{API}/events", self._events)
        app.router.add_post("/login", self._login)
        app.router.add_post("/logout", self._logout)
        app.router.add_get("/livez", self._live)
        app.router.add_get("/readyz", self._ready)
        app.router.add_get("/{path:.*}", self._page)
        return app

    # Around every request.

    @web.middleware
    async def _guarded(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        try:
            if request.path not in ("/livez", "/readyz"):
                self._guard.check(request)
            response = await handler(request)
        except Refused as error:
            response = _refusal(error.status, error.error)
        except NotFound as error:
            response = _refusal(404, Error(object=request.path, cause=str(error), remedy=""))
        except Forbidden as error:
            response = _refusal(403, Error(object=request.path, cause=str(error), remedy="ask for this right"))
        except ApiError as error:
            remedy = "koord status says what is wrong"
            response = _refusal(502, Error(object="API server", cause=str(error), remedy=remedy))
        except BadInput as error:
            response = _refusal(400, Error(object=request.path, cause=str(error), remedy=""))
        except web.HTTPException as error:
            response = _refusal(error.status, Error(object=request.path, cause=error.reason, remedy=""))
        except (asyncio.CancelledError, ConnectionError):
            raise
        except Exception:  # the one place that keeps the server alive
            log.exception("a request failed", extra={"path": request.path})
            response = _refusal(500, Error(object=request.path, cause="the console failed", remedy="see its log"))
        if not response.prepared:
            protect(response, secure=self._options.secure)
        return response

    def _answering(self, handler: Handler) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def answer(request: web.Request) -> web.StreamResponse:
            ask = await self._ask(request)
            body = await handler(ask)
            status = 200
            if isinstance(body, Answer):
                body, status = body.body, body.status
            encoded = body if isinstance(body, bytes) else msgspec.json.encode(body)
            return _encoded(request, encoded, status)

        return answer

    async def _ask(self, request: web.Request) -> Ask:
        session = await self._guard.session(request)
        viewer = await self._guard.viewer(session)
        if not await viewer.may_see_sums():
            right = f"get on the path {rights.OVERVIEW_PATH}"
            raise Refused(403, "rights", f"{viewer.user} lacks: {right}", "ask for a role with this right")
        self._world.visited_s = time.monotonic()
        return Ask(request, viewer, session)

    # Pages.

    async def _live(self, request: web.Request) -> web.StreamResponse:
        return web.Response(text="ok\n")

    async def _ready(self, request: web.Request) -> web.StreamResponse:
        """Whether the informers have listed the cluster."""
        ready = self._world.is_ready
        return web.Response(text="ok\n" if ready else "the cluster is being listed\n", status=200 if ready else 503)

    async def _page(self, request: web.Request) -> web.StreamResponse:
        if request.path.startswith("/api/"):
            raise Refused(404, request.path, "there is nothing here", f"see {API}")
        token = request.query.get("token")
        if token is not None:
            response: web.StreamResponse = web.Response(status=303, headers={"Location": "/"})
            if (cookie := self._guard.by_link(token)) is not None:
                self._guard.set_cookie(response, cookie)
            return response
        return self._files.answer(request)

    async def _login(self, request: web.Request) -> web.StreamResponse:
        body = await _body(request, _Login)
        cookie = await self._guard.by_token(body.token.strip(), request.remote or "")
        response = web.Response(status=204)
        self._guard.set_cookie(response, cookie)
        return response

    async def _logout(self, request: web.Request) -> web.StreamResponse:
        await self._guard.session(request)
        self._guard.close(request)
        return web.Response(status=204)

    # The answers that need nothing but the world.

    async def _me(self, ask: Ask) -> Me:
        viewer, world = ask.viewer, self._world
        self._world.ask_for_health()
        missing = dict(
            zip(ACTS, await asyncio.gather(*(viewer.missing(rights.rights_of(act)) for act in ACTS)), strict=True)
        )
        allowed = await viewer.namespaces(world.namespaces())
        return Me(
            user=viewer.user,
            groups=viewer.groups,
            cluster=world.cluster,
            version=__version__,
            epoch=world.epoch,
            signed_in_by=viewer.signed_in_by,
            can={act: not lacking for act, lacking in missing.items()},
            missing={act: lacking for act, lacking in missing.items() if lacking},
            commands={act: rights.COMMANDS[act] for act in ACTS},
            namespaces="all" if allowed is None else tuple(sorted(allowed)),
            csrf=ask.session.csrf,
            started_at_s=world.started_at_s,
            has_prometheus=self._options.history is not None,
            grafana_url=self._options.grafana_url,
        )

    async def _overview(self, ask: Ask) -> shapes.Overview:
        may_list = await ask.viewer.may_list(self._world.namespaces())
        overview = self._world.overview(may_list=may_list)
        return msgspec.structs.replace(overview, hidden_pods=self._world.hidden_pods(may_list))

    async def _map(self, ask: Ask) -> bytes:
        world, by = self._world, ask.text("by", "pool")
        bins = int(ask.number("bins", 0, 0, MOST_BINS))
        if len(by) > 317:
            raise Refused(400, "query by", "is too long for a label")
        kept = self._kept.get(f"{by}/{bins}")
        if kept is not None and kept[0] == world.ring.rev:
            return kept[1]
        shape: shapes.Shape = (
            silhouettes_of(world.table, world.epoch, world.ring.rev, by, bins)
            if bins
            else map_of(world.table, world.epoch, world.ring.rev, by)
        )
        encoded = msgspec.json.encode(shape)
        if len(self._kept) > 16:
            self._kept.clear()
        self._kept[f"{by}/{bins}"] = world.ring.rev, encoded
        return encoded

    async def _series(self, ask: Ask) -> shapes.Series:
        world, now_s = self._world, time.time()
        scope = ask.text("scope", "cluster")
        points = int(ask.number("points", 300, 1, MOST_POINTS))
        # A small number is an age, a large one a time.
        from_s = ask.number("from_s", 3600, 1, 4e9)
        from_s = now_s - from_s if from_s < 1e9 else from_s
        to_s = ask.number("to_s", now_s, 1e9, 4e9)
        if scope == "cluster":
            resource: Resource = "memory" if ask.choice("resource", "cpu", "memory") == "memory" else "cpu"
            seen = world.courses.of_cluster(resource, from_s, to_s, points)
            capacity = world.table.sums()[f"{resource}_capacity"]
            return await self._with_history(seen, "", resource, capacity, from_s, to_s, points)
        kind, _, name = scope.partition("/")
        row = world.table.row_of.get(name)
        if kind != "node" or row is None:
            raise Refused(404, "query scope", f"is {scope[:80]!r}; it must be cluster or node/NAME")
        ask.choice("resource", "cpu")
        capacity = world.table.of_row(row)["cpu_capacity"]
        seen = world.courses.of_node(name, row, capacity, from_s, to_s, points)
        return await self._with_history(seen, name, "cpu", capacity, from_s, to_s, points)

    async def _with_history(
        self, seen: shapes.Series, node: str, resource: Resource, capacity: int, from_s: float, to_s: float, points: int
    ) -> shapes.Series:
        """From Prometheus, if the console itself saw only a part of the range."""
        history = self._options.history
        kept_s = CLUSTER_KEPT_S if not node else NODE_KEPT_S
        oldest_s = max(seen.since_at_s, time.time() - kept_s)
        if history is None or from_s > oldest_s - HISTORY_FROM_S:
            return seen
        try:
            return await history.series(node, resource, capacity, from_s, to_s, points)
        except ReportError as error:
            return msgspec.structs.replace(seen, note=f"{seen.note}; {error}")

    async def _health(self, ask: Ask) -> shapes.HealthAnswer:
        status = self._world.status or await self._world.look_at_health()
        level, sentence = health_sentence(status)
        body = {"healthy": status.healthy, **msgspec.to_builtins(status.facts)}
        body["checks"] = msgspec.to_builtins(status.findings)
        body["problems"] = msgspec.to_builtins(status.problems)
        body["notes"] = list(status.notes)
        return shapes.HealthAnswer(level=level, sentence=sentence, status=body, command="koord status")

    # Server-sent events.

    async def _events(self, request: web.Request) -> web.StreamResponse:
        ask = await self._ask(request)
        topics = await self._topics(ask)
        if self._options.streams >= MOST_STREAMS:
            raise Refused(503, "events", f"{MOST_STREAMS} pages are open already", "close some")
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"})
        protect(response, secure=self._options.secure)
        self._options.streams += 1
        queue: asyncio.Queue[Event | None] = asyncio.Queue(MOST_UNSENT)
        late: list[bool] = []

        def heard(event: Event) -> None:
            if event.topic not in topics or late:
                return
            try:
                queue.put_nowait(event)
            except asyncio.QueueFull:
                # A slow reader loads everything again: it does not get a long queue.
                late.append(True)

        end = self._world.listen(heard, topics)
        try:
            await response.prepare(request)
            # A page that follows other topics opens another stream, which says where the last one was.
            last_id = request.headers.get("Last-Event-ID") or request.query.get("from", "")
            await self._stream(response, queue, late, topics, last_id, ask)
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            end()
            self._options.streams -= 1
        return response

    async def _stream(
        self,
        response: web.StreamResponse,
        queue: asyncio.Queue[Event | None],
        late: list[bool],
        topics: frozenset[str],
        last_id: str,
        ask: Ask,
    ) -> None:
        ring = self._world.ring
        begun_rev = ring.rev
        missed = ring.resumed(last_id) if last_id else []
        if missed is None:
            await response.write(self._reset())
        for event in missed or ():
            if event.topic in topics:
                await response.write(ring.encoded(event))
        if not last_id:
            # The first id: what comes next resumes from here.
            await response.write(b"id: %s-%d\nevent: hello\ndata: {}\n\n" % (ring.epoch.encode(), begun_rev))
        reviewed_s = time.monotonic()
        while True:
            if time.monotonic() - reviewed_s > 60:
                # Rights may have been taken away.
                reviewed_s = time.monotonic()
                viewer = await self._guard.viewer(ask.session)
                if not await viewer.may_see_sums():
                    return
            try:
                next_event = await asyncio.wait_for(queue.get(), COMMENT_S)
            except TimeoutError:
                await response.write(b": here\n\n")
                continue
            if late:
                while not queue.empty():
                    queue.get_nowait()
                late.clear()
                await response.write(self._reset())
                continue
            if next_event is not None and (not last_id or next_event.rev > begun_rev):
                await response.write(ring.encoded(next_event))

    def _reset(self) -> bytes:
        ring = self._world.ring
        shape = msgspec.json.encode(shapes.Reset(epoch=ring.epoch, rev=ring.rev))
        return b"id: %s-%d\nevent: reset\ndata: %s\n\n" % (ring.epoch.encode(), ring.rev, shape)

    async def _topics(self, ask: Ask) -> frozenset[str]:
        topics = frozenset(filter(None, ask.text("topics", "overview").split(",")))
        if len(topics) > MOST_TOPICS:
            raise Refused(400, "query topics", f"at most {MOST_TOPICS} topics")
        for topic in topics:
            kind, _, name = topic.partition("/")
            if kind not in TOPICS:
                raise Refused(400, "query topics", f"there is no topic {topic[:60]!r}")
            if kind in self.may_follow and (why := await self.may_follow[kind](ask, name)):
                raise Refused(403, topic[:300], why)
        return topics

    async def _may_follow_pod(self, ask: Ask, name: str) -> str:
        namespace = name.partition("/")[0]
        may_list = await ask.viewer.may_list(self._world.namespaces())
        return "" if may_list(namespace) else f"{ask.viewer.user} lacks: list pods in {namespace}"


class Files:
    """The built pages, read once. Every other path is the page: the browser knows which one to show."""

    def __init__(self, folder: Path) -> None:
        self._files: dict[str, tuple[bytes, bytes, str]] = {}
        for file in sorted(folder.rglob("*")) if folder.is_dir() else ():
            if file.is_file() and file.suffix in TYPES:
                body = file.read_bytes()
                self._files["/" + file.relative_to(folder).as_posix()] = (
                    body,
                    gzip.compress(body, 6),
                    TYPES[file.suffix],
                )

    def answer(self, request: web.Request) -> web.Response:
        path = request.path
        if path not in self._files:
            if "." in path.rpartition("/")[2] and path.startswith("/assets/"):
                raise Refused(404, path, "the file does not exist", "load the page again")
            path = "/index.html"
        if path not in self._files:
            raise Refused(404, path, "the console's pages are not built", "build them with: make console")
        body, packed, type_ = self._files[path]
        headers = {"Content-Type": type_}
        if path.startswith("/assets/"):
            # Names of assets have a hash of their content.
            headers["Cache-Control"] = "public, max-age=31536000, immutable"
        return _sent(request, body, packed, headers, 200)


class _Login(msgspec.Struct, forbid_unknown_fields=True):
    token: str


async def _body(request: web.Request, type_: type[Any]) -> Any:
    return decoded(await request.read(), type_)


def decoded(body: bytes, type_: type[Any]) -> Any:
    """The body of a request. Raises `Refused` with the field that is wrong."""
    try:
        return msgspec.json.decode(body, type=type_)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refused(400, "body", str(error)[:300]) from None


def _encoded(request: web.Request, body: bytes, status: int) -> web.Response:
    packed = None
    if len(body) >= COMPRESSED_FROM and request.path != f"{API}/me":
        packed = gzip.compress(body, 1)
    return _sent(request, body, packed, {"Content-Type": "application/json"}, status)


def _sent(
    request: web.Request, body: bytes, packed: bytes | None, headers: Mapping[str, str], status: int
) -> web.Response:
    tag = f'W/"{hashlib.blake2b(body, digest_size=12).hexdigest()}"'
    more = {**headers, "ETag": tag, "Vary": "Accept-Encoding, Cookie, Authorization"}
    if status == 200 and request.headers.get("If-None-Match") == tag:
        return web.Response(status=304, headers={"ETag": tag})
    if packed is not None and "gzip" in request.headers.get("Accept-Encoding", ""):
        return web.Response(body=packed, headers={**more, "Content-Encoding": "gzip"}, status=status)
    return web.Response(body=body, headers=more, status=status)


def _refusal(status: int, error: Error) -> web.Response:
    return web.Response(body=msgspec.json.encode(error), status=status, headers={"Content-Type": "application/json"})
