"""HTTP: from a request to the part of the server that answers it, and back.

One handler for every path: the API is dynamic (kinds come and go), so there is no routing table. It authenticates,
authorises, reads the body, calls the verb, and writes the answer in the form that was asked for. A `StatusError` from
anywhere below is the answer; anything else that escapes is a defect, logged and answered with 500.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import accumulate
from typing import Any
from urllib.parse import unquote

import msgspec

from koord.kube.listening import BODY_WITHIN_S
from koord_minicluster.apiserver.access.authn import Authenticator, UserInfo
from koord_minicluster.apiserver.access.impersonation import impersonated
from koord_minicluster.apiserver.access.rbac import Access, Authorizer, refused
from koord_minicluster.apiserver.in_flight import InFlight
from koord_minicluster.apiserver.list_options import query_flag
from koord_minicluster.apiserver.negotiation import Form, NotAcceptable, as_yaml, negotiate, not_acceptable
from koord_minicluster.apiserver.registry import Registry
from koord_minicluster.apiserver.request_info import RequestInfo, request_info
from koord_minicluster.apiserver.resource import Resource
from koord_minicluster.apiserver.routing import NoPage, Unrouted, no_such_path, not_allowed, not_served
from koord_minicluster.apiserver.status import StatusError, bad_request
from koord_minicluster.apiserver.telemetry import Telemetry
from koord_minicluster.apiserver.wire.answers import JSON, TEXT, Answer, Response
from koord_minicluster.apiserver.wire.connection import HttpRequest, TooLarge
from koord_minicluster.apiserver.wire.head import BadHead

log = logging.getLogger(__name__)

BODY_LIMIT = 3 << 20
PLAIN_404 = b"404 page not found\n"
_NO_ESCAPE = re.compile("%(?![0-9a-fA-F]{2})")
MOST_WARNED, LONGEST_WARNING = 4096, 256
"Characters of all warnings of an answer; and of each, where they are more."
_CONTROL = re.compile("[\x00-\x1f]")
_ONLY_READ = frozenset({"/version", "/api"})
_SAME_WITH_SLASH = frozenset(
    {"/api/", "/apis/", "/version/", "/healthz/", "/livez/", "/readyz/", "/openapi/v2/", "/openapi/v3/"}
)
"Roles name these paths in both forms. Any other path is served only in the form that was authorised."
_BY_HAND = ("curl", "Wget", "Mozilla/5.0")
"Clients that people use by hand: they get indented JSON by default."


class MalformedPath(Exception):
    """A path that cannot be decoded."""


class Request(msgspec.Struct, frozen=True):
    """A request as the verbs see it: the user, the requested object, and the form of the response."""

    http: HttpRequest
    info: RequestInfo
    user: UserInfo
    query: Mapping[str, str]
    form: Form
    warnings: list[str] = msgspec.field(default_factory=list)
    "Sent with the answer, whatever it is."

    async def body(self) -> bytes:
        try:
            # The rule for small bodies, which come with their head.
            arrived = self.http.arrived(BODY_LIMIT)
            if arrived is not None:
                return arrived
            async with asyncio.timeout(BODY_WITHIN_S):
                return await self.http.body(BODY_LIMIT)
        except TooLarge:
            raise too_large() from None
        except BadHead as error:
            raise bad_request(str(error)) from None
        except TimeoutError:
            self.http.close_after()
            text = f"the body of the request did not arrive within {BODY_WITHIN_S:g} seconds"
            raise StatusError(408, "Timeout", text) from None

    @property
    def content_type(self) -> str:
        return str(self.http.headers.get("Content-Type", "application/json"))


PathHandler = Callable[[Request], Awaitable[Answer]]
ResourceHandler = Callable[[Request, Resource], Awaitable[Answer]]


class HttpApi:
    """The one request handler. `paths` are exact or, with a trailing slash, prefixes; `otherwise` is asked last."""

    def __init__(
        self,
        registry: Registry,
        authenticator: Authenticator,
        authorizer: Authorizer,
        resources: ResourceHandler,
        paths: Mapping[str, PathHandler],
        otherwise: Callable[[Request], Awaitable[Answer | None]],
        telemetry: Telemetry,
        in_flight: InFlight,
    ) -> None:
        self._registry, self._authenticator, self._authorizer = registry, authenticator, authorizer
        self._resources, self._paths, self._otherwise = resources, paths, otherwise
        self._telemetry, self._in_flight = telemetry, in_flight
        self._prefixes = [(path, handler) for path, handler in paths.items() if path.endswith("/") and path != "/"]

    async def handle(self, http: HttpRequest) -> Answer:
        began_s = time.perf_counter()
        info: RequestInfo | None = None
        deprecations: list[str] = []
        warnings: list[str] = []
        try:
            query = dict(http.query)
            info = request_info(http.method, _path(http), query)
            slot = self._in_flight.enter(info)
            try:
                answer = await self._answer(http, info, query, deprecations, warnings)
            finally:
                self._in_flight.leave(slot)
        except NoPage:
            answer = page_not_found()
        except StatusError as error:
            answer = refusal(error, yaml=_wants_yaml(http))
            if isinstance(error, Unrouted):
                deprecations.clear()
        except MalformedPath:
            answer = Response(400, b"400 Bad Request", TEXT)
        except (asyncio.CancelledError, ConnectionError):
            raise
        except Exception:
            log.exception("request failed", extra={"method": http.method, "path": http.path})
            answer = refusal(StatusError(500, "InternalError", "Internal error occurred: see the server's log"))
        if not answer.begun:
            answer.headers.setdefault("Cache-Control", "no-cache, private")
            if deprecations or warnings:
                answer.more = warning_headers([*deprecations, *warnings])
            if _is_for_a_person(http):
                _break_lines(answer)
        served = info is not None and self._registry.find(info.group, info.version, info.resource) is not None
        self._telemetry.answered(info, answer.status, time.perf_counter() - began_s, served=served)
        return answer

    async def _answer(
        self,
        http: HttpRequest,
        info: RequestInfo,
        query: dict[str, str],
        deprecations: list[str],
        warnings: list[str],
    ) -> Answer:
        # The usual roles let strangers see health and version, and nothing else.
        user = self._authenticator.authenticate(http.headers, http.transport) or UserInfo.anonymous()
        user = impersonated(user, http.headers, self._authorizer)
        self._authorize(user, info)
        if info.path.startswith("//"):
            return page_not_found()
        handler = self._path_handler(info.path)
        if handler is not None:
            if http.method != "GET" and info.path.rstrip("/") in _ONLY_READ:
                raise not_allowed()
            # Each of these paths has its own forms of answers.
            return await handler(Request(http, info, user, query, Form()))
        resource = self._registry.find(info.group, info.version, info.resource) if info.is_resource else None
        try:
            form = negotiate(http.headers.get("Accept", ""))
        except NotAcceptable as refused:
            custom, collection = resource is not None and resource.custom, info.verb in ("list", "watch")
            raise not_acceptable(refused, custom=custom, collection=collection) from None
        request = Request(http, info, user, query, form, warnings)
        if resource is not None:
            if resource.deprecation:
                deprecations.append(resource.deprecation)
            return await self._resources(request, resource)
        if info.is_resource:
            if (why := not_served(info.group, info.resource)) is not None:
                raise why
            if self._registry.has_built_in(info.group):
                raise no_such_path()
        answer = await self._otherwise(request)
        if answer is not None and http.method != "GET":
            raise not_allowed()
        return answer or page_not_found()

    def _authorize(self, user: UserInfo, info: RequestInfo) -> None:
        access = Access(info.verb, info.group, info.resource, info.subresource, info.name, info.namespace, info.path)
        allowed, why = self._authorizer.allowed(user, access)
        if not allowed:
            raise refused(user, access, why)

    def _path_handler(self, path: str) -> PathHandler | None:
        exact = self._paths.get(path) or (self._paths.get(path[:-1]) if path in _SAME_WITH_SLASH else None)
        if exact is not None:
            return exact
        return next((handler for prefix, handler in self._prefixes if path.startswith(prefix)), None)


def _path(http: HttpRequest) -> str:
    """The path, decoded; bytes that are no text become lone surrogates. What is no path is refused, as in Go."""
    raw = http.path
    if "%" not in raw:
        return raw
    if _NO_ESCAPE.search(raw):
        raise MalformedPath
    return unquote(raw, errors="surrogateescape")


def page_not_found() -> Response:
    return Response(404, PLAIN_404, TEXT)


def _is_for_a_person(http: HttpRequest) -> bool:
    if "pretty" in http.query:
        return query_flag(http.query, "pretty")
    return str(http.headers.get("User-Agent", "")).startswith(_BY_HAND)


def _break_lines(answer: Answer) -> None:
    if isinstance(answer, Response) and answer.content_type == JSON and answer.body:
        answer.body = msgspec.json.format(answer.body, indent=2)


def too_large() -> StatusError:
    return StatusError(413, "RequestEntityTooLarge", f"Request entity too large: limit is {BODY_LIMIT}", details=False)


def refusal(error: StatusError, *, yaml: bool = False) -> Response:
    body = as_yaml(error.body()) if yaml else msgspec.json.encode(error.body()) + b"\n"
    answer = Response(error.code, body, "application/yaml" if yaml else JSON)
    if error.retry_after_s:
        answer.headers["Retry-After"] = str(error.retry_after_s)
    return answer


def _wants_yaml(http: HttpRequest) -> bool:
    try:
        return negotiate(http.headers.get("Accept", "")).yaml
    except NotAcceptable:
        return False


def json_answer(value: object, *, status: int = 200, content_type: str = JSON) -> Response:
    body = value if isinstance(value, bytes) else msgspec.json.encode(value)
    end = b"" if content_type.endswith("yaml") else b"\n"
    return Response(status, body + end, content_type)


def created() -> Response:
    """The answer to what is posted and done, but not kept: a binding, an eviction."""
    done = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
    return json_answer(done, status=201)


def warning_headers(warnings: Sequence[str]) -> list[tuple[str, str]]:
    """As RFC 7234 has them: `299 - "text"`, quotes escaped, no control characters; each text once. What is too much
    for a head is cut: first each text, then those that follow."""
    plain: list[str] = list(dict.fromkeys(_CONTROL.sub(" ", text) for text in warnings))
    if sum(map(len, plain)) > MOST_WARNED:
        cut = [text[:LONGEST_WARNING] for text in plain[:MOST_WARNED]]
        plain = [text for text, total in zip(cut, accumulate(map(len, cut)), strict=True) if total <= MOST_WARNED]
    quoted = (text.replace("\\", "\\\\").replace('"', '\\"') for text in plain)
    return [("Warning", f'299 - "{text}"') for text in quoted]


def details_of(obj: Mapping[str, Any], resource: Resource) -> dict[str, Any]:
    meta = obj["metadata"]
    details = {"name": meta["name"], "group": resource.group, "kind": resource.plural, "uid": meta["uid"]}
    return {key: value for key, value in details.items() if value}
